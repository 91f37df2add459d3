/* What a RCPT with an address would be told, for `pepsi recipient test`: the same question, without a session. */
#include "ingress_internal.h"
#include "proto/smtp/address.h"

#include <stdlib.h>

struct test {
	ingress_test_fn fn;
	void *arg;
};

static const char *const answers[] = { [RECIPIENT_YES] = "yes", [RECIPIENT_NO] = "no", [RECIPIENT_AWAY] = "away" };

static void on_answer(void *arg, enum recipient_answer a, const char *source)
{
	struct test t = *(struct test *)arg;
	free(arg);
	t.fn(t.arg, answers[a], source);
}

void ingress_test_recipient(struct ingress *in, struct str address, ingress_test_fn fn, void *arg)
{
	struct smtp_address a;
	struct recipient_ask *ask;
	const char *source = "";
	const struct listening *l = in->listening;
	if (smtp_address_parse(address, true, &a)) {
		fn(arg, "invalid", "");
		return;
	}
	if (!in->recipients || !l || !config_domains_has(l->terms->local, a.domain)) {
		fn(arg, "relay", "");
		return;
	}
	struct test *t = malloc(sizeof *t);
	if (!t) {
		fn(arg, "away", "");
		return;
	}
	*t = (struct test){ fn, arg };
	enum recipient_answer r = recipients_ask(in->recipients, a.local, a.domain, on_answer, t, &ask, &source);
	if (r == RECIPIENT_WAIT)
		return;
	free(t);
	fn(arg, answers[r], source);
}
