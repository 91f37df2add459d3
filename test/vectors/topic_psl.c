/* Topic psl: the registrable (organizational, RFC 7489 §3.2) domain of a name by the suite's own public_suffix_list.dat. Names are compared
 * folded (A-labels, lower case): that is how domains are kept. */
#include "vectors.h"

#include "proto/auth/dmarc_psl.h"

#include <stdio.h>

/* The list that lies beside the cases, read once. NULL: not there, or libpsl was not. */
static struct dmarc_psl *list(void)
{
	static struct dmarc_psl *psl;
	static bool tried;
	struct buf path = BUF_INIT(8192), text = BUF_INIT(8 << 20);
	if (tried)
		return psl;
	tried = true;
	buf_adds(&path, vectors_folder());
	buf_addz(&path, "public_suffix_list.dat");
	FILE *f = fopen(buf_z(&path), "re");
	char part[65536];
	size_t n;
	while (f && (n = fread(part, 1, sizeof part, f)) > 0)
		buf_add(&text, part, n);
	if (f)
		fclose(f);
	if (text.n)
		psl = dmarc_psl_new(buf_str(&text));
	buf_free(&path);
	buf_free(&text);
	return psl;
}

void topic_psl(const char *file, struct json_object *one, struct verdict *v)
{
	struct str domain = vectors_str(one, "domain"), registrable = vectors_str(one, "registrable");
	char got[DNS_NAME_MAX + 1] = "", want[DNS_NAME_MAX + 1] = "", z[1024];
	(void)file;
	if (!list()) {
		buf_addz(&v->got, dmarc_psl_available() ? "no public_suffix_list.dat beside the cases" : "built without libpsl");
		return;
	}
	snprintf(z, sizeof z, "%.*s", STR_ARG(domain));
	if (dmarc_psl_org(list(), z, got))
		got[0] = 0;
	if (registrable.p && dns_name_fold(registrable, want) < 0)
		buf_addz(&v->expected, "(no domain)");
	v->ok = !v->expected.n && !strcmp(got, want);
	buf_addf(&v->expected, "\"%s\"", want);
	buf_addf(&v->got, "\"%s\"", got);
}
