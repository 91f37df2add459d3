/* What `pepsi auth-check` prints for people: first what becomes of the message, then each method with the records that were asked for, the
 * steps, and the result; last the field that would be added. All text from outside passes cli_text_print(). */
#include "auth_check.h"

#include "proto/dkim/tags.h"
#include "proto/mail/header.h"

static void put(struct str s)
{
	cli_text_print(stdout, s);
}

static void head(const char *name)
{
	printf("%-10s", name);
}

/* --- the beginning */

static void print_message(const struct auth_check *k)
{
	char size[32];
	cli_text_octets(size, sizeof size, (int64_t)k->raw.n);
	head("message");
	put(str_from(!strcmp(k->file, "-") ? "standard input" : k->file));
	printf(", %s\n", size);
	if (k->taken_off)
		printf("%-10s%zu fields that %s had put on top are left out (--as-is: not)\n", "", k->taken_off, k->hostname);
	if (k->line_ends)
		printf("%-10s%zu lines ended without CR; they are checked with CRLF, as they were sent\n", "", k->line_ends);
}

static void print_client(const struct auth_check *k)
{
	head("client");
	printf("[%s] (%s), HELO ", k->ip_text, k->ip_by);
	put(str_from(k->helo[0] ? k->helo : "-"));
	printf(" (%s), MAIL FROM <", k->helo_by);
	put(str_from(k->from));
	printf("> (%s)\n", k->from_by);
}

static void print_listener(const struct auth_check *k)
{
	const struct vet_terms *t = &k->terms;
	head("listener");
	if (k->section)
		put(str_from(k->section + strlen("listener-")));
	else
		fputs("none in the configuration; the defaults", stdout);
	printf(": SPF %s, DKIM %s, ARC %s, DMARC %s\n", auth_mode(t->spf), auth_mode(t->dkim), auth_mode(t->arc), auth_mode(t->dmarc));
}

static void print_decision(const struct auth_check *k)
{
	const struct vet_decision *d = &k->decision;
	head("result");
	if (k->exempt)
		fputs("accepted: this listener does not authenticate mail of this client (AUTHENTICATION_EXEMPT, RELAY_NETWORKS, or all methods off).\n"
		      "          Below is what it would find", stdout);
	else if (d->action == VET_ACCEPTS)
		fputs("accepted: nothing that this listener enforces speaks against it", stdout);
	else if (d->action == VET_QUARANTINES)
		printf("quarantined: accepted, %s%s", k->terms.quarantine ? "and begins at stage " : "with auth.quarantine in its state",
		    k->terms.quarantine ? k->terms.quarantine : "");
	else
		printf("%s: %u %s %s", d->action == VET_REFUSES ? "refused" : "put off", d->code, d->status, d->text);
	putchar('\n');
}

/* --- steps */

static void print_answer(struct json_object *a)
{
	struct json_object *list = NULL;
	struct str status = cli_json_text(a, "status");
	fputs("    DNS   ", stdout);
	put(cli_json_text(a, "name"));
	printf(" %.*s: ", STR_ARG(cli_json_text(a, "type")));
	size_t n = json_object_object_get_ex(a, "records", &list) ? json_object_array_length(list) : 0;
	if (!n) {
		put(status);
		if (cli_json_text(a, "why").n) {
			fputs(", ", stdout);
			put(cli_json_text(a, "why"));
		}
	}
	for (size_t i = 0; i < n; i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		if (i)
			fputs(" | ", stdout);
		put(str_n(json_object_get_string(one), (size_t)json_object_get_string_len(one)));
	}
	putchar('\n');
}

/* What stands in the line above already. */
static bool is_heading(struct str text)
{
	return str_starts(text, STR("HELO of ")) || str_starts(text, STR("MAIL FROM of "));
}

/* The answers and steps of one method; its decisions are told by the caller. */
static void print_steps(const struct auth_check *k, enum verify_method m)
{
	struct str name = str_from(verify_method_name(m));
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < json_object_array_length(k->steps); i++) {
			struct json_object *s = json_object_array_get_idx(k->steps, i), *answer = NULL;
			if (!str_eq(cli_json_text(s, "method"), name))
				continue;
			if (!pass && json_object_object_get_ex(s, "answer", &answer)) {
				print_answer(answer);
			} else if (pass && str_eq(cli_json_text(s, "kind"), STR("says")) && !is_heading(cli_json_text(s, "text"))) {
				fputs("    ", stdout);
				put(cli_json_text(s, "text"));
				putchar('\n');
			}
		}
}

/* --- SPF */

static void print_spf(const struct auth_check *k, const struct spf_check *s, enum verify_method m)
{
	struct buf line = BUF_INIT(4096);
	if (!s)
		return;
	spf_text(s, &line);
	printf("\nSPF of %s %s: %s\n", s->by_helo ? "HELO" : "MAIL FROM", s->domain[0] ? s->domain : "(no domain)", spf_result_name(s->result));
	print_steps(k, m);
	printf("    %u of %u terms that look something up, %u of %u look-ups without an answer\n", s->n_terms, SPF_TERMS_MAX, s->n_voids,
	    s->voids_max ? s->voids_max : SPF_VOIDS_MAX);
	fputs("    => ", stdout);
	put(buf_str(&line));
	putchar('\n');
	buf_free(&line);
	if (s->explanation[0]) {
		printf("    the domain %s explains: ", s->domain);
		put(str_from(s->explanation));
		putchar('\n');
	}
}

/* --- DKIM */

static const char *arithmetic(enum dkim_result r)
{
	return r == DKIM_PASS ? "holds" : r == DKIM_FAIL ? "does not hold" : "was not looked at";
}

/* What of the h= and l= of the i-th signature people ask about. */
static void print_signed_fields(const struct auth_check *k, size_t i)
{
	struct mail_field f;
	struct str rest, fields = STR_NULL;
	if (mail_field_find(k->headers, STR("DKIM-Signature"), i, &f))
		return;
	struct buf value = BUF_INIT(1 << 20);
	if (!mail_field_unfold(&value, f.value)) {
		rest = buf_str(&value);
		struct str tag;
		while (str_word(&rest, ";", &tag)) {
			ptrdiff_t eq = str_chr(tag, '=');
			if (eq > 0 && str_eq(str_trim(str_n(tag.p, (size_t)eq)), STR("h")))
				fields = str_trim(str_skip(tag, (size_t)eq + 1));
		}
		if (fields.n) {
			fputs("    signs the fields ", stdout);
			put(fields);
			putchar('\n');
		}
	}
	buf_free(&value);
}

static const char *hint(const struct dkim_signature *s)
{
	if (s->body == DKIM_FAIL && s->headers == DKIM_PASS)
		return "only the body was changed behind the signer: a footer, a filter, other line ends or another encoding";
	if (s->body == DKIM_PASS && s->headers == DKIM_FAIL)
		return "only header fields were changed behind the signer (a subject, a list's fields), or the key is not the one it signed with";
	if (s->body == DKIM_FAIL && s->headers == DKIM_FAIL)
		return "body and header fields are not those that were signed: another message, or one that was rewritten";
	return NULL;
}

static void print_key(const struct auth_check *k, const struct dkim_signature *s)
{
	char name[DNS_NAME_MAX + 20];
	snprintf(name, sizeof name, "%.*s._domainkey.%.*s", STR_ARG(s->selector), STR_ARG(s->domain));
	for (size_t i = 0; i < json_object_array_length(k->steps); i++) {
		struct json_object *answer = NULL;
		if (json_object_object_get_ex(json_object_array_get_idx(k->steps, i), "answer", &answer) &&
		    str_ieq(cli_json_text(answer, "name"), str_from(name))) {
			print_answer(answer);
			return;
		}
	}
}

static void print_signature(const struct auth_check *k, size_t i)
{
	const struct verify_dkim *d = &verify_verdict(k->v)->dkim[i];
	const struct dkim_signature *s = d->signature;
	printf("\nDKIM signature %zu of d=", i + 1);
	put(s->domain.n ? s->domain : STR("(none)"));
	fputs(" s=", stdout);
	put(s->selector.n ? s->selector : STR("(none)"));
	printf(": %s\n    ", dkim_result_name(s->result));
	put(s->algorithm.n ? s->algorithm : STR("an algorithm we do not know"));
	printf(", %s", s->canon[0] ? s->canon : "an unknown canonicalisation");
	if (s->bits)
		printf(", key of %u bits%s", s->bits, s->testing ? ", t=y: the domain is only trying it out" : "");
	if (s->has_length)
		fputs(", l= limits what is signed of the body", stdout);
	putchar('\n');
	print_key(k, s);
	print_signed_fields(k, i);
	if (s->raw != DKIM_NONE || s->body != DKIM_NONE)
		printf("    the signature of the header fields %s, the body hash %s\n", arithmetic(s->headers), arithmetic(s->body));
	if (s->result == DKIM_FAIL && hint(s))
		printf("    %s\n", hint(s));
	printf("    => %s", dkim_result_name(s->result));
	if (s->reason[0])
		printf(": %s", s->reason);
	else if (s->result == DKIM_PASS)
		printf(", %s", d->aligned ? "and it is aligned with the author's domain" : "but its domain is not aligned with the author's");
	putchar('\n');
}

static void print_dkim(const struct auth_check *k)
{
	const struct verify_verdict *r = verify_verdict(k->v);
	if (!r->dkim_checked)
		return;
	if (!r->n_dkim)
		printf("\nDKIM: %s\n    => %s\n", dkim_result_name(verify_dkim_result(r)), r->dkim_error ? r->dkim_error : "the message is not signed");
	for (size_t i = 0; i < r->n_dkim; i++)
		print_signature(k, i);
	if (r->dkim_ignored)
		printf("    %zu more signatures were not looked at\n", r->dkim_ignored);
}

/* --- ARC, DMARC */

static void print_arc(const struct auth_check *k)
{
	const struct verify_verdict *r = verify_verdict(k->v);
	if (!r->arc || r->arc->result == DKIM_NONE)
		return;
	printf("\nARC: %s\n", dkim_result_name(r->arc->result));
	print_steps(k, VERIFY_ARC);
	if (r->arc->reason[0])
		printf("    => %s: %s\n", dkim_result_name(r->arc->result), r->arc->reason);
	else
		printf("    => %s, %u sets\n", dkim_result_name(r->arc->result), r->arc->n);
}

static void print_dmarc(const struct auth_check *k)
{
	const struct verify_verdict *r = verify_verdict(k->v);
	const struct dmarc_check *c = r->dmarc;
	if (!c)
		return;
	printf("\nDMARC of %s: %s\n", c->author->n ? c->author->domain[0] : "(no author)", dmarc_result_name(c->result));
	print_steps(k, VERIFY_DMARC);
	if (r->record)
		printf("    alignment asked for: DKIM %s, SPF %s\n", r->record->adkim_strict ? "strict" : "relaxed", r->record->aspf_strict ? "strict" : "relaxed");
	printf("    => %s: %s", dmarc_result_name(c->result), c->reason ? c->reason : "");
	if (r->record)
		printf("; the owner asks for \"%s\", to be done is \"%s\"", dmarc_policy_name(c->policy), dmarc_policy_name(r->disposition));
	putchar('\n');
}

static void print_field(const struct auth_check *k)
{
	struct str rest = buf_str(&k->field), line;
	fputs("\nThe field it would add:\n", stdout);
	while (str_word(&rest, "\r\n", &line)) {
		bool more = line.n && (line.p[0] == '\t' || line.p[0] == ' ');
		fputs(more ? "        " : "    ", stdout);
		put(str_trim(line));
		putchar('\n');
	}
}

void auth_print(const struct auth_check *k)
{
	const struct verify_verdict *r = verify_verdict(k->v);
	print_message(k);
	print_client(k);
	print_listener(k);
	print_decision(k);
	if (verify_temporary(r))
		printf("%-10ssome look-ups failed, so not all of this is certain (servers: %s%s)\n", "", k->dns.n_servers ? k->dns.server[0].text : "none",
		    k->dns.n_servers > 1 ? ", …" : "");
	print_spf(k, r->spf_helo, VERIFY_HELO);
	print_spf(k, r->spf, VERIFY_MAILFROM);
	print_dkim(k);
	print_arc(k);
	print_dmarc(k);
	print_field(k);
}
