/* Fuzz: a message that may be a feedback report. What is read of it is clean and bounded, and the date in it can be written and read again. */
#include "base/check.h"
#include "proto/mail/date.h"
#include "proto/mail/header.h"
#include "proto/mail/split.h"
#include "proto/report/arf.h"

#include <arpa/inet.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void text(struct str s)
{
	must(s.n <= ARF_TEXT_MAX && str_is_utf8(s));
	for (size_t i = 0; i < s.n; i++)
		must((unsigned char)s.p[i] >= 0x20 && s.p[i] != 0x7f);
}

static void list(const struct arf_list *l)
{
	must(l->n <= ARF_LIST_MAX && (l->n == ARF_LIST_MAX || !l->cut));
	for (size_t i = 0; i < l->n; i++) {
		must(l->item[i].n);
		text(l->item[i]);
	}
}

static void date(int64_t at)
{
	struct buf b = BUF_INIT(100);
	int64_t back = 0;
	if (at > INT64_C(-2208988800) && at < INT64_C(253402300799)) {
		must(mail_date_write(&b, at * 1000000, 0) == 0 && mail_date_read(buf_str(&b), &back) == 0 && back == at);
	}
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = str_n((const char *)data, size);
	struct arena *a = arena_new(ARF_MEMORY_MAX);
	struct mail_split s;
	struct arf r;
	const char *why = NULL;
	int64_t at;
	unsigned char ip[16];
	char z[64];
	must(a);
	if (mail_date_read(raw, &at) == 0)
		date(at);
	mail_split(raw, &s);
	if (arf_read(s.headers, s.body, a, &r, &why)) {
		must(why && strcmp(why, "out of memory"));
	} else {
		const struct str texts[] = { r.type, r.user_agent, r.version, r.envelope_id, r.mail_from, r.reporting_mta, r.source_ip, r.auth_failure, r.delivery_result,
			r.alignment, r.dkim_domain, r.dkim_identity, r.dkim_selector, r.dkim_selector_dns, r.dkim_adsp_dns, r.spf_dns, r.original.from,
			r.original.message_id };
		const struct arf_list *const lists[] = { &r.rcpt_to, &r.domain, &r.uri, &r.auth_results };
		must(r.type.n && r.kind <= ARF_OPT_OUT && arf_kind_name(r.kind) && (!r.loose || r.original.there));
		for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
			text(texts[i]);
		for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
			list(lists[i]);
		if (r.source_ip.n) {
			memcpy(z, r.source_ip.p, r.source_ip.n);
			z[r.source_ip.n] = 0;
			must(inet_pton(AF_INET, z, ip) == 1 || inet_pton(AF_INET6, z, ip) == 1);
		}
		if (r.has_arrival)
			date(r.arrival);
		must(r.original.headers.n <= ARF_HEADERS_MAX && r.incidents <= ARF_INCIDENTS_MAX);
	}
	arena_free(a);
	return 0;
}
