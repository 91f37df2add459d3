/* <pepsi/stage.h>: the stage ABI, version 1.3. The only thing a stage module and its host agree on.
 *
 * A stage module is a shared object that exports one symbol, `pepsi_stage_descriptor`, made by PEPSI_STAGE(). The host
 * loads it in a worker process (never in the daemon), calls open() once, then process() for each message of the stage,
 * and close() before it exits. One message through a module, told:
 *
 *     the dispatcher claims row 4711 for [stage-srs] and hands it to a worker of that stage;
 *     the worker loads the columns that load_class names and calls process(worker, msg);
 *     the module reads host->mail_from(msg), calls host->set_mail_from(msg, …), then host->advance(msg);
 *     process() returns PEPSI_OK; the host writes the new sender and the new stage in one UPDATE.
 *
 * Rules
 *  - Exactly one terminal per pass that returns PEPSI_OK. Fan-out helpers come before it. Nothing is written to the
 *    database until process() has returned; what it returns decides: PEPSI_OK commits, anything else forgets what the
 *    module asked for and lets the host retry, fail or bounce the message.
 *  - Memory the host hands out lives until the hook that got it returns. What the module hands in is copied.
 *    Neither side frees the other's memory.
 *  - Per-worker state lives behind *ret_worker; no mutable globals. No thread may call the host. Standard output is
 *    the worker's status channel: the host points descriptor 1 elsewhere, do not reopen it.
 *  - Versions: `major` must be equal; `minor` of the module is the lowest it can live with. Members are only ever
 *    appended to structs, each with a comment "since 1.n"; ask PEPSI_HAS(host, member) before using a later one.
 *  - Only fixed-width integers, pointers and struct pepsi_str cross this border. Text is UTF-8 or mail octets with a
 *    length; JSON is text (RFC 8259), one object. Times are microseconds since the Unix epoch, spans are seconds.
 *
 * This header compiles as C11 and C++17. Reference: pepsi-stage(7). */
#ifndef PEPSI_STAGE_H
#define PEPSI_STAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PEPSI_ABI_MAJOR 1
#define PEPSI_ABI_MINOR 3

/* First member of every public struct, frozen for ever. */
struct pepsi_abi {
	uint32_t size;  /* sizeof the struct as its writer knew it */
	uint16_t major;
	uint16_t minor;
};
#define PEPSI_ABI_OF(type) { (uint32_t)sizeof(type), PEPSI_ABI_MAJOR, PEPSI_ABI_MINOR }

/* Does `ptr` (a struct that begins with .abi) reach as far as `member`, and is it set? */
#define PEPSI_HAS(ptr, member)                                                                                         \
	((ptr)->abi.size >= (uint32_t)((const char *)&(ptr)->member - (const char *)(ptr)) + sizeof((ptr)->member) &&    \
	    (ptr)->member)

struct pepsi_str {
	const char *p; /* octets; not NUL-terminated unless said so; may be NULL when n is 0 */
	size_t n;
};

/* Load classes: which columns the host loads. Reading beyond what was declared is an error of the pass. */
#define PEPSI_LOAD_METADATA 0u /* envelope and state */
#define PEPSI_LOAD_HEADERS 1u  /* and the header block */
#define PEPSI_LOAD_FULL 2u     /* and the body */

/* Capabilities */
#define PEPSI_CAP_DELIVER (UINT64_C(1) << 0)    /* finish() means delivered; without it, discarded (statistics) */
#define PEPSI_CAP_NET (UINT64_C(1) << 1)        /* opens network sockets, or calls resolve() */
#define PEPSI_CAP_DB (UINT64_C(1) << 2)         /* asks for host->database() */
#define PEPSI_CAP_HELPER (UINT64_C(1) << 3)     /* forks, or executes a helper program; without it the kernel refuses both */
#define PEPSI_CAP_FILES (UINT64_C(1) << 4)      /* opens files of its own */
#define PEPSI_CAP_CONCURRENT (UINT64_C(1) << 5) /* many messages at once from the host's event loop: see "Concurrency". Since 1.2 */
#define PEPSI_CAP_BOUNCE (UINT64_C(1) << 6)     /* turns messages into delivery status notifications (clear_state) */
#define PEPSI_CAP_REWRITES (UINT64_C(1) << 7)   /* may change headers or body: no such stage behind one that signs. Since 1.2 */
#define PEPSI_CAP_SIGNS (UINT64_C(1) << 8)      /* signs the message as it is: only adds fields to it. Since 1.2 */

/* What hooks return, and what host functions return when they can fail. */
#define PEPSI_OK 0
#define PEPSI_RETRY (-1)     /* environment: try this message again later, until the stage's MAX_LIFETIME */
#define PEPSI_PERMANENT (-2) /* this message can never pass this stage: it becomes failed */
#define PEPSI_MISUSE (-3)    /* from host functions: the call broke a rule above; the pass fails and says which */
#define PEPSI_NONE 1         /* from host functions: nothing there */

/* From process() of a CONCURRENT module: the message stays with the module until complete(). Since 1.2. */
#define PEPSI_PENDING 2

/* Option types: how the configuration text is parsed and what conf_* call reads it. */
#define PEPSI_OPT_STRING 0u   /* conf_str */
#define PEPSI_OPT_INT 1u      /* conf_int, decimal */
#define PEPSI_OPT_BOOL 2u     /* conf_int: 0 or 1; YES/NO */
#define PEPSI_OPT_DURATION 3u /* conf_int, seconds; "30 s", "5 min", "1 h", "2 d" */
#define PEPSI_OPT_SIZE 4u     /* conf_int, octets; "50 MiB" */
#define PEPSI_OPT_CHOICE 5u   /* conf_str, lower case; one of choices */
#define PEPSI_OPT_PATH 6u     /* conf_str; $VAR and ${VAR:-default} expanded */
#define PEPSI_OPT_STAGE 7u    /* conf_str; the name of a configured stage */
#define PEPSI_OPT_LIST 8u     /* conf_str; words separated by blanks */
#define PEPSI_OPT_SECRET 9u   /* conf_str; never shown or logged */
#define PEPSI_OPT_MULTI 10u   /* conf_multi: the option may stand several times, name may end in '*' */

#define PEPSI_OPTF_REQUIRED 1u
/* Never from the database (pepsi config set): what decides where mail may be put, what is run, or whom to trust. PATH and SECRET are so
 * by their type. Since 1.1. */
#define PEPSI_OPTF_FILE_ONLY 2u

struct pepsi_option {
	const char *name;    /* upper case; with PEPSI_OPT_MULTI a trailing '*' takes any name with that beginning */
	uint32_t type;       /* PEPSI_OPT_* */
	uint32_t flags;      /* PEPSI_OPTF_* */
	const char *def;     /* default as text, NULL: none */
	int64_t min, max;    /* for numbers; both 0: no limit */
	const char *choices; /* for CHOICE: words separated by blanks */
	const char *help;    /* one line; feeds the manual, the validator and the editor */
};

/* What a report of success says of the recipients (complete_success; since 1.3, before that any value but 0 was RELAYED). */
#define PEPSI_DSN_THERE 0u     /* nothing: the next hop offers DSN and reports itself */
#define PEPSI_DSN_RELAYED 1u   /* handed to a system that sends no such reports */
#define PEPSI_DSN_DELIVERED 2u /* in the mailbox */
#define PEPSI_DSN_EXPANDED 3u  /* tell_success() only: an alias became the addresses it stands for */

struct pepsi_msg;    /* one message in one pass; opaque */
struct pepsi_conf;   /* one stage's configuration; opaque */
struct pepsi_report; /* where validate() puts its findings; opaque */
struct pg_conn;      /* libpq's PGconn */

/* A message made out of the current one on the server (same headers and body), for pause_with() and finish_with(), or
 * a group of fan_out(). Recipients: either indices into this row's recipients, or fresh addresses. */
struct pepsi_clone {
	struct pepsi_abi abi;
	const char *stage;        /* where it starts; required */
	uint32_t status;          /* PEPSI_CLONE_* */
	uint32_t retry_s;         /* for PEPSI_CLONE_RETRY: when */
	const uint32_t *indices;  /* n recipients by index; their dsn.rcpt entries go along */
	const char *const *rcpts; /* or n fresh addresses (indices NULL) */
	size_t n;
	const char *state;        /* JSON object merged into the clone's state, or NULL */
	const char *mail_from;    /* NULL: the same sender */
};
#define PEPSI_CLONE_PENDING 0u
#define PEPSI_CLONE_RETRY 1u  /* paused at its stage; keeps received_at */
#define PEPSI_CLONE_FAILED 2u /* failed, for the operator; keeps received_at */

#define PEPSI_LOG_ERROR 0
#define PEPSI_LOG_WARN 1
#define PEPSI_LOG_INFO 2
#define PEPSI_LOG_DEBUG 3

/* Types of DNS records, for resolve(); the numbers of the protocol. Since 1.1. */
#define PEPSI_DNS_A 1u
#define PEPSI_DNS_NS 2u
#define PEPSI_DNS_CNAME 5u
#define PEPSI_DNS_PTR 12u
#define PEPSI_DNS_MX 15u
#define PEPSI_DNS_TXT 16u
#define PEPSI_DNS_AAAA 28u
#define PEPSI_DNS_TLSA 52u
/* Since 1.3. Beside the type in ask(): what the worker has in its cache is forgotten and asked anew: for a question whose answer has turned out to be of no
 * use. The resolver behind it may still remember. */
#define PEPSI_DNS_FRESH 0x10000u

/* What an answer is. Since 1.1. */
#define PEPSI_DNS_OK 0u       /* records are there */
#define PEPSI_DNS_NODATA 1u   /* the name exists, without records of this type */
#define PEPSI_DNS_NXDOMAIN 2u /* the name does not exist, or cannot be a domain name */
#define PEPSI_DNS_TEMPFAIL 3u /* not known: never to be taken for "no". PEPSI_RETRY is what to do about it */

/* One record. Names are lower case, A-labels, without a final dot, NUL-terminated; the root is "". Since 1.1. */
struct pepsi_dns_rr {
	struct pepsi_str data; /* A: 4 octets, AAAA: 16; TXT: all strings joined; NS, CNAME, PTR, MX: a name; TLSA: association data */
	uint16_t preference;   /* MX; records come sorted by it */
	uint8_t usage, selector, matching; /* TLSA */
	uint8_t reserved[3];
};
/* An answer. Since 1.1. */
struct pepsi_dns {
	struct pepsi_abi abi;
	uint32_t status;        /* PEPSI_DNS_OK … */
	uint32_t authenticated; /* 1: validated by DNSSEC, and told by a resolver the operator trusts (DANE) */
	uint32_t ttl;           /* seconds */
	uint32_t rr_size;       /* the stride of rr[]: pepsi_dns_at() */
	const struct pepsi_dns_rr *rr;
	size_t n_rr;            /* 0 unless PEPSI_DNS_OK */
	const char *canonical;  /* the name behind all CNAMEs */
	const char *why;        /* for people: why it is a TEMPFAIL; NULL */
};
static inline const struct pepsi_dns_rr *pepsi_dns_at(const struct pepsi_dns *a, size_t i)
{
	return (const struct pepsi_dns_rr *)(const void *)((const char *)a->rr + i * a->rr_size);
}

/* Concurrency, since 1.2. A module with PEPSI_CAP_CONCURRENT drives many messages at once in one worker, over the host's event
 * loop. process() begins a message and returns PEPSI_PENDING; later, from a callback, the module calls the terminal and then
 * complete(msg, PEPSI_OK). Told:
 *
 *     process(worker, host, msg)     asks for the MX records, returns PEPSI_PENDING: nothing waits for this message now
 *     answer(arg, dns)               a callback: in_hand(msg); connects; watch()es the socket
 *     ready(arg, PEPSI_IO_READ)      … in_hand(msg); reads, writes, arm()s again
 *     …                              complete_success(msg, …); complete(msg, PEPSI_OK): msg is gone
 *
 * Rules
 *  - No callback may block, nor take long: while it runs, every other message of the worker waits. (database() may be called, and is NULL
 *    until the connection is there; its statements block, unless they are sent with PQsendQueryParams() and the socket is watched.)
 *  - Memory the host handed out for a message lives until complete().
 *  - Callbacks come from the loop, one at a time, never from within a call of the module's.
 *  - Who is to blame if a callback crashes or hangs: the message that in_hand() named last within it; during process() and stop()
 *    theirs. A callback that works for nobody in particular is nobody's fault: then all that the worker holds are tried one by one.
 *  - A worker holds up to QUEUE_LIMIT messages. Those to the same domain (of the first recipient) come to the same worker as long as
 *    it lives: what it knows of a destination, and its connections, are worth keeping.
 *  - MAX_RUNTIME counts from process(). When a message is near it, and when the worker is to leave, the host calls stop(); what is not then
 *    complete ten seconds later dies with the worker and is tried again elsewhere, as if it had crashed (RUNTIME) or blamelessly (LEAVE).
 *  - Such a stage is never fused with another, and is no stage for BEFORE_ACCEPT. */
#define PEPSI_IO_READ 1u    /* the descriptor can be read, or is at its end */
#define PEPSI_IO_WRITE 2u   /* … written, or its connect() is over */
#define PEPSI_IO_TIMEOUT 4u /* the time is up */

#define PEPSI_STOP_RUNTIME 1u /* this message has had its time */
#define PEPSI_STOP_LEAVE 2u   /* the worker is to leave */
/* The worker gets nothing new, and its successor is there: a message that has done nothing yet is better there (pause() of 0 seconds), under the configuration and
 * the operator's rules of now; one that is on its way goes on. Only for modules built for 1.3. */
#define PEPSI_STOP_YIELD 4u

struct pepsi_event; /* a descriptor that is waited for, a timer, or both; opaque */
struct pepsi_query; /* a question under way; opaque */
typedef void (*pepsi_event_fn)(void *arg, uint32_t what);                    /* PEPSI_IO_* */
typedef void (*pepsi_dns_fn)(void *arg, const struct pepsi_dns *answer);     /* the answer lives until the callback returns */

/* Metrics, since 1.3: what a module counts shows at /metrics and in `pepsi status` under the name of its stage. Told:
 *
 *     open()       d = host->metric(conf, PEPSI_METRIC_COUNTER, "deliveries", "result", "What became of messages.")
 *     process()    host->measure(d, "delivered", 1)
 *     /metrics     pepsi_module_deliveries_total{stage="relay",result="delivered"} 1
 *
 * Rules
 *  - Names are [a-z_], 2 to 40 octets, not ending in _total, _seconds, _bucket, _sum or _count: the host puts pepsi_module_ before and, by the type,
 *    _total or _seconds behind. A metric has one label or none.
 *  - The values of a label are few, and known to you: results, never addresses or domains. A stage has at most 64 metrics and 256 series (one of a timing
 *    counts as four); what is beyond goes to the value "other". Octets that do not fit ([A-Za-z0-9_.:/@+-], 48 of them) become underscores.
 *  - What is measured counts at once, whatever becomes of the pass: a message that is tried again is counted again.
 *  - The daemon hears of it at most once a second; what was not yet told is lost when the worker dies.
 *  - A counter grows. A gauge is a level of this worker: shown is the sum over the stage's workers that live. A timing is a histogram. */
#define PEPSI_METRIC_COUNTER 1u
#define PEPSI_METRIC_GAUGE 2u
#define PEPSI_METRIC_TIMING 3u

struct pepsi_metric; /* opaque */

/* What the host does for a module. The table is valid from open() until close() has returned. `msg` is always the
 * message process() was given. Functions that return int32_t give PEPSI_OK or what is said. */
struct pepsi_host {
	struct pepsi_abi abi;

	/* -- configuration (open, validate, process) */
	const char *(*conf_str)(const struct pepsi_conf *, const char *name);            /* NUL-terminated or NULL */
	int64_t (*conf_int)(const struct pepsi_conf *, const char *name);                /* the default when unset; 0 without one */
	/* i-th (from 0) entry of a MULTI option: its full name and value; PEPSI_NONE behind the last. */
	int32_t (*conf_multi)(const struct pepsi_conf *, const char *name, size_t i, const char **ret_name, const char **ret_value);
	const char *(*conf_stage_name)(const struct pepsi_conf *);                       /* "init" of [stage-init] */
	const char *(*conf_global)(const struct pepsi_conf *, const char *section, const char *option); /* e.g. "pepsi","HOSTNAME" */
	/* One finding of validate(): option may be NULL. Each is shown with file and line of the option. */
	void (*report)(struct pepsi_report *, const char *option, const char *text);

	/* -- the message: metadata */
	int64_t (*id)(struct pepsi_msg *);
	int64_t (*received_at)(struct pepsi_msg *);                  /* microseconds */
	struct pepsi_str (*mail_from)(struct pepsi_msg *);           /* without <>; empty: the null sender */
	size_t (*n_rcpt)(struct pepsi_msg *);
	struct pepsi_str (*rcpt)(struct pepsi_msg *, size_t i);      /* without <>; empty when i is out of range */
	struct pepsi_str (*state)(struct pepsi_msg *);               /* the whole state, JSON text, NUL-terminated */
	/* One value of the state by a dotted path ("dsn.ret", "dsn.rcpt.0.notify"): strings come bare, others as
	 * JSON text. PEPSI_NONE when it is absent or null. */
	int32_t (*state_get)(struct pepsi_msg *, const char *path, struct pepsi_str *ret);
	const char *(*next_stage)(struct pepsi_msg *);               /* NEXT_STAGE, or NULL */
	const char *(*bounce_stage)(struct pepsi_msg *);             /* BOUNCE_STAGE, or NULL */
	int64_t (*lifetime_left)(struct pepsi_msg *);                /* seconds until MAX_LIFETIME; may be negative */
	int64_t (*runtime_left_ms)(struct pepsi_msg *);              /* until MAX_RUNTIME kills this worker */

	/* -- the message: content. headers: the header block, CRLF line ends, without the empty line. Raw message =
	 * headers, CRLF, body. PEPSI_MISUSE when load_class did not declare it. */
	int32_t (*headers)(struct pepsi_msg *, struct pepsi_str *ret);
	int32_t (*body)(struct pepsi_msg *, struct pepsi_str *ret);

	/* -- content setters: kept in memory, seen by later readers, written with the terminal. Refused (PEPSI_MISUSE)
	 * when the text could not be stored or sent: bare CR or LF in headers, no valid UTF-8 in addresses, no JSON. */
	int32_t (*set_headers)(struct pepsi_msg *, struct pepsi_str);
	int32_t (*set_body)(struct pepsi_msg *, struct pepsi_str);
	int32_t (*set_mail_from)(struct pepsi_msg *, struct pepsi_str);
	int32_t (*set_rcpt_to)(struct pepsi_msg *, const struct pepsi_str *, size_t n);
	int32_t (*merge_state)(struct pepsi_msg *, const char *json); /* top-level keys replace, null removes */
	int32_t (*clear_state)(struct pepsi_msg *);                   /* bounce stages only (PEPSI_CAP_BOUNCE) */

	/* -- terminals; `state` is a JSON object to merge, or NULL */
	int32_t (*advance)(struct pepsi_msg *);                       /* to NEXT_STAGE; PEPSI_MISUSE without one */
	int32_t (*advance_to)(struct pepsi_msg *, const char *stage);
	int32_t (*reroute)(struct pepsi_msg *, const char *stage, const char *state);
	int32_t (*pause)(struct pepsi_msg *, const char *state, uint32_t secs);
	/* Pause, keeping only the recipients keep[0..n_keep) (NULL: all), with clones made in the same commit. */
	int32_t (*pause_with)(struct pepsi_msg *, const char *merge, uint32_t secs, const uint32_t *keep, size_t n_keep,
	    const struct pepsi_clone *clones, size_t n_clones);
	int32_t (*fail)(struct pepsi_msg *, const char *state);
	int32_t (*finish)(struct pepsi_msg *);
	int32_t (*finish_with)(struct pepsi_msg *, const struct pepsi_clone *clones, size_t n_clones);
	int32_t (*advance_or_finish)(struct pepsi_msg *);
	/* The delivery stages' happy end: recipients (indices; NULL: all) were handed to a next hop. Those whose sender
	 * asked for NOTIFY=SUCCESS, where ORIGINATE_SUCCESS_DSN is on, go to BOUNCE_STAGE as a success report when
	 * `dsn_here` is not 0 (the next hop does not take over the duty, RFC 3461 §5.2.2); then advance_or_finish.
	 * dsn_here: PEPSI_DSN_*; what a host does not know is PEPSI_DSN_RELAYED to it. */
	int32_t (*complete_success)(struct pepsi_msg *, const uint32_t *indices, size_t n, uint32_t dsn_here);
	/* All recipients and a state anew, then NEXT_STAGE, in one commit. */
	int32_t (*rewrite_recipients)(struct pepsi_msg *, const char *const *rcpts, size_t n, const char *state);

	/* -- fan-out: before the terminal; refused after content setters. Indices always count the recipients as process() got
	 * them, whatever was split off since; the same holds for the terminals' indices. */
	int32_t (*split_off_recipients)(struct pepsi_msg *, const uint32_t *indices, size_t n, const char *stage);
	int32_t (*split_to_one_per_row)(struct pepsi_msg *);
	int32_t (*fan_out)(struct pepsi_msg *, const struct pepsi_clone *groups, size_t n_groups,
	    const uint32_t *keep, size_t n_keep);
	/* A side message of its own, committed with this pass. */
	int32_t (*enqueue_new)(struct pepsi_msg *, const char *stage, struct pepsi_str mail_from, const char *const *rcpts,
	    size_t n, struct pepsi_str headers, struct pepsi_str body, const char *state);

	/* -- services. host functions without a message take the conf open() was given */
	void (*log)(struct pepsi_msg *, int32_t level, const char *text); /* msg may be NULL; one line, escaped by the host */
	struct pg_conn *(*database)(const struct pepsi_conf *);           /* PEPSI_CAP_DB; NULL: not reachable now */
	int64_t (*now_us)(void);                                          /* wall clock */
	/* 1 when other messages wait behind this one: worth keeping a connection open. */
	int32_t (*more_waiting)(struct pepsi_msg *);
	/* Since 1.1. Asks the DNS for (name, PEPSI_DNS_*) and waits: [pepsi-dns] LOOKUP_DEADLINE at most, MAX_QUERIES and
	 * MESSAGE_DEADLINE for the whole pass, never beyond MAX_RUNTIME; behind these limits every answer is a TEMPFAIL. Answers are
	 * cached in the worker. Needs PEPSI_CAP_NET. NULL: out of memory, or a broken rule (PEPSI_MISUSE of the pass). */
	const struct pepsi_dns *(*resolve)(struct pepsi_msg *, const char *name, uint32_t type);

	/* -- concurrency (PEPSI_CAP_CONCURRENT), since 1.2; conf is the one open() was given */
	/* An event for a descriptor (which stays the module's, and is closed after event_free), or a timer (fd -1); not armed. NULL:
	 * out of memory. */
	struct pepsi_event *(*event_new)(const struct pepsi_conf *, int fd, pepsi_event_fn, void *arg);
	/* Calls back once: when one of `what` (PEPSI_IO_READ, PEPSI_IO_WRITE) is so, or after timeout_ms (below 0: never). Replaces what
	 * was armed; what 0 and a time below 0 disarms. PEPSI_OK, or PEPSI_RETRY: out of memory. */
	int32_t (*event_arm)(struct pepsi_event *, uint32_t what, int64_t timeout_ms);
	void (*event_free)(struct pepsi_event *); /* allowed within its own callback; NULL is fine */
	/* resolve() without waiting: calls back once, with the limits of the message (msg), or, when msg is NULL, those of one message for each
	 * question. A cached answer comes from the loop, too. NULL: out of memory, or a broken rule. */
	struct pepsi_query *(*ask)(const struct pepsi_conf *, struct pepsi_msg *msg, const char *name, uint32_t type, pepsi_dns_fn, void *arg);
	void (*ask_cancel)(struct pepsi_query *); /* no callback then; not after the callback began. complete() cancels those of its message */
	/* The end of a pending message: rc is what process() would have returned after the terminal. The message is gone when this
	 * returns. PEPSI_OK, or PEPSI_MISUSE: it is not pending. */
	int32_t (*complete)(struct pepsi_msg *, int32_t rc);
	/* The running callback works for this message now (NULL: for none). */
	void (*in_hand)(struct pepsi_msg *);
	int64_t (*mono_ms)(void); /* monotonic, milliseconds */

	/* -- metrics, since 1.3; conf is the one open() was given */
	/* A metric of this stage: PEPSI_METRIC_*, its name, the name of its label (NULL: none) and one line of plain ASCII about it (NULL: none; up to
	 * 120 octets, no quotes). The same one again gives the same handle, valid until close() has returned. NULL: a broken rule (logged), or memory;
	 * measure() does nothing then. */
	struct pepsi_metric *(*metric)(const struct pepsi_conf *, uint32_t type, const char *name, const char *label, const char *help);
	/* Counter: n more (0: the series shows, at nothing). Gauge: it is n now. Timing: something took n microseconds. value: the label's; NULL or ignored
	 * where there is none. */
	void (*measure)(struct pepsi_metric *, const char *value, int64_t n);
	/* What this worker knows that no number can tell, for people: one JSON object of up to 48 KiB, in the place of the one before; NULL: nothing any
	 * more. The daemon takes it every five seconds at most and keeps it while the worker lives. Its member
	 * "destinations" is an array of objects, worst first, that `pepsi queue destinations` shows. PEPSI_OK, PEPSI_MISUSE: it is none, PEPSI_RETRY:
	 * out of memory. */
	int32_t (*status_report)(const struct pepsi_conf *, const char *json);

	/* -- reports, since 1.3 */
	/* The end of recipients (indices) whose message goes on to others: what = PEPSI_DSN_EXPANDED, they were an alias of several. Those whose sender
	 * asked for NOTIFY=SUCCESS, where ORIGINATE_SUCCESS_DSN is on and there is a BOUNCE_STAGE, are told of in one report, made in the commit of this
	 * pass; for them ret_told[i] is 1, and NOTIFY of what they become is to be without SUCCESS (RFC 3461 §5.2.7.3), for the others 0. Once, before
	 * content or state is changed, and before the terminal. */
	int32_t (*tell_success)(struct pepsi_msg *, const uint32_t *indices, size_t n, uint32_t what, uint8_t *ret_told);

	/* Before pause(), since 1.3: what else waits at this stage for the domain that all recipients of this message have (of those with one domain only)
	 * would fare alike, so it is put off with it, in the same commit, unseen: due one after the other, one in each_ms, the first after
	 * first_s seconds; an hour at most, and not beyond its lifetime. No attempt is counted; why becomes its state.last_error. Messages that an
	 * operator wants tried, or that have a deadline, come as ever. Forgotten when the pass does not end with a pause. PEPSI_OK; PEPSI_NONE: this
	 * message has no such domain (or memory is out), nothing is put off. */
	int32_t (*pause_others)(struct pepsi_msg *, uint32_t first_s, uint32_t each_ms, const char *why);
};

/* What a module exports: one const object. */
struct pepsi_stage {
	struct pepsi_abi abi;
	const char *name; /* equals the file name without .so, or loading is refused */
	const char *version, *license, *summary;
	uint32_t load_class;
	uint32_t option_size; /* sizeof(struct pepsi_option): the stride of options[] */
	uint64_t caps;
	const struct pepsi_option *options;
	size_t n_options;
	/* No I/O, but that files may be read which options name. Reports every fault through host->report; returns PEPSI_OK however many there are. Optional. */
	int32_t (*validate)(const struct pepsi_host *, const struct pepsi_conf *, struct pepsi_report *);
	/* Once per worker, after the fork, under the stage's account. Optional. Not PEPSI_OK: the worker ends. */
	int32_t (*open)(const struct pepsi_host *, const struct pepsi_conf *, void **ret_worker);
	int32_t (*process)(void *worker, const struct pepsi_host *, struct pepsi_msg *);
	/* METADATA stages only; optional; one PEPSI_* per message into ret_status. */
	int32_t (*process_batch)(void *worker, const struct pepsi_host *, struct pepsi_msg *const *, int32_t *ret_status, size_t n);
	/* 1: this message may run here in the pass of the stage before; NULL means always. */
	int32_t (*can_fuse)(void *worker, const struct pepsi_host *, struct pepsi_msg *);
	void (*close)(void *worker); /* CONCURRENT: nothing is pending any more */
	/* CONCURRENT: end this pending message soon (PEPSI_STOP_*; for YIELD: or not), here or from a later callback, by complete(). Called once for
	 * each reason. Required of CONCURRENT modules. Since 1.2. */
	void (*stop)(void *worker, const struct pepsi_host *, struct pepsi_msg *, uint32_t why);
};

#if defined(__GNUC__)
#define PEPSI_EXPORT __attribute__((visibility("default")))
#else
#define PEPSI_EXPORT
#endif

#define PEPSI_STAGE_SYMBOL "pepsi_stage_descriptor"
/* PEPSI_STAGE(.name = "pepsi-stage-x", .version = "1.0", …); at file level, C only. */
#define PEPSI_STAGE(...)                                                                                               \
	PEPSI_EXPORT extern const struct pepsi_stage pepsi_stage_descriptor;                                             \
	const struct pepsi_stage pepsi_stage_descriptor = { .abi = PEPSI_ABI_OF(struct pepsi_stage),                     \
		.option_size = (uint32_t)sizeof(struct pepsi_option), __VA_ARGS__ }
/* .options and .n_options of a static table. */
#define PEPSI_OPTIONS(table) .options = (table), .n_options = sizeof(table) / sizeof(*(table))

#ifdef __cplusplus
}
#endif

#endif
