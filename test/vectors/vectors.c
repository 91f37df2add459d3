/* pepsi-vectors: reads the files, hands each case to its topic, prints a line per case and the sum. Built, not installed. */
#include "vectors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
	const char *name;
	vectors_topic_fn *judge;
	const char *about;
} topics[] = {
	{ "smtp-data", topic_smtp_data, "dot stuffing and end of data: dot-read.json dot-write.json smuggling.json" },
	{ "proxy-protocol", topic_proxy_protocol, "the header of the PROXY protocol: v1.json v2.json" },
	{ "address", topic_address, "envelope addresses and lists of header fields: isemail*.json emailvalidation.json flanker.json address-list.json" },
	{ "eai", topic_eai, "internationalised addresses and domains: addresses.json IdnaTestV2-sample.txt *punycode_tests.json" },
	{ "authres", topic_authres, "Authentication-Results fields: authentication-results.json" },
	{ "psl", topic_psl, "organizational domains by the public suffix list: test_psl.json" },
	{ "dmarc", topic_dmarc, "DMARC: record-syntax.json mailauth-record.json mailauth-verify.json opendmarc-misc.json" },
	{ "spf", topic_spf, "SPF: rfc7208-tests.json rfc4408-tests.json pyspf-adhoc.json mail-auth-scenarios.json" },
	{ "dkim", topic_dkim, "DKIM: mail-dkim.json opendkim.json canonicalisation.json mail-auth/*.txt mailauth-ec/*.eml" },
	{ "mail", topic_mail, "whole messages, reported as JSON for mail_differential.py" },
	{ "mime", topic_mime, "the parts of messages: */*.eml */*.msg */*.txt" },
	{ "headers", topic_headers, "header fields: content_type.json unstructured.json encoded-words.json date.json received.json" },
	{ "identity", topic_identity, "messages of all suites: what is read of their headers is written back: */*.eml */*.msg */*.txt" },
	{ "bounce", topic_bounce, "bounces of all forms, by agreement: flufl.json sisimai.json bounceparser.json" },
	{ "autoreply", topic_autoreply, "automatic replies: vacation.json sisimai/*.eml bounceparser/*.msg" },
	{ "srs", topic_srs, "rewriting of envelope senders: vectors.json mail-srs-properties.json" },
	{ "arc", topic_arc, "ARC chains: arc-draft-validation-tests.json" },
	{ "dane", topic_dane, "TLSA records against certificates: danetest.json" },
	{ "dmarc-reports", topic_dmarc_reports, "DMARC aggregate reports: */*.xml */*.zip */*.gz */*.eml" },
	{ "arf", topic_arf, "feedback reports: */*.eml" },
	{ "tlsrpt", topic_tlsrpt, "TLS reports: txt-record.json reports/*/*.json reports/*/*.eml" },
	{ "mta-sts", topic_mta_sts, "MTA-STS: txt-record.json policy.json mx-match.json postfix-mta-sts-resolver/refdata*.tsv" },
};
static struct {
	struct str folder;
	struct json_object *root;
} suite;

struct str vectors_folder(void)
{
	return suite.folder;
}

struct json_object *vectors_root(void)
{
	return suite.root;
}

struct str vectors_str(struct json_object *o, const char *key)
{
	struct json_object *v;
	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_string))
		return STR_NULL;
	return str_n(json_object_get_string(v), (size_t)json_object_get_string_len(v));
}

bool vectors_bool(struct json_object *o, const char *key, bool *ret)
{
	struct json_object *v;
	if (!json_object_object_get_ex(o, key, &v) || !json_object_is_type(v, json_type_boolean))
		return false;
	*ret = json_object_get_boolean(v);
	return true;
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

int vectors_unhex(struct str hex, struct buf *out)
{
	if (hex.n % 2)
		return -1;
	for (size_t i = 0; i < hex.n; i += 2) {
		int high = nibble(hex.p[i]), low = nibble(hex.p[i + 1]);
		if (high < 0 || low < 0 || buf_addc(out, (char)(high << 4 | low)))
			return -1;
	}
	return 0;
}

void vectors_escape(struct str s, struct buf *out)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		if (c >= 32 && c < 127 && c != '\\')
			buf_addc(out, s.p[i]);
		else
			buf_addf(out, "\\x%02x", c);
	}
}

struct tally {
	unsigned passed, failed;
};

static void judge_one(vectors_topic_fn *judge, const char *file, size_t index, struct json_object *one, struct tally *t)
{
	struct verdict v = { .expected = BUF_INIT(1 << 20), .got = BUF_INIT(1 << 20) };
	struct buf id = BUF_INIT(4096);
	struct str named = vectors_str(one, "id");
	if (!named.p)
		named = vectors_str(one, "file");
	if (named.p)
		vectors_escape(named, &id);
	else
		buf_addf(&id, "%s#%zu", file, index);
	judge(file, one, &v);
	if (v.report) {
		printf("%s %s\n", buf_z(&id), buf_z(&v.got));
		*(v.ok ? &t->passed : &t->failed) += 1;
	} else if (v.ok) {
		printf("ok %s%s%s%s\n", buf_z(&id), v.note ? " (not as the suite says: " : "", v.note ? v.note : "",
		    v.note ? ")" : "");
		t->passed++;
	} else {
		printf("FAIL %s expected %s got %s\n", buf_z(&id), buf_z(&v.expected), buf_z(&v.got));
		t->failed++;
	}
	buf_free(&v.expected);
	buf_free(&v.got);
	buf_free(&id);
}

/* A text file: each line that is neither empty nor a comment is a case {"id": "FILE:NUMBER", "line": …}. */
static int judge_lines(vectors_topic_fn *judge, const char *path, const char *file, struct tally *t)
{
	FILE *f = fopen(path, "re");
	char *line = NULL, id[512];
	size_t cap = 0, number = 0;
	ssize_t n;
	if (!f) {
		fprintf(stderr, "pepsi-vectors: %s: %s\n", path, strerror(errno));
		return -1;
	}
	while ((n = getline(&line, &cap, f)) >= 0) {
		struct str text = str_trim(str_n(line, (size_t)n));
		number++;
		if (!text.n || text.p[0] == '#')
			continue;
		struct json_object *one = json_object_new_object();
		snprintf(id, sizeof id, "%s:%zu", file, number);
		json_object_object_add(one, "id", json_object_new_string(id));
		json_object_object_add(one, "line", json_object_new_string_len(text.p, (int)text.n));
		judge_one(judge, file, number, one, t);
		json_object_put(one);
	}
	free(line);
	fclose(f);
	return 0;
}

/* A message file. */
static int judge_whole(vectors_topic_fn *judge, const char *path, const char *file, struct tally *t)
{
	struct json_object *one = json_object_new_object();
	json_object_object_add(one, "file", json_object_new_string(file));
	json_object_object_add(one, "path", json_object_new_string(path));
	judge_one(judge, file, 0, one, t);
	json_object_put(one);
	return 0;
}

/* {"cases": [ … ]}, or the list itself. Returns 0, or -1: not a file of cases. */
static int judge_file(vectors_topic_fn *judge, const char *path, struct tally *t)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	suite.folder = str_n(path, (size_t)(file - path));
	suite.root = NULL;
	/* files of reports and messages are cases of their own: {"path": FILE} */
	if (judge == topic_dmarc_reports || judge == topic_arf || judge == topic_identity)
		return judge_whole(judge, path, file, t);
	if ((judge == topic_dkim || judge == topic_mime || judge == topic_autoreply || judge == topic_tlsrpt) && !str_iends(str_from(path), STR(".json")))
		return judge_whole(judge, path, file, t);
	if (str_iends(str_from(path), STR(".txt")) || str_iends(str_from(path), STR(".tsv")))
		return judge_lines(judge, path, file, t);
	struct json_object *root = json_object_from_file(path), *cases = root;
	if (!root) {
		fprintf(stderr, "pepsi-vectors: %s: %s", path, json_util_get_last_err());
		return -1;
	}
	/* a report is a case of its own, too */
	if (judge == topic_tlsrpt && !json_object_object_get_ex(root, "cases", NULL)) {
		json_object_put(root);
		return judge_whole(judge, path, file, t);
	}
	if ((json_object_is_type(root, json_type_object) && !json_object_object_get_ex(root, "cases", &cases)) ||
	    !json_object_is_type(cases, json_type_array)) {
		fprintf(stderr, "pepsi-vectors: %s: no array \"cases\"\n", path);
		json_object_put(root);
		return -1;
	}
	suite.root = root;
	for (size_t i = 0; i < json_object_array_length(cases); i++)
		judge_one(judge, file, i, json_object_array_get_idx(cases, i), t);
	json_object_put(root);
	return 0;
}

static int usage(void)
{
	fprintf(stderr, "usage: pepsi-vectors TOPIC FILE...\n");
	for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
		fprintf(stderr, "  %-12s %s\n", topics[i].name, topics[i].about);
	return 2;
}

int main(int argc, char **argv)
{
	struct tally t = { 0 };
	vectors_topic_fn *judge = NULL;
	int bad = 0;
	for (size_t i = 0; argc > 1 && i < sizeof topics / sizeof *topics; i++)
		if (!strcmp(argv[1], topics[i].name))
			judge = topics[i].judge;
	if (argc > 1 && !judge)
		fprintf(stderr, "pepsi-vectors: no topic \"%s\"\n", argv[1]);
	if (!judge || argc < 3)
		return usage();
	for (int i = 2; i < argc; i++)
		bad |= judge_file(judge, argv[i], &t);
	if (judge == topic_bounce) { /* opinions: agreement decides */
		bad |= !topic_bounce_end();
		printf("%u passed, %u failed\n", t.passed, t.failed);
		return bad || fflush(stdout) ? 1 : 0;
	}
	printf("%u passed, %u failed\n", t.passed, t.failed);
	return bad || t.failed || fflush(stdout) ? 1 : 0;
}
