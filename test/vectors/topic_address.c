/* Topic address: is it a mailbox for SMTP (RFC 5321 §4.1.2, RFC 6531)? What is only valid in a header field (comments, folding,
 * obsolete forms) is not. Fields with lists of mailboxes go to address_list.c. */
#include "vectors.h"

#include "proto/address/address.h"

/* What isemail's categories mean for SMTP (ORIGIN.md). Returns 1, 0, or -1: unknown. */
static int category_valid(struct str c)
{
	static const struct {
		struct str name;
		int valid;
	} categories[] = {
		{ STR_INIT("ISEMAIL_VALID_CATEGORY"), 1 }, { STR_INIT("ISEMAIL_RFC5321"), 1 }, { STR_INIT("ISEMAIL_DNSWARN"), 1 },
		{ STR_INIT("ISEMAIL_CFWS"), 0 },	   { STR_INIT("ISEMAIL_DEPREC"), 0 },  { STR_INIT("ISEMAIL_RFC5322"), 0 },
		{ STR_INIT("ISEMAIL_ERR"), 0 },
	};
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (str_eq(c, categories[i].name))
			return categories[i].valid;
	return -1;
}

/* Cases in which the suite differs from RFC 5321 §4.1.2 and §4.1.3, which decide; or whose text was damaged on its way. */
static const struct {
	struct str id;
	bool valid;
	const char *reason;
} differing[] = {
	{ STR_INIT("original/231"), false, "\"::\" stands for at least two groups; isemail/71 agrees" },
	{ STR_INIT("original/254"), false, "\"::\" stands for at least two groups; isemail/71 agrees" },
	{ STR_INIT("emailvalidation/098"), true, "the \\u007f of the source is plain text here" },
	{ STR_INIT("emailvalidation/099"), true, "the \\u001f of the source is plain text here" },
	{ STR_INIT("emailvalidation/100"), true, "the \\u007f of the source is plain text here" },
	{ STR_INIT("emailvalidation/113"), true, "labels of digits are labels; isemail/24 agrees" },
	{ STR_INIT("emailvalidation/116"), true, "labels of digits are labels; isemail/24 agrees" },
	{ STR_INIT("emailvalidation/127"), true, "labels of digits are labels; isemail/24 agrees" },
	{ STR_INIT("emailvalidation/129"), true, "a label may have one letter" },
};

static const char *differs(struct str id, int *valid)
{
	for (size_t i = 0; i < sizeof differing / sizeof *differing; i++)
		if (str_eq(id, differing[i].id)) {
			*valid = differing[i].valid;
			return differing[i].reason;
		}
	return NULL;
}

static void say(struct buf *b, bool ascii, bool utf8)
{
	buf_addz(b, ascii ? "valid" : utf8 ? "valid-with-smtputf8" : "invalid");
}

/* A suite calls it invalid because an A-label does not decode to a U-label (RFC 5890 §2.3.2.1). For the envelope a domain in
 * ASCII is letters, digits and hyphens (RFC 5321 §4.1.2), whatever it decodes to: the names of real hosts are looked up as they are. */
static bool a_label(struct str address)
{
	for (size_t i = 0; i + 5 < address.n; i++)
		if ((address.p[i] == '@' || address.p[i] == '.') && str_istarts(str_skip(address, i + 1), STR("xn--")))
			return true;
	return false;
}

void topic_address(const char *file, struct json_object *one, struct verdict *v)
{
	struct str text = vectors_str(one, "address"), local = vectors_str(one, "localpart"), category = vectors_str(one, "category");
	struct buf address = BUF_INIT(1 << 16);
	struct smtp_address a;
	bool valid = false, needs_utf8 = false;
	int known = category.p ? category_valid(category) : vectors_bool(one, "valid", &valid) ? valid : -1;
	if (vectors_str(one, "header").p) {
		topic_address_list(one, v);
		return;
	}
	if ((!text.p && !local.p) || known < 0) {
		buf_addz(&v->expected, "an address");
		buf_addz(&v->got, "a case of another form");
		return;
	}
	buf_adds(&address, text.p ? text : local);
	if (!text.p)
		buf_addz(&address, "@example.org");
	v->note = differs(vectors_str(one, "id"), &known);
	/* flanker's are mailboxes of header fields: display names and comments are theirs, the address within is ours */
	if (str_eq(str_from(file), STR("flanker.json")) && smtp_address_parse(buf_str(&address), true, &a)) {
		struct buf inner = BUF_INIT(1 << 16);
		if (vectors_mailbox(buf_str(&address), &inner)) {
			buf_reset(&address);
			buf_adds(&address, buf_str(&inner));
		}
		buf_free(&inner);
	}
	bool told_utf8 = vectors_bool(one, "smtputf8", &needs_utf8);
	int plain = smtp_address_parse(buf_str(&address), false, &a), wide = smtp_address_parse(buf_str(&address), true, &a);
	bool want_plain = known && !needs_utf8, want_wide = known;
	/* a suite that does not speak of SMTPUTF8 means "with all extensions"; one that does means "without" by "invalid" */
	v->ok = told_utf8 ? !plain == want_plain && (!want_wide || !wide) : !wide == want_wide;
	if (!v->ok && !known && !plain && a_label(buf_str(&address))) {
		v->ok = true;
		v->note = "an A-label is letters, digits and hyphens to SMTP";
	}
	say(&v->expected, want_plain, want_wide);
	if (category.p)
		buf_addf(&v->expected, " (%.*s)", STR_ARG(vectors_str(one, "diagnosis")));
	say(&v->got, !plain, !wide);
	buf_addf(&v->got, " (%s) for ", smtp_address_fault_text(wide));
	vectors_escape(buf_str(&address), &v->got);
	buf_free(&address);
}
