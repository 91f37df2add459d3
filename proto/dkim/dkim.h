/* DKIM verification (RFC 6376, 8301, 8463, 8616) and ARC validation (RFC 8617) of one message, without I/O. Header block in,
 * body in as it arrives, keys in through a set of DNS answers; out come the results of RFC 8601 with their properties. No
 * sockets, no clock, no logging; nothing of the header block is kept behind dkim_headers().
 *
 *     struct dkim *d = dkim_new(&policy);              // policy.now: the time, by the caller
 *     dkim_headers(d, headers);                        // at the end of the headers
 *     net_dns_evaluate(group, dkim_evaluate, d, …);    // keys are fetched while the body arrives
 *     dkim_body_feed(d, p, n); …                            // each piece of the body, unstuffed, with its CRLFs
 *     dkim_body_end(d);
 *     // once the evaluation ended AND dkim_body_end() was called, in either order, dkim_done(d) is true:
 *     for (size_t i = 0; i < dkim_n(d); i++)
 *             use(dkim_signature(d, i));               // none: "dkim=none"
 *     use(dkim_arc(d));
 *
 * Work is linear in the size of the message; what is done for each signature, is bounded for all of them together; so is memory. */
#ifndef PROTO_DKIM_DKIM_H
#define PROTO_DKIM_DKIM_H

#include "proto/dns/answers.h"

enum {
	DKIM_SIGNATURES_MAX = 10,       /* signature fields looked at, from the top; the others are only counted */
	DKIM_RSA_BITS_MIN = 1024,       /* RFC 8301 §3.2 */
	DKIM_RSA_BITS_MAX = 4096,       /* the same; larger keys cost the verifier, not the signer */
	DKIM_KEYS_MAX = 4,              /* key records tried at one name (RFC 6376 §3.6.2.2: there should be one) */
	DKIM_HEADERS_MAX = 4 << 20,     /* octets of a header block; a larger one is not looked at */
	DKIM_FIELDS_MAX = 20000,        /* and fields */
	DKIM_FIELD_MAX = 256 << 10,     /* octets of one signature field */
	DKIM_HASHES_MAX = 12,           /* different body hashes (canonicalisation, algorithm, l=) of one message */
	DKIM_EARLY_X = 300,             /* seconds a signature is taken behind its x=, clocks being what they are */
	DKIM_FUTURE_T = 86400,          /* seconds its t= may be ahead of us (RFC 6376 §3.5) */
	DKIM_HASHED_MAX = 4 << 20,      /* octets of header fields hashed for all signatures of a message together */
	DKIM_TRIES_MAX = 128,           /* keys of 2048 bits tried on them together (one of 4096 counts for four): 50 ARC sets take two
					 * each, with one record a name */
	ARC_SETS_MAX = 50,              /* RFC 8617 §4.2.1 */
	ARC_OLD_NAMES_MAX = 10,         /* key names asked for only to learn the oldest pass (RFC 8617 §5.2 step 4, optional) */
};

/* RFC 8601 §2.7.1. */
enum dkim_result {
	DKIM_NONE,      /* not signed; as raw: not known */
	DKIM_PASS,
	DKIM_FAIL,      /* the message is not what was signed */
	DKIM_POLICY,    /* as it may be, this signature counts for nothing here: weak key, old hash, l= … */
	DKIM_NEUTRAL,   /* a signature that cannot be read or is of a kind we do not know */
	DKIM_TEMPERROR, /* the key could not be had now */
	DKIM_PERMERROR, /* never verifiable: no key, revoked, a required part is missing, expired */
};
/* "none", "pass", … */
const char *dkim_result_name(enum dkim_result r);

/* Keys that were read, for who verifies many messages: at most 256, of 2 KiB of text each, the least recently used gives way. Of one thread. */
struct dkim_keys;
/* NULL: memory. */
struct dkim_keys *dkim_keys_new(void);
/* Accepts NULL. Not while a struct dkim that knows it is still evaluated. */
void dkim_keys_free(struct dkim_keys *keys);

/* All zero: what security asks for, without a clock. */
struct dkim_policy {
	int64_t now;       /* seconds since 1970; 0: no clock, t= and x= are only read */
	unsigned rsa_min;  /* bits; 0: DKIM_RSA_BITS_MIN */
	unsigned rsa_max;  /* bits; 0: DKIM_RSA_BITS_MAX */
	bool sha1;         /* take rsa-sha1 (against RFC 8301 §3.1; for old suites) */
	bool partial;      /* take an l= that leaves a part of the body unsigned (against all sense) */
	bool historic;     /* as RFC 4871 and the drafts before it: no v= or v=0.x, q=dns, g= of key records limits i= */
	struct dkim_keys *keys; /* NULL: each key is read anew. The verdict is the same */
	bool arc;          /* validate the ARC chain, too */
	bool arc_newest;   /* of its seals and message signatures only the newest are looked at, the others taken as they are: for who sealed it,
			    * and wants to know whether that holds. Needs the key of that set alone; DKIM-Signatures are not looked at */
};

/* One signature, and what goes into Authentication-Results. Strings live as long as the struct dkim and hold no controls;
 * they are empty where the field did not say or was too broken. */
struct dkim_signature {
	enum dkim_result result;
	enum dkim_result raw;  /* of the arithmetic alone (both hashes and the signature): PASS, FAIL, or NONE: not computed.
				* A result of POLICY may have a raw PASS */
	char reason[112];      /* why not pass; printable ASCII, our own words, never the sender's; "" for a pass */
	struct str algorithm;  /* header.a: as in a=, only when it is one we know, else empty */
	struct str domain;     /* header.d: d=, folded: lower case, A-labels */
	struct str selector;   /* header.s: s=, folded */
	struct str identity;   /* header.i: i= decoded, local part as written, domain folded; "@d" when there was none */
	struct str b;          /* header.b: the first octets of b=, at least 8 where there are, enough to tell them apart (RFC 6008) */
	unsigned bits;         /* of the key; 0: no key */
	enum dkim_result headers, body; /* raw, apart: the signature over the header fields, the body hash. PASS, FAIL, NONE as raw */
	char canon[16];        /* "relaxed/simple": of the header fields, of the body; "" when c= could not be read */
	bool testing;          /* t=y in the key: the domain asks that its signatures count for nothing (RFC 6376 §3.6.1) */
	bool has_length;       /* there is an l= */
	uint64_t t, x;         /* of the signature; 0: none */
};

/* One ARC set, instance i + 1. */
struct arc_set {
	struct str seal_domain, seal_selector; /* of the ARC-Seal, folded */
	struct str message_domain;             /* d= of the ARC-Message-Signature, folded */
	struct str results;                    /* the ARC-Authentication-Results behind "i=N;", unfolded; octets as they came */
	enum dkim_result cv;                   /* DKIM_NONE, PASS, FAIL: what this sealer said of the chain before it */
	enum dkim_result message;              /* the ARC-Message-Signature: PASS, FAIL …, or NONE: not looked at */
};

struct arc_result {
	enum dkim_result result;  /* DKIM_NONE: no ARC fields; DKIM_PASS; DKIM_FAIL (RFC 8617 §4.4) */
	bool temporary;           /* fail only because a key could not be had now */
	char reason[160];         /* why it failed; our own words */
	unsigned n;               /* instances; 0 when the structure was not sound */
	unsigned oldest_pass;     /* RFC 8617 §5.2: the oldest instance from which on all message signatures pass; 0: all do */
	bool oldest_known;        /* oldest_pass means something: the newest passes, and the first that does not was looked at */
	const struct arc_set *set; /* n of them, by instance; sealers an override asks about. Trust them only if result is PASS */
};

struct dkim;
/* policy is copied; NULL: all zero. NULL when memory is out. */
struct dkim *dkim_new(const struct dkim_policy *policy);
/* Accepts NULL. (Not dkim_free, nor is there a dkim_body: libopendkim has functions of these names, and a process that signs has both libraries.) */
void dkim_release(struct dkim *d);

/* The header block, whole, as mail_split() cuts it (proto/mail/split.h): lines with CRLF, no empty line. Call once, before
 * anything else. The octets are not needed afterwards. Returns 0, or -1: out of memory. A block that is too large gives
 * results that say so. */
int dkim_headers(struct dkim *d, struct str headers);
/* Does any signature need the body at all? When not, the body may be withheld; dkim_body_end() is called all the same. */
bool dkim_wants_body(const struct dkim *d);
/* The next octets of the body. */
void dkim_body_feed(struct dkim *d, const void *p, size_t n);
void dkim_body_end(struct dkim *d);

/* A dns_evaluate_fn; arg is the struct dkim. Asks for every key at once; DNS_DONE once all are there, at once when there is
 * nothing to ask. May be called at any time behind dkim_headers(). */
int dkim_evaluate(void *arg, struct dns_answers *set);

/* The same for the signatures' keys alone: DNS_DONE once these are there; concludes nothing. For who has questions that matter more than
 * those of an ARC chain, which may be a hundred. */
int dkim_evaluate_keys(void *arg, struct dns_answers *set);
/* Only asks for the keys of those signatures whose d= is this domain, above or below it: where few questions may be under way at a time, the first ones
 * asked are the first answered. Behind dkim_headers(). */
void dkim_ask_first(const struct dkim *d, struct str domain, struct dns_answers *set);

/* Are the results below final? */
bool dkim_done(const struct dkim *d);
/* Signatures, from the top, at most DKIM_SIGNATURES_MAX. */
size_t dkim_n(const struct dkim *d);
/* Signature fields beyond that. */
size_t dkim_n_ignored(const struct dkim *d);
const struct dkim_signature *dkim_signature(const struct dkim *d, size_t i);
/* Never NULL; result NONE unless policy.arc. */
const struct arc_result *dkim_arc(const struct dkim *d);

#endif
