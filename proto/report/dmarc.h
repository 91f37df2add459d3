/* DMARC aggregate reports in memory, written as XML (RFC 9990) and read from it (RFC 9990, and RFC 7489 as its many writers write it).
 * No I/O, no clock.
 *
 * A report that goes out, told: the sender fills a struct report from the database's counts; report_write() makes the XML, which
 * report_gzip() packs (pack.h) and report_mail_write() puts into a message (mail.h). One that comes in goes the other way:
 * report_mail_read(), report_unpack(), report_read(). */
#ifndef PROTO_REPORT_DMARC_H
#define PROTO_REPORT_DMARC_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum {
	REPORT_ROWS_MAX = 20000,   /* records read of one report; what is beyond is counted in rows_cut */
	REPORT_DKIM_MAX = 100,     /* signatures of one record (RFC 9990 §3.1.4: no more than 100) */
	REPORT_REASONS_MAX = 4,
	REPORT_TEXT_MAX = 1024,    /* octets kept of one element's text */
	REPORT_DEPTH_MAX = 32,     /* elements within each other; the schema needs 6 */
	REPORT_ELEMENTS_MAX = 4000000, /* elements of one report, known or not */
	REPORT_XML_MAX = 32 << 20, /* octets of XML, unpacked */
	REPORT_MEMORY_MAX = 96 << 20, /* for what is kept of it */
};
#define REPORT_COUNT_MAX UINT64_C(1000000000000) /* messages of one record: more is a lie */

/* Words are lower case and of the schema, or empty: not said, or nothing the schema knows. */
struct report_dkim {
	struct str domain, selector, result, human;
};
struct report_reason {
	struct str type, comment;
};
struct report_row {
	struct str source_ip;          /* as inet_ntop() writes it */
	uint64_t count;
	struct str disposition;        /* none, pass, quarantine, reject */
	bool dkim_pass, spf_pass;      /* aligned */
	struct report_reason reason[REPORT_REASONS_MAX];
	size_t n_reasons;
	struct str header_from, envelope_from, envelope_to; /* domains; envelope_*: empty: not written */
	const struct report_dkim *dkim;
	size_t n_dkim;
	bool has_spf;
	struct str spf_domain, spf_result, spf_human;
};
struct report_policy {
	struct str domain, p, sp, np, adkim, aspf, fo, testing, discovery; /* discovery: psl, treewalk */
};
struct report {
	struct str org, email, contact, id, error, generator;
	int64_t begin, end;            /* seconds since 1970 */
	struct report_policy policy;
	struct report_row *row;
	size_t n_rows;
	/* of one that was read */
	size_t rows_cut, rows_bad;     /* beyond REPORT_ROWS_MAX; without a usable address, count or domain */
	bool rfc9990;                  /* it declares the namespace of RFC 9990 */
};

#define REPORT_NAMESPACE "urn:ietf:params:xml:ns:dmarc-2.0"

/* Appends the XML. Texts may hold anything. 0; or -1: full, no rows, no domain, or a word that the schema does not have where it needs one. */
int report_write(const struct report *r, struct buf *out);
/* Reads one; everything of *ret lies in the arena, which should be of REPORT_MEMORY_MAX. 0, or -1 with *ret_why a constant clause for
 * people. What the schema does not know is stepped over; a report without organisation, id, domain or period is refused. */
int report_read(struct str xml, struct arena *a, struct report *ret, const char **ret_why);

/* -- words (dmarc_words.c) */
enum report_words { REPORT_POLICIES, REPORT_DISPOSITIONS, REPORT_ALIGNMENTS, REPORT_DISCOVERIES, REPORT_TESTING, REPORT_DKIM_RESULTS,
	REPORT_SPF_RESULTS, REPORT_OVERRIDES };
/* The word of that list that s is, without case and in today's spelling (RFC 7489: "sampled_out", "forwarded" become "other"); or
 * STR_NULL. */
struct str report_word(enum report_words list, struct str s);

#endif
