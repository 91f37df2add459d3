/* What a RCPT with an address would be told, for `pepsi recipient test`: the same question, without a session. */
#include "before.h"
#include "ingress_internal.h"
#include "proto/smtp/address.h"

#include <stdio.h>
#include <stdlib.h>

struct test {
	ingress_test_fn fn;
	void *arg;
	struct ingress *in;
	char source[80];           /* "stage:NAME" */
	size_t local_n;
	char address[];
};

static const char *const answers[] = { [RECIPIENT_YES] = "yes", [RECIPIENT_NO] = "no", [RECIPIENT_AWAY] = "away" };

static void end(struct test *t, const char *answer, const char *source, const char *why)
{
	t->fn(t->arg, answer, source, why);
	free(t);
}

static void on_answer(void *arg, enum recipient_answer a, const char *source)
{
	end(arg, answers[a], source, "");
}

static void ask_sources(struct test *t)
{
	struct recipient_ask *ask;
	const char *source = "";
	enum recipient_answer r = recipients_ask(t->in->recipients, str_n(t->address, t->local_n), str_from(t->address + t->local_n + 1), on_answer, t, &ask, &source);
	if (r != RECIPIENT_WAIT)
		end(t, answers[r], source, "");
}

static void on_stage(void *arg, enum before_told told, const char *enhanced, const char *text)
{
	struct test *t = arg;
	char why[1200];
	if (told == BEFORE_SILENT) {
		ask_sources(t);
		return;
	}
	snprintf(why, sizeof why, "%s%s%s", enhanced, *enhanced && *text ? " " : "", text);
	end(t, answers[told == BEFORE_KNOWS ? RECIPIENT_YES : told == BEFORE_REFUSES ? RECIPIENT_NO : RECIPIENT_AWAY], t->source, told == BEFORE_KNOWS ? "" : why);
}

/* A stage is asked as if a bounce came. */
void ingress_test_recipient(struct ingress *in, struct str address, ingress_test_fn fn, void *arg)
{
	struct smtp_address a;
	const struct listening *l = in->listening;
	if (smtp_address_parse(address, true, &a)) {
		fn(arg, "invalid", "", "");
		return;
	}
	if (!in->recipients || !l || !config_domains_has(l->terms->local, a.domain)) {
		fn(arg, "relay", "", "");
		return;
	}
	struct test *t = malloc(sizeof *t + a.address.n + 1);
	if (!t) {
		fn(arg, "away", "", "");
		return;
	}
	*t = (struct test){ .fn = fn, .arg = arg, .in = in, .local_n = a.local.n };
	memcpy(t->address, a.address.p, a.address.n);
	t->address[a.address.n] = 0;
	const char *stage = recipients_stage(in->recipients, a.domain);
	if (!stage) {
		ask_sources(t);
		return;
	}
	snprintf(t->source, sizeof t->source, RECIPIENTS_STAGE "%s", stage);
	if (!before_ask(in->before, NULL, stage, STR_NULL, a.address, on_stage, t))
		end(t, answers[RECIPIENT_AWAY], t->source, "");
}
