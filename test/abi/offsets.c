/* Gate 1 of the stage ABI: every published offset, size and constant, asserted at compile time. A line here never changes within a
 * major version: what breaks one of them breaks every module that is out there. Appending a member to struct pepsi_host or
 * struct pepsi_stage changes the size in its SIZE line, adds an AT line (inside #if PEPSI_ABI_MINOR >= n), raises PEPSI_ABI_MINOR, and
 * gets a line in doc/abi-history.md. Built for today's header and for the recorded ones (PEPSI_RECORDED), which must have been the same; those
 * are shorter where something was appended since, so their sizes are not compared.
 *
 * The numbers are those of the LP64 systems (x86_64, aarch64, riscv64, ppc64, s390x), which agree. */
#include <pepsi/stage.h>

#define SAME(what, want, text) _Static_assert((what) == (want), text)
#define AT(type, member, offset, size)                                                                                 \
	SAME(offsetof(struct type, member), offset, "struct " #type ": " #member " has moved");                          \
	SAME(sizeof(((struct type *)0)->member), size, "struct " #type ": the size of " #member " has changed")
#ifdef PEPSI_RECORDED
#define SIZE(type, size) _Static_assert(sizeof(struct type) <= (size), "struct " #type " has shrunk since")
#else
#define SIZE(type, size) SAME(sizeof(struct type), size, "struct " #type ": its size has changed")
#endif
#define CONSTANT(name, value) SAME(name, value, #name " has changed")

#if !defined(__LP64__)
#error "the stage ABI is described for LP64 systems only"
#endif

SAME(PEPSI_ABI_MAJOR, 1, "a new major version: begin this file anew");
#ifndef PEPSI_RECORDED
SAME(PEPSI_ABI_MINOR, 3, "a new minor version: put its number here when doc/abi-history.md has its line");
#endif
SAME(sizeof(void *), 8, "pointers");
SAME(sizeof(size_t), 8, "size_t");

SIZE(pepsi_abi, 8);
AT(pepsi_abi, size, 0, 4);
AT(pepsi_abi, major, 4, 2);
AT(pepsi_abi, minor, 6, 2);

SIZE(pepsi_str, 16);
AT(pepsi_str, p, 0, 8);
AT(pepsi_str, n, 8, 8);

SIZE(pepsi_option, 56);
AT(pepsi_option, name, 0, 8);
AT(pepsi_option, type, 8, 4);
AT(pepsi_option, flags, 12, 4);
AT(pepsi_option, def, 16, 8);
AT(pepsi_option, min, 24, 8);
AT(pepsi_option, max, 32, 8);
AT(pepsi_option, choices, 40, 8);
AT(pepsi_option, help, 48, 8);

SIZE(pepsi_clone, 64);
AT(pepsi_clone, abi, 0, 8);
AT(pepsi_clone, stage, 8, 8);
AT(pepsi_clone, status, 16, 4);
AT(pepsi_clone, retry_s, 20, 4);
AT(pepsi_clone, indices, 24, 8);
AT(pepsi_clone, rcpts, 32, 8);
AT(pepsi_clone, n, 40, 8);
AT(pepsi_clone, state, 48, 8);
AT(pepsi_clone, mail_from, 56, 8);

SIZE(pepsi_host, 472);
AT(pepsi_host, abi, 0, 8);
AT(pepsi_host, conf_str, 8, 8);
AT(pepsi_host, conf_int, 16, 8);
AT(pepsi_host, conf_multi, 24, 8);
AT(pepsi_host, conf_stage_name, 32, 8);
AT(pepsi_host, conf_global, 40, 8);
AT(pepsi_host, report, 48, 8);
AT(pepsi_host, id, 56, 8);
AT(pepsi_host, received_at, 64, 8);
AT(pepsi_host, mail_from, 72, 8);
AT(pepsi_host, n_rcpt, 80, 8);
AT(pepsi_host, rcpt, 88, 8);
AT(pepsi_host, state, 96, 8);
AT(pepsi_host, state_get, 104, 8);
AT(pepsi_host, next_stage, 112, 8);
AT(pepsi_host, bounce_stage, 120, 8);
AT(pepsi_host, lifetime_left, 128, 8);
AT(pepsi_host, runtime_left_ms, 136, 8);
AT(pepsi_host, headers, 144, 8);
AT(pepsi_host, body, 152, 8);
AT(pepsi_host, set_headers, 160, 8);
AT(pepsi_host, set_body, 168, 8);
AT(pepsi_host, set_mail_from, 176, 8);
AT(pepsi_host, set_rcpt_to, 184, 8);
AT(pepsi_host, merge_state, 192, 8);
AT(pepsi_host, clear_state, 200, 8);
AT(pepsi_host, advance, 208, 8);
AT(pepsi_host, advance_to, 216, 8);
AT(pepsi_host, reroute, 224, 8);
AT(pepsi_host, pause, 232, 8);
AT(pepsi_host, pause_with, 240, 8);
AT(pepsi_host, fail, 248, 8);
AT(pepsi_host, finish, 256, 8);
AT(pepsi_host, finish_with, 264, 8);
AT(pepsi_host, advance_or_finish, 272, 8);
AT(pepsi_host, complete_success, 280, 8);
AT(pepsi_host, rewrite_recipients, 288, 8);
AT(pepsi_host, split_off_recipients, 296, 8);
AT(pepsi_host, split_to_one_per_row, 304, 8);
AT(pepsi_host, fan_out, 312, 8);
AT(pepsi_host, enqueue_new, 320, 8);
AT(pepsi_host, log, 328, 8);
AT(pepsi_host, database, 336, 8);
AT(pepsi_host, now_us, 344, 8);
AT(pepsi_host, more_waiting, 352, 8);
#if PEPSI_ABI_MINOR >= 1
AT(pepsi_host, resolve, 360, 8);

SIZE(pepsi_dns_rr, 24);
AT(pepsi_dns_rr, data, 0, 16);
AT(pepsi_dns_rr, preference, 16, 2);
AT(pepsi_dns_rr, usage, 18, 1);
AT(pepsi_dns_rr, selector, 19, 1);
AT(pepsi_dns_rr, matching, 20, 1);
AT(pepsi_dns_rr, reserved, 21, 3);

SIZE(pepsi_dns, 56);
AT(pepsi_dns, abi, 0, 8);
AT(pepsi_dns, status, 8, 4);
AT(pepsi_dns, authenticated, 12, 4);
AT(pepsi_dns, ttl, 16, 4);
AT(pepsi_dns, rr_size, 20, 4);
AT(pepsi_dns, rr, 24, 8);
AT(pepsi_dns, n_rr, 32, 8);
AT(pepsi_dns, canonical, 40, 8);
AT(pepsi_dns, why, 48, 8);
#endif
#if PEPSI_ABI_MINOR >= 2
AT(pepsi_host, event_new, 368, 8);
AT(pepsi_host, event_arm, 376, 8);
AT(pepsi_host, event_free, 384, 8);
AT(pepsi_host, ask, 392, 8);
AT(pepsi_host, ask_cancel, 400, 8);
AT(pepsi_host, complete, 408, 8);
AT(pepsi_host, in_hand, 416, 8);
AT(pepsi_host, mono_ms, 424, 8);
#endif
#if PEPSI_ABI_MINOR >= 3
AT(pepsi_host, metric, 432, 8);
AT(pepsi_host, measure, 440, 8);
AT(pepsi_host, status_report, 448, 8);
AT(pepsi_host, tell_success, 456, 8);
AT(pepsi_host, pause_others, 464, 8);
CONSTANT(PEPSI_DSN_THERE, 0u);
CONSTANT(PEPSI_DSN_RELAYED, 1u);
CONSTANT(PEPSI_DSN_DELIVERED, 2u);
CONSTANT(PEPSI_DSN_EXPANDED, 3u);
CONSTANT(PEPSI_STOP_YIELD, 4u);
CONSTANT(PEPSI_METRIC_COUNTER, 1u);
CONSTANT(PEPSI_METRIC_GAUGE, 2u);
CONSTANT(PEPSI_METRIC_TIMING, 3u);
#endif

SIZE(pepsi_stage, 128);
AT(pepsi_stage, abi, 0, 8);
AT(pepsi_stage, name, 8, 8);
AT(pepsi_stage, version, 16, 8);
AT(pepsi_stage, license, 24, 8);
AT(pepsi_stage, summary, 32, 8);
AT(pepsi_stage, load_class, 40, 4);
AT(pepsi_stage, option_size, 44, 4);
AT(pepsi_stage, caps, 48, 8);
AT(pepsi_stage, options, 56, 8);
AT(pepsi_stage, n_options, 64, 8);
AT(pepsi_stage, validate, 72, 8);
AT(pepsi_stage, open, 80, 8);
AT(pepsi_stage, process, 88, 8);
AT(pepsi_stage, process_batch, 96, 8);
AT(pepsi_stage, can_fuse, 104, 8);
AT(pepsi_stage, close, 112, 8);
#if PEPSI_ABI_MINOR >= 2
AT(pepsi_stage, stop, 120, 8);
#endif

CONSTANT(PEPSI_LOAD_METADATA, 0u);
CONSTANT(PEPSI_LOAD_HEADERS, 1u);
CONSTANT(PEPSI_LOAD_FULL, 2u);
CONSTANT(PEPSI_CAP_DELIVER, (UINT64_C(1) << 0));
CONSTANT(PEPSI_CAP_NET, (UINT64_C(1) << 1));
CONSTANT(PEPSI_CAP_DB, (UINT64_C(1) << 2));
CONSTANT(PEPSI_CAP_HELPER, (UINT64_C(1) << 3));
CONSTANT(PEPSI_CAP_FILES, (UINT64_C(1) << 4));
CONSTANT(PEPSI_CAP_CONCURRENT, (UINT64_C(1) << 5));
CONSTANT(PEPSI_CAP_BOUNCE, (UINT64_C(1) << 6));
#if PEPSI_ABI_MINOR >= 2
CONSTANT(PEPSI_CAP_REWRITES, (UINT64_C(1) << 7));
CONSTANT(PEPSI_CAP_SIGNS, (UINT64_C(1) << 8));
#endif
CONSTANT(PEPSI_OK, 0);
CONSTANT(PEPSI_RETRY, (-1));
CONSTANT(PEPSI_PERMANENT, (-2));
CONSTANT(PEPSI_MISUSE, (-3));
CONSTANT(PEPSI_NONE, 1);
CONSTANT(PEPSI_OPT_STRING, 0u);
CONSTANT(PEPSI_OPT_INT, 1u);
CONSTANT(PEPSI_OPT_BOOL, 2u);
CONSTANT(PEPSI_OPT_DURATION, 3u);
CONSTANT(PEPSI_OPT_SIZE, 4u);
CONSTANT(PEPSI_OPT_CHOICE, 5u);
CONSTANT(PEPSI_OPT_PATH, 6u);
CONSTANT(PEPSI_OPT_STAGE, 7u);
CONSTANT(PEPSI_OPT_LIST, 8u);
CONSTANT(PEPSI_OPT_SECRET, 9u);
CONSTANT(PEPSI_OPT_MULTI, 10u);
CONSTANT(PEPSI_OPTF_REQUIRED, 1u);
#if PEPSI_ABI_MINOR >= 1
CONSTANT(PEPSI_OPTF_FILE_ONLY, 2u);
#endif
CONSTANT(PEPSI_CLONE_PENDING, 0u);
CONSTANT(PEPSI_CLONE_RETRY, 1u);
CONSTANT(PEPSI_CLONE_FAILED, 2u);
#if PEPSI_ABI_MINOR >= 1
CONSTANT(PEPSI_DNS_A, 1u);
CONSTANT(PEPSI_DNS_NS, 2u);
CONSTANT(PEPSI_DNS_CNAME, 5u);
CONSTANT(PEPSI_DNS_PTR, 12u);
CONSTANT(PEPSI_DNS_MX, 15u);
CONSTANT(PEPSI_DNS_TXT, 16u);
CONSTANT(PEPSI_DNS_AAAA, 28u);
CONSTANT(PEPSI_DNS_TLSA, 52u);
#if PEPSI_ABI_MINOR >= 3
CONSTANT(PEPSI_DNS_FRESH, 0x10000u);
#endif
CONSTANT(PEPSI_DNS_OK, 0u);
CONSTANT(PEPSI_DNS_NODATA, 1u);
CONSTANT(PEPSI_DNS_NXDOMAIN, 2u);
CONSTANT(PEPSI_DNS_TEMPFAIL, 3u);
#endif
CONSTANT(PEPSI_LOG_ERROR, 0);
CONSTANT(PEPSI_LOG_WARN, 1);
CONSTANT(PEPSI_LOG_INFO, 2);
CONSTANT(PEPSI_LOG_DEBUG, 3);

/* The one symbol. */
_Static_assert(sizeof PEPSI_STAGE_SYMBOL == sizeof "pepsi_stage_descriptor", "the name of the symbol has changed");

int main(void)
{
	return 0; /* all of it was said at compile time */
}
