/* The configuration: an INI file with @inline@ and @inline-secret@, read once into sections of options that remember
 * where they stood. It travels to the workers as one flat blob, so nobody but a short-lived child of the spawner parses
 * the files, and secrets.d fragments are read by the account that may read them, not before. Never reads the database;
 * the overlay (config_override) is laid over it by whoever has a connection. */
#ifndef PEPSI_CONFIG_CONFIG_H
#define PEPSI_CONFIG_CONFIG_H

#include "base/buf.h"
#include "base/str.h"

struct config;

struct config_value {
	const char *value;   /* NUL-terminated, trimmed, $VARs still in it */
	const char *file;    /* where it stood; "" for defaults set by the program */
	unsigned line;
};

/* A list of findings, shown all at once: "file:line: text". */
struct config_fault {
	const char *file;    /* may be "" */
	unsigned line;       /* 0: the file as a whole */
	bool warning;
	const char *text;
};
struct config_faults;    /* grows by config_fault_add() */
struct config_faults *config_faults_new(void);
void config_faults_free(struct config_faults *f);
void config_fault_add(struct config_faults *f, const char *file, unsigned line, bool warning, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
size_t config_faults_n(const struct config_faults *f, bool warnings_too);
const struct config_fault *config_faults_at(const struct config_faults *f, size_t i);
/* Appends "file:line: text\n" ("file:line: warning: text\n"), parts that are absent left out. */
void config_fault_print(const struct config_fault *fault, struct buf *out);

/* Reads `path` and what it includes. Returns a configuration even when there are faults (as much as could be read);
 * NULL only when memory is out. The caller frees it. @inline-secret@ lines are kept as references; see below. */
struct config *config_load(const char *path, struct config_faults *faults);
void config_free(struct config *c); /* wipes it: it may hold secrets */
/* Reads the @inline-secret@ files this account may read; the others stay absent (debug line). */
void config_load_secrets(struct config *c, struct config_faults *faults);
/* The flat form and back. thaw returns NULL when the blob is malformed or memory is out. */
int config_freeze(const struct config *c, struct buf *out);
struct config *config_thaw(struct str blob);
/* Sets or replaces one option (program defaults, --state, the overlay): all its occurrences become one, with no file.
 * 0, or -1: memory is out, or a name or value that no file could hold (control octets, invalid UTF-8, limits). Pointers
 * got from c for that option before are dead afterwards. */
int config_set(struct config *c, const char *section, const char *option, const char *value);

/* NULL when not set. Section and option names compare without case. */
const struct config_value *config_get(const struct config *c, const char *section, const char *option);
/* The i-th section name / the i-th option of a section (all occurrences, in file order); NULL behind the last. */
const char *config_section(const struct config *c, size_t i);
const char *config_option(const struct config *c, const char *section, size_t i, struct config_value *ret);

/* Does the value come from a secrets.d fragment? It must not be shown then. */
bool config_is_secret(const struct config *c, const char *section, const char *option);

/* Typed getters of options described in the tables of schema.h: the configured value, else the table's default. A value that
 * does not parse was a fault at load; here it gives the default. Strings live as long as c. */
const char *config_str(const struct config *c, const char *section, const char *option); /* NULL: unset, no default */
int64_t config_int(const struct config *c, const char *section, const char *option);     /* number, seconds, octets, 0/1; microseconds
                                                                                    where the table says so; 0: no default */
/* What fits a stage by its kind, where neither it nor [pepsi-dispatch] says anything. many: a worker of it drives many messages at once
 * (PEPSI_CAP_CONCURRENT). Messages in one worker, at least 1; longest time for one message in seconds, at least 1. */
unsigned config_queue_limit(const struct config *c, const char *section, bool many);
int64_t config_max_runtime(const struct config *c, const char *section, bool many);
/* The name of this server, [pepsi] HOSTNAME or the host's own; the caller frees it; NULL: memory. */
char *config_hostname(const struct config *c);
/* A path: $VAR and ${VAR:-default} expanded; the caller frees it; NULL when unset without default. Variables come from
 * the environment, and STATE_DIR from [pepsi]. */
char *config_path(const struct config *c, const char *section, const char *option);
/* The same for a value at hand (a module's PATH option). NULL: a variable without value and default, a malformed ${…},
 * or memory is out; why (may be NULL) says which. "$$" is one dollar sign. The caller frees the result. */
char *config_expand(const struct config *c, const char *value, struct buf *why);

/* Parsing of single values, shared with modules' options: 0 or -1. */
int config_parse_bool(struct str s, int64_t *ret);
int config_parse_duration(struct str s, int64_t *ret_seconds);    /* "30 s", "5 min", "1 h", "2 d", "30"; ms: see _us */
int config_parse_duration_us(struct str s, int64_t *ret_us);      /* also "5 ms" */
int config_parse_size(struct str s, int64_t *ret_octets);         /* "50 MiB", "64 KiB", "1 GiB", "100 KB", plain octets */
int config_parse_hostport(struct str s, char *host, size_t host_size, uint16_t *ret_port); /* "127.0.0.1:25", "[::]:25" */

/* One word of a listener's BIND: "127.0.0.1:25", "[::]:25", "unix:/run/pepsi/lmtp" ($VARs still in it), "systemd:NAME". */
enum config_bind_kind { CONFIG_BIND_TCP, CONFIG_BIND_UNIX, CONFIG_BIND_SYSTEMD };
struct config_bind {
	enum config_bind_kind kind;
	char host[64];       /* TCP: numeric; port 0: any free one */
	uint16_t port;
	char name[512];      /* UNIX: the path; SYSTEMD: a name as in LISTEN_FDNAMES */
};
int config_parse_bind(struct str word, struct config_bind *ret);

/* Networks "127.0.0.0/8 ::1 …", parsed once. The word "unix" stands for clients of unix sockets, whose address is "unix". Words that are no network are skipped (they were faults at load). An
 * IPv4-mapped IPv6 address counts as the IPv4 address. */
struct config_networks;
struct config_networks *config_networks_new(const char *networks); /* NULL text: empty; NULL: memory is out */
void config_networks_free(struct config_networks *n);
bool config_networks_has(const struct config_networks *n, const char *address); /* text form, as inet_ntop() makes it */
bool config_networks_match(const char *networks, const char *address);          /* the same without keeping it */

/* Domains "example.test *.example.org …", parsed once; compared in A-label form, lower case, without a trailing dot;
 * "*.example.org" matches subdomains only. */
struct config_domains;
struct config_domains *config_domains_new(const char *domains); /* as above */
void config_domains_free(struct config_domains *d);
bool config_domains_has(const struct config_domains *d, struct str domain);
bool config_domains_match(const char *domains, struct str domain);
/* The form compared: A-labels (libidn2, RFC 5891), lower case, no trailing dot; address literals lower case. 0, or -1: no
 * domain. out must hold CONFIG_DOMAIN_MAX + 1 octets. */
enum { CONFIG_DOMAIN_MAX = 255 };
int config_domain_fold(struct str domain, char *out, size_t size);

#endif
