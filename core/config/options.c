/* The option tables: every section and option the daemon and its tools know, with type, default, range and one line of
 * help. The manual page, `pepsi config show` and the check all come from here. Modules bring their own tables.
 * Defaults say why in the help where the number is not obvious. */
#include "schema.h"

#include "proto/smtp/extensions.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define STRING(NAME, FLAGS, DEF, HELP) { NAME, PEPSI_OPT_STRING, FLAGS, DEF, 0, 0, NULL, HELP }
#define INT(NAME, FLAGS, DEF, MIN, MAX, HELP) { NAME, PEPSI_OPT_INT, FLAGS, DEF, MIN, MAX, NULL, HELP }
#define BOOL(NAME, FLAGS, DEF, HELP) { NAME, PEPSI_OPT_BOOL, FLAGS, DEF, 0, 0, NULL, HELP }
#define DURATION(NAME, FLAGS, DEF, MIN, MAX, HELP) { NAME, PEPSI_OPT_DURATION, FLAGS, DEF, MIN, MAX, NULL, HELP }
#define SIZE(NAME, FLAGS, DEF, MIN, MAX, HELP) { NAME, PEPSI_OPT_SIZE, FLAGS, DEF, MIN, MAX, NULL, HELP }
#define CHOICE(NAME, FLAGS, DEF, CHOICES, HELP) { NAME, PEPSI_OPT_CHOICE, FLAGS, DEF, 0, 0, CHOICES, HELP }
#define PATH(NAME, FLAGS, DEF, HELP) { NAME, PEPSI_OPT_PATH, FLAGS, DEF, 0, 0, NULL, HELP }
#define STAGE(NAME, FLAGS, HELP) { NAME, PEPSI_OPT_STAGE, FLAGS, NULL, 0, 0, NULL, HELP }
#define LIST(NAME, FLAGS, DEF, CHOICES, HELP) { NAME, PEPSI_OPT_LIST, FLAGS, DEF, 0, 0, CHOICES, HELP }

#define MINUTE 60
#define HOUR 3600
#define DAY 86400
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MILLISECOND_US INT64_C(1000)
#define SECOND_US INT64_C(1000000)

static const struct pepsi_option pepsi[] = {
	STRING("HOSTNAME", SCHEMA_F_HOSTNAME, NULL,
	    "name of this server: banner, EHLO, Received, authserv-id; default: the host's own full name"),
	LIST("LOCAL_DOMAINS", SCHEMA_F_DOMAINS, NULL, NULL,
	    "domains whose mail is accepted from anyone; *.example.org stands for subdomains"),
	LIST("RELAY_NETWORKS", SCHEMA_F_NETWORKS, "127.0.0.0/8 ::1", NULL,
	    "networks whose clients may send to any domain; they are also exempt from MAX_CONNECTIONS_PER_ADDRESS"),
	LIST("RECIPIENTS", SCHEMA_F_RECIPIENTS, "any", NULL,
	    "who lives in LOCAL_DOMAINS, so that others are refused at RCPT and not bounced later; one that knows an address is enough. any: everybody; "
	    "table: pepsi.recipient, kept with pepsi recipient; aliases: pepsi.alias_map; system: accounts of this machine; file:/PATH: an address, "
	    "@domain or local part a line; stage:NAME: the stage is shown the envelope first, and one that changes or refuses the recipient has decided. [domain-NAME] may say otherwise for a domain"),
	STRING("RECIPIENT_DELIMITER", 0, NULL, "octets, such as +, behind which a local part does not count for RECIPIENTS, aliases and Maildirs: alice+lists is alice"),
	BOOL("ALLOW_FUSION", 0, "YES",
	    "run successive stages of one account in one pass, without storing what lies between; NO: each in its own workers"),
	BOOL("MAIL_LOG", SCHEMA_F_NO_EFFECT, "NO", "keep a record of each message: who corresponded with whom, so not by default"),
	PATH("STATE_DIR", 0, "/var/lib/pepsi", "folder of everything that lasts: embedded database, sockets, spool"),
	PATH("MODULE_PATH", 0, PEPSI_MODULE_PATH,
	    "folders searched for stage modules, separated by colons; the first that has the module counts. Where none are set, "
	    "../lib/pepsi/modules beside the running program is searched before these"),
	STRING("USER", 0, "pepsi", "account of the workers and the embedded database when started as root; where there is no such "
	    "account and none is set: nobody"),
	STRING("REACTOR_USER", 0, "pepsi-reactor",
	    "account of the process that faces the network; where there is no such account and none is set: that of USER"),
};

static const struct pepsi_option pepsi_postgres[] = {
	STRING("CONFIG", SCHEMA_F_CONNINFO, NULL,
	    "PostgreSQL connection string or URI; absent: a private PostgreSQL in STATE_DIR/postgres"),
	DURATION("ADMISSION_TIMEOUT", 0, "10 s", 1, 30,
	    "a session waits so long for the database (large messages three times, 30 s at most), then it gets 451; too short for a busy disk, it makes "
	    "senders repeat what was stored"),
	BOOL("DURABLE_COMPLETION", 0, "NO",
	    "let completions of workers wait for the disk too; NO: a power failure may repeat a delivery, never lose mail"),
};

static const struct pepsi_option listener[] = {
	LIST("BIND", SCHEMA_F_BIND | SCHEMA_F_SOCKETS | PEPSI_OPTF_REQUIRED, NULL, NULL,
	    "where to listen: numeric addresses and ports (0.0.0.0:25 [::]:25), unix:/PATH, or systemd:NAME for the sockets that "
	    "systemd passes under that name"),
	CHOICE("SOCKET_MODE", 0, "0666", "0600 0660 0666", "permissions of the unix sockets in BIND; 0666: who may enter the folder may connect"),
	STRING("SOCKET_GROUP", 0, NULL, "group of the unix sockets in BIND; default: that of the process that makes them"),
	CHOICE("PROTOCOL", 0, "smtp", "smtp submission submissions lmtp local",
	    "smtp: mail from other servers; submission: mail from users, who sign in inside STARTTLS (RFC 6409); submissions: the same "
	    "with TLS from the first octet (RFC 8314); lmtp: mail from our own servers, one answer for each recipient (RFC 2033); "
	    "local: mail from users of this machine by a unix socket; the kernel says who they are (pepsi-sendmail)"),
	PATH("TLS_CERT", SCHEMA_F_REPEAT, NULL, "certificate chain, PEM, the server's first; with TLS_KEY, STARTTLS is offered. Several pairs: the "
	    "one whose names have what the client asks for (SNI), else the first"),
	PATH("TLS_KEY", SCHEMA_F_REPEAT, NULL, "private key of the TLS_CERT above it, PEM, without passphrase"),
	LIST("TLS_PROTOCOLS", 0, "tls1.2 tls1.3", "tls1.2 tls1.3", "versions of TLS; older ones are not there"),
	LIST("TLS_CIPHERS", 0,
	    "tls_aes_256_gcm_sha384 tls_chacha20_poly1305_sha256 tls_aes_128_gcm_sha256 ecdhe-ecdsa-aes128-gcm-sha256 "
	    "ecdhe-rsa-aes128-gcm-sha256 ecdhe-ecdsa-aes256-gcm-sha384 ecdhe-rsa-aes256-gcm-sha384 ecdhe-ecdsa-chacha20-poly1305 "
	    "ecdhe-rsa-chacha20-poly1305",
	    "tls_aes_256_gcm_sha384 tls_chacha20_poly1305_sha256 tls_aes_128_gcm_sha256 ecdhe-ecdsa-aes128-gcm-sha256 "
	    "ecdhe-rsa-aes128-gcm-sha256 ecdhe-ecdsa-aes256-gcm-sha384 ecdhe-rsa-aes256-gcm-sha384 ecdhe-ecdsa-chacha20-poly1305 "
	    "ecdhe-rsa-chacha20-poly1305 dhe-rsa-aes128-gcm-sha256 dhe-rsa-aes256-gcm-sha384 ecdhe-ecdsa-aes128-sha256 "
	    "ecdhe-rsa-aes128-sha256 ecdhe-ecdsa-aes256-sha384 ecdhe-rsa-aes256-sha384 aes128-gcm-sha256 aes256-gcm-sha384",
	    "cipher suites in order of preference, OpenSSL's names; tls_… are those of TLS 1.3. Default: forward secrecy and AEAD"),
	LIST("TLS_GROUPS", 0, "x25519 p-256 p-384", "x25519 p-256 p-384 p-521 x448", "groups of the key exchange in order of preference"),
	BOOL("TLS_TICKETS", 0, "YES", "clients may take up an earlier session (RFC 8446 2.2); the keys are in memory only and change every 12 h"),
	PATH("TLS_CLIENT_CA", 0, NULL, "authorities, PEM, whose certificates clients may show"),
	CHOICE("TLS_CLIENT_CERT", 0, "none", "none ask require",
	    "client certificates: not asked for, welcome, or no session without one; needs TLS_CLIENT_CA"),
	SIZE("MESSAGE_SIZE_LIMIT", 0, "50 MiB", 64 * KIB, 1 * GIB, "largest message accepted (RFC 1870)"),
	INT("MAX_RECIPIENTS", 0, "1000", 100, 100000, "recipients in one transaction; RFC 5321 wants at least 100"),
	INT("MAX_CONNECTIONS", 0, "1000", 1, 100000, "sessions at once; more get 421"),
	INT("MAX_CONNECTIONS_PER_ADDRESS", 0, "50", 1, 100000,
	    "sessions at once from one address (IPv6: one /64) outside RELAY_NETWORKS; PROTOCOL local: of one user, root excepted"),
	INT("MAX_CONNECTIONS_PER_NETWORK", 0, "200", 0, 1000000, "the same from one network (IPv4 /24, IPv6 /64); 0: no limit"),
	INT("RESERVED_CONNECTIONS", 0, "50", 0, 100000,
	    "of MAX_CONNECTIONS, half at most: kept for clients in LIMIT_EXEMPT, so that a crowd of strangers does not shut them out"),
	LIST("LIMIT_EXEMPT", SCHEMA_F_NETWORKS, NULL, NULL,
	    "networks without limits on strangers: rates, MAX_CONNECTIONS_PER_…, BANNER_DELAY, UNKNOWN_…, DNSBL, GREYLIST; default: RELAY_NETWORKS"),
	INT("CONNECTIONS_PER_MINUTE", 0, "300", 0, 1000000, "from one address (IPv6: one /64), then 421; 0: no limit. Far above what one mail server does"),
	INT("MESSAGES_PER_MINUTE", 0, "600", 0, 1000000, "from one address, then 450, except to who signed in; 0: no limit"),
	INT("MESSAGES_PER_HOUR", 0, "10000", 0, 100000000, "the same for an hour"),
	INT("AUTHENTICATION_QUERIES_PER_MINUTE", 0, "6000", 0, 1000000, "questions that messages from one address make us ask the DNS; beyond them nothing is looked up for it "
	    "(temperror): nobody uses this server to flood others with questions; 0: no limit"),
	INT("RECIPIENTS_PER_MINUTE", 0, "3000", 0, 1000000, "recipients of these messages; 0: no limit"),
	INT("RECIPIENTS_PER_HOUR", 0, "50000", 0, 100000000, "the same for an hour"),
	INT("NETWORK_FACTOR", 0, "8", 0, 256,
	    "a network (IPv4 /24, IPv6 /64) may have so many times what one address may; 0: networks are not looked at"),
	DURATION("BANNER_DELAY", SCHEMA_F_US, "0 s", 0, 30 * SECOND_US,
	    "how long the banner is kept from clients that no message was accepted from yet: who cannot wait for it is no mail server. No effect on "
	    "submission"),
	INT("UNKNOWN_FREE", 0, "3", 0, 10000, "unknown recipients in a session that are answered at once; the reply to each further one is held back"),
	DURATION("UNKNOWN_DELAY", SCHEMA_F_US, "2 s", 0, 60 * SECOND_US, "how long; whoever tries out names gets nowhere"),
	INT("MAX_UNKNOWN", 0, "15", 0, 10000, "unknown recipients in a session; the last gets 421; 0: MAX_ERRORS alone counts"),
	INT("UNKNOWN_PER_HOUR", 0, "200", 0, 1000000,
	    "unknown recipients from one network (IPv4 /24, IPv6 /64); then the first in each session gets 421, after UNKNOWN_DELAY; 0: no limit"),
	LIST("DNSBL", SCHEMA_F_DNSBL, NULL, NULL,
	    "block lists in the DNS (RFC 5782), asked from the connection on: ZONE[=ADDRESS[|ADDRESS]][:reject|defer|record], such as "
	    "zen.example=127.0.0.2-11:reject; octets may be N-M or *. reject: 550 to RCPT, the default; defer: 450; record: state.origin alone"),
	LIST("DNSWL", SCHEMA_F_DNSWL, NULL, NULL, "allow lists, written likewise without an action: DNSBL and GREYLIST do not hold for who is on one"),
	DURATION("DNSBL_WAIT", SCHEMA_F_US, "5 s", 0, 30 * SECOND_US, "how long the first RCPT waits for these lists; what has not answered counts as not listed"),
	BOOL("DNSBL_TEXT", 0, "YES", "ask lists that refuse for their reason too, and give it in the reply"),
	BOOL("GREYLIST", 0, "NO", "ask who comes for the first time (network, sender, recipient) to come again: 450 for GREYLIST_DELAY"),
	DURATION("COMMAND_TIMEOUT", 0, "5 min", 1, DAY, "longest time for one command, however it trickles in (RFC 5321 4.5.3.2.7 wants 5 min)"),
	SIZE("MIN_DATA_RATE", 0, "1 KiB", 1, 1 * GIB,
	    "octets a second that a message must come with: its content has COMMAND_TIMEOUT and the time it takes at that rate. 1 KiB: 50 MiB may take 14 h, a "
	    "trickle not"),
	DURATION("SESSION_TIMEOUT", 0, "1 h", 10, 7 * DAY, "longest session, however busy: nobody holds a place by trickling"),
	INT("MAX_ERRORS", 0, "20", 1, 10000, "errors and refusals in one session, then 421"),
	INT("MAX_HOPS", 0, "50", 10, 1000, "Received fields in a message; more is a mail loop (RFC 5321 6.3)"),
	INT("MAX_TRANSACTIONS", 0, "0", 0, 1000000, "messages in one session, told as MAILMAX (RFC 9422); the next gets 421; 0: any number"),
	BOOL("REVERSE_DNS", 0, "YES",
	    "look up the name of a client's address, and whether it leads back to it (iprev, RFC 8601 3), while the client talks; 127.0.0.1 and ::1 "
	    "are not looked up"),
	DURATION("REVERSE_DNS_WAIT", SCHEMA_F_US, "0 s", 0, 10 * SECOND_US, "how long the banner waits for that name; 0 s: not at all"),
	LIST("EXTENSIONS", 0, SMTP_EXT_DEFAULT_NAMES, SMTP_EXT_NAMES,
	    "extensions of SMTP that EHLO offers and that are taken; some only inside or outside TLS, or to trusted clients"),
	DURATION("MAX_HOLD", 0, "7 d", 1, 366 * DAY, "longest time a message may be held for its sender, who is a client in RELAY_NETWORKS or has signed in (RFC 4865)"),
	DURATION("MIN_DELIVER_BY", 0, "0", 0, 30 * DAY,
	    "shortest time after which a message may be wanted back if it is not delivered (RFC 2852)"),
	LIST("AUTH", 0, NULL, "plain login scram-sha-256 scram-sha-256-plus oauthbearer xoauth2 external",
	    "ways to sign in, inside TLS only; default: plain login scram-sha-256 scram-sha-256-plus for submission and submissions, else none"),
	LIST("BACKENDS", 0, NULL, "table pam dovecot oauth certificate",
	    "of the BACKENDS of [pepsi-signin], those that are asked about users of this listener, in the order that stands there; default: all"),
	CHOICE("SENDER_OWNERSHIP", 0, "both", "both envelope header none",
	    "of users who signed in: where only addresses of the account may stand: MAIL FROM (envelope), From, Sender, Resent-From and Resent-Sender (header)"),
	BOOL("HIDE_CLIENT", 0, "NO", "submission, submissions: Received does not tell where a user's message came from; the log and the queue do"),
	BOOL("REMOVE_BCC", 0, "YES", "submission, submissions: Bcc and Resent-Bcc are taken out of the header"),
	LIST("PROXY_FROM", SCHEMA_F_NETWORKS, NULL, NULL,
	    "proxies (networks, or unix) whose connections begin with a PROXY header, version 1 or 2, which says who the client is; from nobody "
	    "else is one taken, and from these nothing but one"),
	LIST("XCLIENT_FROM", SCHEMA_F_NETWORKS, NULL, NULL, "networks, or unix, whose clients may say by XCLIENT for whom they speak"),
	LIST("TRUSTED_USERS", 0, NULL, NULL, "PROTOCOL local: accounts (and root) that may name any envelope sender; others only the null sender and "
	    "NAME@HOSTNAME or a local domain, else 553. Default: everybody may. Who sent is recorded either way"),
	LIST("BEFORE_ACCEPT", 0, NULL, NULL,
	    "stages that see each message of this listener before it is accepted, in this order; what they decide is the reply: pepsi-stage(7)"),
	DURATION("BEFORE_ACCEPT_TIMEOUT", 0, "30 s", 1, 5 * MINUTE, "time for all stages of BEFORE_ACCEPT together; clients wait 10 min (RFC 5321 4.5.3.2.6)"),
	CHOICE("BEFORE_ACCEPT_FAILURE", 0, "tempfail", "accept tempfail reject",
	    "what becomes of a message when such a stage crashes, is late, overloaded or cannot run: go on without it, 451, or 550"),
	BOOL("BEFORE_ACCEPT_AUTHENTICATED", 0, "YES", "also for mail of those who signed in; NO: that goes past BEFORE_ACCEPT"),
	CHOICE("SPF", 0, NULL, "off record enforce",
	    "SPF of mail from outside (RFC 7208): record: result in Authentication-Results and state.auth; enforce: 550 5.7.23 where it fails, unless "
	    "DMARC passes. This and the next three: default record for PROTOCOL smtp, else off"),
	CHOICE("DKIM", 0, NULL, "off record enforce",
	    "DKIM signatures of mail from outside (RFC 6376): enforce: 550 5.7.20 for mail that is signed where no signature holds; unsigned mail passes"),
	CHOICE("DMARC", 0, NULL, "off record enforce",
	    "DMARC (RFC 9989), which needs SPF and DKIM and has them recorded: enforce: as the author's domain asks, 550 5.7.26 or quarantine"),
	PATH("PUBLIC_SUFFIX_LIST", 0, NULL,
	    "DMARC: a file of publicsuffix.org (public_suffix_list.dat), asked where the tree walk of RFC 9989 finds no psd tag: domains that were aligned by "
	    "RFC 7489 still are; default: the tree walk alone. Read at start and reload"),
	CHOICE("ARC", 0, NULL, "off record enforce", "ARC chains (RFC 8617): enforce: 550 5.7.29 where one is broken"),
	LIST("ARC_SEALERS", SCHEMA_F_DOMAINS, NULL, NULL,
	    "domains whose ARC seals are believed: mail of a chain that holds, which they saw pass, is not held against its author's DMARC policy"),
	STAGE("QUARANTINE_STAGE", 0,
	    "DMARC enforce: the stage that mail in quarantine begins at; default: init, with auth.quarantine in its state"),
	CHOICE("AUTHENTICATION_TEMPERROR", 0, "accept", "accept tempfail",
	    "what is to be enforced but cannot be looked up now: as if nothing had been found, or 451 4.7.24"),
	DURATION("AUTHENTICATION_TIMEOUT", 0, "20 s", 1, 2 * MINUTE, "how long a whole message waits for the DNS at most; what is not known then is temperror"),
	LIST("AUTHENTICATION_EXEMPT", SCHEMA_F_NETWORKS, NULL, NULL,
	    "networks whose mail is not looked at, and whose Authentication-Results are believed: our own clients, hosts that pass mail on to here; "
	    "default: RELAY_NETWORKS. Mail of who signed in is never looked at"),
	BOOL("SPF_EXPLANATION", 0, "YES",
	    "SPF = enforce: what the domain itself says about a refusal (exp=, RFC 7208 6.2) is looked up, at most 5 s, and told the client with its name"),
	BOOL("RECEIVED_SPF", 0, "NO", "also write a Received-SPF field (RFC 7208 9.1)"),
};

static const struct pepsi_option pepsi_ingress[] = {
	DURATION("DISPATCH_WAKE_INTERVAL", SCHEMA_F_US, "5 ms", 0, 10 * SECOND_US,
	    "how long arrivals are gathered before the dispatcher is woken for them"),
	SIZE("MESSAGE_MEMORY", 0, "192 MiB", 1 * MIB, 1024 * GIB, "memory for messages of all sessions together, envelopes included; beyond it, 452"),
	SIZE("SPOOL_THRESHOLD", 0, "4 MiB", 0, 1 * GIB, "larger bodies, and those for which half of MESSAGE_MEMORY is taken, go to an unlinked "
	    "temporary file"),
	PATH("SPOOL_DIR", 0, "$STATE_DIR/spool", "folder of those temporary files"),
	INT("ADMISSION_BATCH", 0, "100", 1, 10000, "messages in one commit"),
	SIZE("ADMISSION_BATCH_BYTES", 0, "8 MiB", 64 * KIB, 1 * GIB, "octets in one commit (a single larger message goes alone)"),
	INT("MAX_SESSIONS", 0, "50000", 10, 1000000, "sessions of all listeners at once, at most what the limit on open files leaves room for; more get 421"),
	INT("RESERVED_SESSIONS", 0, "10", 0, 90, "per cent of these: kept for submission, and for clients in LIMIT_EXEMPT"),
	INT("LIMITS_REMEMBERED", 0, "50000", 100, 10000000, "addresses, and as many networks, whose rates are counted; about 250 octets each"),
	INT("TARPIT_MAX", 0, "500", 0, 100000, "replies held back at once (UNKNOWN_DELAY); beyond it they are given at once, since a place costs more than a guess"),
	INT("RECIPIENT_CACHE", 0, "20000", 0, 10000000, "answers about recipients kept at most; those in files need none"),
	DURATION("RECIPIENT_CACHE_TIME", 0, "1 min", 0, DAY,
	    "how long; a change in the tables is told by the database at once, so it is for accounts of the machine mostly"),
	DURATION("GREYLIST_DELAY", 0, "5 min", 1, DAY, "who comes again after that is let pass"),
	DURATION("GREYLIST_WINDOW", 0, "2 d", 60, 30 * DAY, "… and before that, counted from the first time, else it begins anew"),
	DURATION("GREYLIST_LIFETIME", 0, "35 d", HOUR, 366 * DAY, "who passed is remembered so long from the last time; 35 d: monthly mail is not held up"),
	INT("GREYLIST_AUTO", 0, "5", 0, 1000, "a network of which so many came again waits no more; 0: each sender and recipient does"),
	INT("QUEUE_MAX_ROWS", 0, "0", 0, INT64_C(1) << 40, "messages in the queue at which new ones get 452; 0: no limit"),
	SIZE("MIN_FREE_SPACE", 0, "64 MiB", 0, INT64_C(1) << 50, "free space of SPOOL_DIR below which mail gets 452; 0: not looked at"),
};

static const struct pepsi_option pepsi_sendmail[] = {
	BOOL("LISTENER", 0, "YES", "take mail from users of this machine by STATE_DIR/submit/socket, as if there were a [listener-sendmail] with PROTOCOL = "
	    "local; such a section, with or without BIND, sets its limits"),
	BOOL("DROP", 0, "YES", "let users leave messages in STATE_DIR/submit/drop while pepsid does not answer; they are taken from there as soon as it does"),
	INT("DROP_ROUND", 0, "1000", 1, 100000, "messages of one user that are taken from there before others' turn comes"),
	INT("DROP_USER_FILES", 0, "0", 0, INT64_C(1) << 40,
	    "files that one user may have there once everything that could be taken was; more are thrown away, messages too, so only where "
	    "users are not trusted with the disk. Root is not counted; 0: no limit, nothing is lost"),
	SIZE("DROP_USER_SIZE", 0, "0", 0, INT64_C(1) << 50, "the same for what they take of the disk"),
	INT("DROP_KEEP_BAD", 0, "100", 0, 100000, "files there that are no messages are kept in STATE_DIR/submit/bad, so many at most; more are removed"),
};

static const struct pepsi_option domain[] = {
	LIST("RECIPIENTS", SCHEMA_F_RECIPIENTS, NULL, NULL, "who lives there; default: RECIPIENTS of [pepsi]"),
	STRING("RECIPIENT_DELIMITER", 0, NULL, "likewise"),
};

static const struct pepsi_option pepsi_dispatch[] = {
	DURATION("POLL_INTERVAL", 0, "30 s", 1, DAY, "heartbeat: how often the queue is looked at when nothing was notified"),
	DURATION("MAX_RUNTIME", 0, "5 min", 1, 7 * DAY, "longest time a worker may take for one message, then it is killed"),
	DURATION("WORKER_IDLE_TIMEOUT", 0, "60 s", 1, DAY, "a worker without work for so long ends"),
	DURATION("FAIR_HALF_LIFE", 0, "10 min", 1, 30 * DAY, "how fast the fair share forgets what a sender has used"),
	INT("FAIR_FIFO_PERCENT", 0, "10", 0, 100, "share of places given by age alone, so that nobody starves"),
	DURATION("LAUNCH_COOLDOWN", 0, "5 s", 1, HOUR, "pause after a worker could not start, doubled up to a minute"),
	INT("MAX_CRASHES", 0, "3", 1, 100, "worker crashes on one message, then it is failed"),
};

static const struct pepsi_option pepsi_signin[] = {
	LIST("BACKENDS", 0, "table", "table pam dovecot oauth certificate", "who is asked whether somebody may sign in. A mechanism is served by the "
	    "first that has it; a password that one does not accept is tried with the next, unless the account stands in the table"),
	INT("HASHERS", 0, "4", 1, 64, "password checks at once; one takes 19 MiB and about 43 ms of a processor"),
	INT("QUEUE_LIMIT", 0, "256", 1, 10000, "password checks that may wait for that; more clients get 454"),
	INT("TRIES", 0, "5", 1, 100, "failed sign-ins in one session; the last gets 421"),
	DURATION("FAIL_DELAY", SCHEMA_F_US, "3 s", 0, 60 * SECOND_US,
	    "how long the reply to a failed sign-in is held back; twice and four times that for accounts and networks with many failures"),
	INT("ACCOUNT_TRIES", 0, "10", 0, 10000,
	    "failed sign-ins of one account, then 454 to right and wrong passwords alike, except where it signed in before; 0: no limit"),
	DURATION("ACCOUNT_REFILL", 0, "1 min", 1, DAY, "time for one of ACCOUNT_TRIES to come back"),
	INT("NETWORK_TRIES", 0, "50", 0, 100000,
	    "failed sign-ins from one network (IPv4 /24, IPv6 /64), then 454, or a delay where somebody signed in before; 0: no limit"),
	DURATION("NETWORK_REFILL", 0, "10 s", 1, DAY, "time for one of NETWORK_TRIES to come back"),
	INT("REMEMBERED", 0, "20000", 100, 10000000, "accounts and networks whose failures, and places whose sign-ins, are remembered"),
	INT("IN_FLIGHT_LIMIT", 0, "256", 1, 4000, "sign-ins the admin child is asked about at once"),
	INT("WAITING_LIMIT", 0, "256", 0, 100000, "sign-ins that wait for their turn with it; more get 454 at once"),
	DURATION("ANSWER_TIMEOUT", 0, "50 s", 1, 10 * MINUTE, "longest time for an answer of the admin child, then 454"),
	INT("MESSAGES_PER_HOUR", 0, "0", 0, 2147483647,
	    "messages of an account that has no limit of its own; what is above is held in the queue until there is room for it; 0: no limit"),
	INT("MESSAGES_PER_DAY", 0, "0", 0, 2147483647, "the same for a day"),
	INT("RECIPIENTS_PER_HOUR", 0, "0", 0, 2147483647, "recipients of all messages of such an account"),
	INT("RECIPIENTS_PER_DAY", 0, "0", 0, 2147483647, "the same for a day"),
	CHOICE("CAP_NOTICES", 0, "both", "both owner postmaster none", "who is told, once in an account's hour, that its mail is held for these limits; "
	    "postmaster about 20 accounts in an hour at most. The log has all"),
	INT("COUNTED", 0, "20000", 100, 10000000, "accounts whose messages are counted against these limits at once"),
	STRING("USER", 0, "pepsi-config", "account of the admin child when started as root; where there is no such account and none is "
	    "set: that of [pepsi] USER"),
	STRING("PAM_SERVICE", 0, "pepsi", "the file in /etc/pam.d, or the path of one elsewhere"),
	STRING("PAM_USER", 0, "root", "account of the process that asks PAM, when started as root; pam_unix needs root"),
	PATH("DOVECOT_SOCKET", 0, "/run/dovecot/auth-client", "Dovecot's socket for authentication clients"),
	STRING("OAUTH_INTROSPECTION_URL", 0, NULL, "where tokens are asked about (RFC 7662); https, or http on loopback"),
	STRING("OAUTH_CLIENT_ID", 0, NULL, "our name there"),
	{ "OAUTH_CLIENT_SECRET", PEPSI_OPT_SECRET, 0, NULL, 0, 0, NULL, "our password there; better in a secrets.d file" },
	STRING("OAUTH_KEYS", 0, NULL, "instead: the keys that tokens are signed with (JWKS, RFC 7517), a file or a URL, fetched hourly"),
	PATH("OAUTH_CA", 0, NULL, "authorities, PEM, for these URLs; default: the system's"),
	STRING("OAUTH_ISSUER", 0, NULL, "the tokens' iss must be this"),
	LIST("OAUTH_AUDIENCE", 0, NULL, NULL, "the tokens' aud must hold one of these"),
	LIST("OAUTH_SCOPE", 0, NULL, NULL, "the tokens' scope must hold all of these; told to clients whose token is refused"),
	STRING("OAUTH_NAME_CLAIM", 0, "email", "what in a token is the account's name: email (then verified), sub, preferred_username, username"),
	BOOL("OAUTH_EMAIL_UNSTATED", 0, "NO",
	    "OAUTH_NAME_CLAIM = email: also tokens that do not say whether the address is verified (email_verified); only where the server gives nobody an "
	    "address that is not his"),
	LIST("OAUTH_ALGORITHMS", 0, "RS256 ES256 EdDSA", "RS256 ES256 EdDSA", "signatures that are taken"),
	STRING("OAUTH_DISCOVERY", 0, NULL, "the URL of the OpenID configuration that clients are told of (RFC 7628 3.2.2)"),
	BOOL("CERTIFICATE_EMAIL", 0, "NO", "EXTERNAL: the e-mail address in a client certificate that TLS_CLIENT_CA vouches for is the account, also "
	    "where no account names the certificate"),
};

static const struct pepsi_option pepsi_httpd[] = {
	LIST("BIND", SCHEMA_F_BIND, "127.0.0.1:8025", NULL, "numeric addresses and ports of /healthz and /metrics, or none"),
	LIST("HOSTS", 0, NULL, NULL, "names a request may ask for in Host, beside HOSTNAME, localhost and the address"),
};

static const struct pepsi_option failure_bouncer[] = {
	STAGE("BOUNCE_STAGE", 0, "stage that failed messages are moved to; runs pepsi-stage-bounce, or leads there. pepsi-failure-bouncer needs it"),
	DURATION("MIN_AGE", 0, "1 h", 0, 30 * DAY, "how long a message must have been failed, so that an operator may help it first"),
	BOOL("BOUNCE_UNAUTHENTICATED", 0, "NO", "also bounce mail whose sender is not authenticated, instead of dropping it with a warning: it hits strangers when the "
	    "sender was forged (backscatter)"),
};

static const struct pepsi_option pepsi_dmarc[] = {
	BOOL("REPORTS", 0, "NO", "count what was judged by the DMARC policies of domains that ask for reports, and let pepsi-dmarc send them aggregate reports (RFC 9990)"),
	STRING("ORG_NAME", 0, NULL, "whose reports they are, for people; default: HOSTNAME"),
	STRING("CONTACT", SCHEMA_F_MAILBOX, NULL, "address of somebody to ask about them; default: postmaster at the domain of FROM"),
	STRING("CONTACT_INFO", 0, NULL, "more about that: an address of a web page"),
	STRING("FROM", SCHEMA_F_MAILBOX, NULL, "sender of reports, in the envelope and in From. Its domain needs SPF or DKIM that passes DMARC; what comes back there should lead to "
	    "pepsi-stage-dmarc-report. Needed to send"),
	STRING("REPORT_ADDRESS", SCHEMA_F_MAILBOX, NULL, "address in rua of your own domains. What comes there is not counted: else two senders of reports would report each other's "
	    "reports for ever. Default: FROM"),
	STAGE("STAGE", 0, "where reports begin their way out; default: init"),
	DURATION("INTERVAL", 0, "1 d", HOUR, DAY, "what one report covers, counted from midnight UTC; a day is what RFC 9990 expects"),
	SIZE("MAX_SIZE", 0, "5 MiB", 16 * KIB, 100 * MIB, "longest message of a report; of a longer one the rows with the fewest messages are left out, and the report says so"),
	INT("MAX_ROWS", 0, "10000", 100, 1000000, "rows of one report; messages beyond them are told as a number"),
	INT("MAX_DOMAINS", 0, "20000", 10, 1000000, "reports that wait at most; what is counted beyond them is lost, and said in the log"),
	INT("MAX_REPORTS", 0, "2000", 1, 1000000, "reports sent in one run of pepsi-dmarc send"),
	LIST("EXCLUDE", SCHEMA_F_DOMAINS, NULL, NULL, "domains that get no reports, whether they are the reported or the address's; *.example.org stands for subdomains"),
	BOOL("FAILURE_REPORTS", 0, "NO", "keep messages that failed, redacted, whose domain asks for failure reports (ruf), and let pepsi-dmarc send these (RFC 9991). They tell "
	    "strangers about single messages: see the handbook before"),
	CHOICE("FAILURE_ADDRESSES", 0, "hash", "hash drop keep", "local parts in failure reports: hash: a keyed hash, the same for the same address until pepsid is started again; drop: "
	    "\"redacted\"; keep: as they are, display names and Subject, too. Recipients' fields and the body are never told"),
	INT("MAX_FAILURES_DOMAIN", 0, "10", 1, 10000, "failure reports about one organisation's domains within a day"),
	INT("MAX_FAILURES", 0, "500", 1, 100000, "failure reports within a day, in all"),
	DURATION("EXPIRE", 0, "3 d", HOUR, 30 * DAY, "a report that could not be sent so long after its period is given up"),
	DURATION("KEEP", 0, "14 d", DAY, 366 * DAY, "how long pepsi-dmarc list and show know it"),
};

static const struct pepsi_option pepsi_tlsrpt[] = {
	BOOL("REPORTS", 0, "NO", "let pepsi-tlsrpt send reports about TLS with other domains' mail exchangers to those that ask for them (RFC 8460); counted is what TLSRPT of "
	    "pepsi-stage-relay-to-internet says"),
	STRING("ORG_NAME", 0, NULL, "whose reports they are, for people; default: HOSTNAME"),
	STRING("CONTACT", SCHEMA_F_MAILBOX, NULL, "address of somebody to ask about them; default: postmaster at the domain of FROM"),
	STRING("FROM", SCHEMA_F_MAILBOX, NULL, "sender of reports, in the envelope and in From; its domain signs them (RFC 8460 3: DKIM), or some do not take them. What comes back there should "
	    "lead to pepsi-stage-tlsrpt-report. Needed to send"),
	STAGE("STAGE", 0, "where reports by mail begin their way out; default: init"),
	SIZE("MAX_SIZE", 0, "5 MiB", 16 * KIB, 100 * MIB, "longest report, packed; of a longer one the rows with the fewest sessions are left out"),
	INT("MAX_ROWS", 0, "2000", 100, 100000, "rows of one report; sessions beyond them are told in the log as a number"),
	INT("MAX_REPORTS", 0, "2000", 1, 1000000, "reports tried in one run of pepsi-tlsrpt send"),
	LIST("EXCLUDE", SCHEMA_F_DOMAINS, NULL, NULL, "domains that get no reports, whether they are the reported or the address's; *.example.org stands for subdomains"),
	LIST("ALLOW_NETWORKS", SCHEMA_F_NETWORKS | PEPSI_OPTF_FILE_ONLY, NULL, NULL, "networks that reports may be POSTed to though they are not of the public Internet, or our own: for laboratories"),
	PATH("CA_FILE", 0, NULL, "authorities that the certificates of https URIs are checked with (PEM); default: the system's"),
	INT("HTTPS_PORT", 0, "0", 0, 65535, "port that is connected to in place of the URI's: for laboratories; 0: the URI's"),
	DURATION("HTTPS_TIMEOUT", 0, "60 s", 1, 600, "for one POST"),
	DURATION("MUTE", 0, "7 d", DAY, 366 * DAY, "how long no reports go to an https URI that took none for 24 hours"),
	DURATION("EXPIRE", 0, "3 d", DAY, 30 * DAY, "a report that could not be sent so long after its day is given up"),
	DURATION("KEEP", 0, "14 d", DAY, 366 * DAY, "how long pepsi-tlsrpt list and show know it"),
};

static const struct pepsi_option pepsi_dns[] = {
	CHOICE("BACKEND", 0, "servers", "servers libunbound", "who resolves: servers, which should validate DNSSEC (SERVERS, RESOLV_CONF); or libunbound in a child "
	    "process of pepsid, from the root and validating"),
	LIST("SERVERS", SCHEMA_F_SERVERS, NULL, NULL, "resolvers to ask, in this order: 127.0.0.1 192.0.2.1:5353 [2001:db8::1]:53; default: those of RESOLV_CONF; "
	    "with BACKEND = libunbound: where it forwards to, default: it asks the root"),
	STRING("TRUST_ANCHOR", 0, "/usr/share/dns/root.key", "BACKEND = libunbound: file with DS or DNSKEY records that DNSSEC begins at; none: nothing is validated"),
	PATH("ROOT_HINTS", 0, NULL, "BACKEND = libunbound: file with the addresses of the root servers; default: built in"),
	PATH("UNBOUND_CONFIG", 0, NULL, "BACKEND = libunbound: file as of unbound.conf(5), for what there is no option here: stub zones, more trust anchors"),
	STRING("USER", 0, NULL, "BACKEND = libunbound: account of the child; default: pepsi-dns, or nobody"),
	PATH("RESOLV_CONF", 0, "/etc/resolv.conf", "where resolvers are found without SERVERS; read again when it changes"),
	BOOL("TRUST_AD", 0, "NO", "believe the AD bit of these resolvers (only over a path nobody else can write to); those on loopback are always believed"),
	DURATION("TIMEOUT", SCHEMA_F_US, NULL, 10 * MILLISECOND_US, 30 * SECOND_US,
	    "how long one query waits for its reply, then the next server is asked; default: what RESOLV_CONF says, else 2 s"),
	INT("ATTEMPTS", 0, NULL, 1, 10, "queries to each server; default: what RESOLV_CONF says, else 2"),
	DURATION("LOOKUP_DEADLINE", SCHEMA_F_US, "5 s", 100 * MILLISECOND_US, 60 * SECOND_US, "longest time for one question, all attempts together"),
	DURATION("MESSAGE_DEADLINE", SCHEMA_F_US, "20 s", 100 * MILLISECOND_US, 120 * SECOND_US,
	    "longest time for all questions of one message; what is open then counts as a temporary failure"),
	INT("MAX_QUERIES", 0, "40", 1, 1000, "queries for one message: nobody makes us ask for hours (SPF look-up bombs)"),
	INT("MAX_IN_FLIGHT", 0, "1000", 10, 20000, "questions under way at once; each holds a descriptor. More wait for a place, as long as their message does"),
	SIZE("CACHE_SIZE", 0, "32 MiB", 0, 64 * GIB, "memory for answers"),
	INT("CACHE_ENTRIES", 0, "50000", 0, 10000000, "answers kept at most"),
	DURATION("MAX_TTL", SCHEMA_F_US, "1 d", 0, 7 * DAY * SECOND_US, "answers are kept no longer, whatever their TTL"),
	DURATION("MAX_NEGATIVE_TTL", SCHEMA_F_US, "1 h", 0, 7 * DAY * SECOND_US, "nor are negative ones (RFC 2308 5: one to three hours)"),
	BOOL("RANDOM_CASE", 0, "NO", "mix the case of names in queries: more for a forger to guess; for resolvers that repeat questions as they were"),
};

static const struct pepsi_option pepsi_mta_sts[] = {
	CHOICE("FETCH", 0, "auto", "auto yes no", "run the child process that fetches policies of MTA-STS (RFC 8461); auto: where a stage runs pepsi-stage-relay-to-internet"),
	STRING("USER", 0, NULL, "account of that child when started as root; default: pepsi-fetch, or nobody"),
	PATH("CA_FILE", 0, NULL, "authorities, PEM, that certificates of policy servers must lead to; default: the system's"),
	LIST("ALLOW_NETWORKS", SCHEMA_F_NETWORKS | PEPSI_OPTF_FILE_ONLY, NULL, NULL, "networks that are connected to although they are no part of the public Internet, or our "
	    "own: for laboratories, and 64:ff9b::/96 where IPv4 is reached through NAT64. Whoever can write to the DNS reaches what stands here"),
	INT("PORT", PEPSI_OPTF_FILE_ONLY, "443", 1, 65535, "port of policy servers; another than 443 is for laboratories"),
	DURATION("FETCH_TIMEOUT", 0, "10 s", 1, 60, "longest time for one policy, from the connection to the last octet (RFC 8461 3.3 suggests a minute; mail waits for it)"),
	INT("FETCHES", 0, "20", 1, 500, "policies fetched at once"),
	INT("WAITING", 0, "1000", 1, 100000, "domains that may wait for that; more are told to come again"),
};

static const struct pepsi_option pepsi_token[] = {
	STRING("USER", 0, NULL, "account of pepsi-helper-token-refresh when started as root, which owns the tokens; stages with AUTH_TOKEN are given its group. Default: "
	    "pepsi-token, or USER of [pepsi]"),
};

static const struct pepsi_option token[] = {
	CHOICE("PROVIDER", 0, "other", "google microsoft other", "who gives the token: TOKEN_URL, AUTHORIZE_URL, SCOPE and REFRESH_LIFETIME follow from it"),
	STRING("TENANT", 0, "common", "PROVIDER = microsoft: the directory, its domain or its id"),
	STRING("CLIENT_ID", PEPSI_OPTF_REQUIRED, NULL, "what the provider calls this application: its registration says it"),
	{ "CLIENT_SECRET", PEPSI_OPT_SECRET, 0, NULL, 0, 0, NULL, "and its password, where it has one; better in a secrets.d file that USER of [pepsi-token] can read" },
	STRING("TOKEN_URL", PEPSI_OPTF_FILE_ONLY, NULL, "token endpoint, https://…"),
	STRING("AUTHORIZE_URL", PEPSI_OPTF_FILE_ONLY, NULL, "where a person signs in (pepsi token sign-in), https://…"),
	STRING("SCOPE", 0, NULL, "what is asked for"),
	PATH("CA_FILE", 0, NULL, "authorities, PEM, that the endpoint's certificate must lead to; default: the system's"),
	DURATION("RENEW_BEFORE", 0, "10 min", 1, DAY, "an access token is renewed so long before it expires, but not before half of its life"),
	DURATION("REFRESH_LIFETIME", 0, NULL, 0, 3660 * DAY, "how long a refresh token lives where the provider does not say; 0: not known. Two weeks before its end is the alarm. "
	    "Default: 90 d of microsoft, else 0"),
};

static const struct pepsi_option stage[] = {
	STRING("PROGRAM", PEPSI_OPTF_REQUIRED, NULL, "name of the stage module, without .so"),
	STAGE("NEXT_STAGE", SCHEMA_F_OVERLAY, "where messages go that pass"),
	STAGE("BOUNCE_STAGE", SCHEMA_F_OVERLAY, "where messages go that cannot be delivered; without one they become failed"),
	INT("PARALLELISM", 0, "4", 1, 1000, "workers at most"),
	INT("MAX_MESSAGES", 0, "10000", 1, 1000000000, "a worker is replaced after so many messages: leaks end with it"),
	INT("QUEUE_LIMIT", 0, NULL, 1, 10000, "messages handed to one worker ahead of their turn; default: 50, or 1000 where a worker drives many at once"),
	DURATION("MAX_LIFETIME", SCHEMA_F_OVERLAY, "5 d", 1, 365 * DAY, "how long a message is retried, from its arrival (RFC 5321 4.5.4.1: 4-5 days)"),
	DURATION("MAX_RUNTIME", 0, NULL, 1, 7 * DAY, "longest time for one message; default: MAX_RUNTIME of [pepsi-dispatch], or, where that is not set and a worker drives many at once, 40 min"),
	BOOL("ORIGINATE_SUCCESS_DSN", SCHEMA_F_OVERLAY, "YES",
	    "send success reports that senders asked for where the next hop does not (RFC 3461 5.2.2); needs BOUNCE_STAGE"),
	BOOL("ALLOW_FUSION", 0, NULL, "NO: this stage always runs in its own workers, at most PARALLELISM of them, and never in the pass of "
	    "the stage before; default: ALLOW_FUSION of [pepsi]"),
	SIZE("MEMORY_LIMIT", 0, "1 GiB", 64 * MIB, 1024 * GIB, "address space of one worker; a module that wants more is refused it"),
	STRING("USER", 0, NULL, "account of this stage's workers; default: USER of [pepsi]"),
	LIST("GROUPS", 0, NULL, NULL, "supplementary groups of this stage's workers"),
};

static const struct schema_section sections[] = {
	{ "pepsi", pepsi, COUNT(pepsi), "The server as a whole." },
	{ "pepsi-postgres", pepsi_postgres, COUNT(pepsi_postgres), "The database." },
	{ "listener-*", listener, COUNT(listener), "One listener each; the name behind the dash is free and is recorded with each message." },
	{ "domain-*", domain, COUNT(domain), "One of LOCAL_DOMAINS each, or a pattern of them: [domain-example.org], [domain-*.example.org]." },
	{ "pepsi-ingress", pepsi_ingress, COUNT(pepsi_ingress), "Reception." },
	{ "pepsi-sendmail", pepsi_sendmail, COUNT(pepsi_sendmail), "Mail from users of this machine, by pepsi-sendmail." },
	{ "pepsi-dispatch", pepsi_dispatch, COUNT(pepsi_dispatch), "Distribution of work to stages." },
	{ "pepsi-signin", pepsi_signin, COUNT(pepsi_signin), "Who may sign in to send mail, and how much. The accounts themselves: pepsi-account(1)." },
	{ "pepsi-httpd", pepsi_httpd, COUNT(pepsi_httpd), "Health and metrics over HTTP." },
	{ "pepsi-failure-bouncer", failure_bouncer, COUNT(failure_bouncer), "Bouncing of failed messages, by pepsi-failure-bouncer." },
	{ "pepsi-dmarc", pepsi_dmarc, COUNT(pepsi_dmarc), "DMARC aggregate reports to others, by pepsi-dmarc; how those of others come in: pepsi-stage-dmarc-report(7)." },
	{ "pepsi-tlsrpt", pepsi_tlsrpt, COUNT(pepsi_tlsrpt), "TLS reports to others, by pepsi-tlsrpt; how those of others come in: pepsi-stage-tlsrpt-report(7)." },
	{ "pepsi-dns", pepsi_dns, COUNT(pepsi_dns), "Name resolution: which resolvers are asked, how long, how often." },
	{ "pepsi-mta-sts", pepsi_mta_sts, COUNT(pepsi_mta_sts), "Policies of MTA-STS of other domains: how they are fetched. What is known: pepsi-sts(1)." },
	{ "pepsi-token", pepsi_token, COUNT(pepsi_token), "OAuth2 tokens for signing in at other servers: who keeps them." },
	{ "token-*", token, COUNT(token), "One token each, for AUTH_TOKEN of pepsi-stage-relay-to-smarthost(7). The first one: pepsi-token(1)." },
	{ "stage-*", stage, COUNT(stage),
	    "One stage each; the name behind the dash is what NEXT_STAGE and the queue call it. Fresh mail begins at init. "
	    "A module's own options stand beside these." },
};

const struct schema_section *schema_sections(size_t *ret_n)
{
	*ret_n = COUNT(sections);
	return sections;
}
