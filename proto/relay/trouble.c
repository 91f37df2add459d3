/* What a reply says of the destination; see trouble.h. A table of phrases, in order of how much they say, then status codes, then the phase. */
#include "proto/relay/trouble.h"
#include "base/buf.h"
#include "proto/smtp/status.h"

const char *trouble_name(enum trouble t)
{
	static const char *const names[TROUBLE_N] = { "none", "connections", "rate", "blocked", "unreachable", "lost", "system", "protocol", "dns",
		"tls", "greylisted", "mailbox", "recipient", "policy", "other", "local" };
	return (unsigned)t < TROUBLE_N ? names[t] : "";
}

bool trouble_is_destination(enum trouble t)
{
	return t >= TROUBLE_CONNECTIONS && t <= TROUBLE_DNS;
}

enum { EARLY = 1, LATE = 2, ANY = 3 }; /* before MAIL, from MAIL on */
static const struct {
	const char *phrase; /* lower case, single blanks, punctuation as blanks */
	unsigned char when;
	unsigned char trouble;
} phrases[] = {
	/* one mailbox, though it sounds like a rate */
	{ "user you are trying to contact", LATE, TROUBLE_MAILBOX },
	{ "recipient is receiving", LATE, TROUBLE_MAILBOX },
	{ "recipient limit exceeded for this mailbox", LATE, TROUBLE_MAILBOX },
	{ "mailbox busy", LATE, TROUBLE_MAILBOX },
	{ "mailbox is busy", LATE, TROUBLE_MAILBOX },
	{ "mailbox temporarily", LATE, TROUBLE_MAILBOX },
	{ "mailbox full", LATE, TROUBLE_MAILBOX },
	{ "over quota", LATE, TROUBLE_MAILBOX },
	{ "quota exceeded", LATE, TROUBLE_MAILBOX },
	/* this message, for a while */
	{ "greylist", LATE, TROUBLE_GREYLISTED },
	{ "graylist", LATE, TROUBLE_GREYLISTED },
	{ "grey list", LATE, TROUBLE_GREYLISTED },
	{ "gray list", LATE, TROUBLE_GREYLISTED },
	{ "postgrey", LATE, TROUBLE_GREYLISTED },
	{ "not yet authorized to deliver", LATE, TROUBLE_GREYLISTED },
	{ "first time sender", LATE, TROUBLE_GREYLISTED },
	/* connections */
	{ "too many connections", ANY, TROUBLE_CONNECTIONS },
	{ "too many concurrent", ANY, TROUBLE_CONNECTIONS },
	{ "too many simultaneous", ANY, TROUBLE_CONNECTIONS },
	{ "too many open", ANY, TROUBLE_CONNECTIONS },
	{ "too many smtp sessions", ANY, TROUBLE_CONNECTIONS },
	{ "too many sessions", ANY, TROUBLE_CONNECTIONS },
	{ "maximum number of connections", ANY, TROUBLE_CONNECTIONS },
	{ "number of connections", ANY, TROUBLE_CONNECTIONS },
	{ "concurrent connections", ANY, TROUBLE_CONNECTIONS },
	{ "simultaneous connections", ANY, TROUBLE_CONNECTIONS },
	{ "connection limit", ANY, TROUBLE_CONNECTIONS },
	{ "connection count", ANY, TROUBLE_CONNECTIONS },
	/* rates */
	{ "rate limit", ANY, TROUBLE_RATE },
	{ "ratelimit", ANY, TROUBLE_RATE },
	{ "frequency limit", ANY, TROUBLE_RATE },
	{ "connection rate", ANY, TROUBLE_RATE },
	{ "connection frequency", ANY, TROUBLE_RATE },
	{ "throttl", ANY, TROUBLE_RATE },
	{ "unusual rate", ANY, TROUBLE_RATE },
	{ "unexpected volume", ANY, TROUBLE_RATE },
	{ "too much mail", ANY, TROUBLE_RATE },
	{ "too many mails", ANY, TROUBLE_RATE },
	{ "too many messages", ANY, TROUBLE_RATE },
	{ "too many emails", ANY, TROUBLE_RATE },
	{ "too fast", ANY, TROUBLE_RATE },
	{ "slow down", ANY, TROUBLE_RATE },
	{ "sending rate", ANY, TROUBLE_RATE },
	{ "message rate", ANY, TROUBLE_RATE },
	{ "exceeded the maximum number of messages", ANY, TROUBLE_RATE },
	{ "recipients this hour", ANY, TROUBLE_RATE },
	{ "hourly limit", ANY, TROUBLE_RATE },
	{ "daily limit", ANY, TROUBLE_RATE },
	{ "temporarily deferred", ANY, TROUBLE_RATE },
	/* our address */
	{ "dnsbl", ANY, TROUBLE_BLOCKED },
	{ "rbl", ANY, TROUBLE_BLOCKED },
	{ "spamhaus", ANY, TROUBLE_BLOCKED },
	{ "spamcop", ANY, TROUBLE_BLOCKED },
	{ "barracudacentral", ANY, TROUBLE_BLOCKED },
	{ "blacklist", ANY, TROUBLE_BLOCKED },
	{ "black list", ANY, TROUBLE_BLOCKED },
	{ "blocklist", ANY, TROUBLE_BLOCKED },
	{ "block list", ANY, TROUBLE_BLOCKED },
	{ "denylist", ANY, TROUBLE_BLOCKED },
	{ "reputation", ANY, TROUBLE_BLOCKED },
	{ "listed at", ANY, TROUBLE_BLOCKED },
	{ "blocked using", ANY, TROUBLE_BLOCKED },
	{ "client host rejected", ANY, TROUBLE_BLOCKED },
	{ "client host blocked", ANY, TROUBLE_BLOCKED },
	{ "your ip", ANY, TROUBLE_BLOCKED },
	{ "your network", ANY, TROUBLE_BLOCKED },
	{ "sending ip", ANY, TROUBLE_BLOCKED },
	{ "ip address is blocked", ANY, TROUBLE_BLOCKED },
	{ "reverse dns", ANY, TROUBLE_BLOCKED },
	{ "ptr record", ANY, TROUBLE_BLOCKED },
	{ "cannot find your hostname", ANY, TROUBLE_BLOCKED },
	{ "cannot find your reverse hostname", ANY, TROUBLE_BLOCKED },
	/* its own troubles */
	{ "server busy", ANY, TROUBLE_SYSTEM },
	{ "server is busy", ANY, TROUBLE_SYSTEM },
	{ "system busy", ANY, TROUBLE_SYSTEM },
	{ "service unavailable", EARLY, TROUBLE_SYSTEM },
	{ "service currently unavailable", ANY, TROUBLE_SYSTEM },
	{ "service temporarily unavailable", ANY, TROUBLE_SYSTEM },
	{ "service not available", ANY, TROUBLE_SYSTEM },
	{ "no smtp service", ANY, TROUBLE_SYSTEM },
	{ "not accepting network messages", ANY, TROUBLE_SYSTEM },
	{ "not accepting messages", ANY, TROUBLE_SYSTEM },
	{ "insufficient system", ANY, TROUBLE_SYSTEM },
	{ "insufficient resources", ANY, TROUBLE_SYSTEM },
	{ "out of memory", ANY, TROUBLE_SYSTEM },
	{ "load average", ANY, TROUBLE_SYSTEM },
	{ "load too high", ANY, TROUBLE_SYSTEM },
	{ "shutting down", ANY, TROUBLE_SYSTEM },
	{ "maintenance", ANY, TROUBLE_SYSTEM },
	{ "local error in processing", ANY, TROUBLE_SYSTEM },
	{ "queue file write error", ANY, TROUBLE_SYSTEM },
};

/* Lower case; whatever is no letter or digit is one blank. A phrase may begin anywhere, but at the beginning of a word. */
static size_t flatten(struct str text, char out[SMTP_CLIENT_TEXT_MAX + 3])
{
	size_t n = 0;
	out[n++] = ' ';
	for (size_t i = 0; i < text.n && i < SMTP_CLIENT_TEXT_MAX; i++) {
		char c = text.p[i];
		if (c >= 'A' && c <= 'Z')
			c = (char)(c + 32);
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (unsigned char)c >= 128)
			out[n++] = c;
		else if (out[n - 1] != ' ')
			out[n++] = ' ';
	}
	return n;
}

static enum trouble of_words(struct str text, unsigned when)
{
	char flat[SMTP_CLIENT_TEXT_MAX + 3];
	size_t n = flatten(text, flat);
	for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
		if (!(phrases[i].when & when))
			continue;
		size_t m = strlen(phrases[i].phrase);
		const char *p = flat, *end = flat + n;
		while ((p = memmem(p, (size_t)(end - p), phrases[i].phrase, m)) && p[-1] != ' ')
			p++;
		if (p)
			return (enum trouble)phrases[i].trouble;
	}
	return TROUBLE_NONE;
}

/* What the status alone says: RFC 3463 §3, RFC 5248, RFC 7372. TROUBLE_NONE: nothing. `firm`: whatever the words */
static enum trouble of_status(const struct smtp_status *s, bool *firm)
{
	*firm = false;
	switch (s->subject) {
	case 1: /* addresses; x.1.7 and x.1.8 are the sender's */
		*firm = true;
		return s->detail == 7 || s->detail == 8 ? TROUBLE_POLICY : TROUBLE_RECIPIENT;
	case 2: /* mailboxes */
		*firm = s->detail != 0;
		return TROUBLE_MAILBOX;
	case 3: /* the mail system; x.3.4 is the size of the message */
		*firm = s->detail == 4;
		return s->detail == 4 ? TROUBLE_POLICY : TROUBLE_SYSTEM;
	case 4: /* network and routing: ahead of it, if it is for good */
		return s->class == 4 ? TROUBLE_SYSTEM : TROUBLE_OTHER;
	case 6:
		*firm = true;
		return TROUBLE_POLICY;
	case 7:
		if (s->detail == 25) { /* reverse DNS of the client (RFC 7372) */
			*firm = true;
			return TROUBLE_BLOCKED;
		}
		if (s->detail >= 20 && s->detail <= 27) { /* DKIM, SPF, null MX of the sender */
			*firm = s->detail != 26 || s->class == 5;
			return TROUBLE_POLICY;
		}
		/* mail flood; and 4.7.5xx, 4.7.6xx: a big provider's "busy, for your address" */
		*firm = s->detail == 28 || (s->class == 4 && s->detail >= 500);
		return *firm ? TROUBLE_RATE : TROUBLE_POLICY;
	default:
		return TROUBLE_NONE;
	}
}

static enum trouble of_reply(const struct smtp_result *r)
{
	bool early = r->phase <= SMTP_PHASE_IDLE, firm = false;
	struct smtp_status s;
	enum trouble status = TROUBLE_NONE, words;
	if (!smtp_status_parse(str_from(r->status), &s, NULL))
		status = of_status(&s, &firm);
	if (early && !trouble_is_destination(status))
		status = TROUBLE_NONE, firm = false; /* nothing was said of a message yet */
	if (firm)
		return status;
	words = of_words(r->text, early ? EARLY : LATE);
	if (words != TROUBLE_NONE && (words != TROUBLE_GREYLISTED || r->outcome == SMTP_OUT_TRANSIENT))
		return words;
	/* "421 try again later": it ends the session, so it is not about the message (RFC 5321 §3.8), unless it is about security or policy */
	if (r->code == 421)
		return status == TROUBLE_RATE || status == TROUBLE_POLICY ? TROUBLE_RATE : TROUBLE_SYSTEM;
	if (r->phase == SMTP_PHASE_STARTTLS)
		return TROUBLE_TLS;
	if (early && status == TROUBLE_NONE)
		return r->outcome == SMTP_OUT_PERMANENT ? TROUBLE_BLOCKED : TROUBLE_SYSTEM;
	return status == TROUBLE_NONE ? TROUBLE_OTHER : status;
}

enum trouble trouble_of(const struct smtp_result *r)
{
	switch (r->outcome) {
	case SMTP_OUT_NONE:
	case SMTP_OUT_OK:
		return TROUBLE_NONE;
	case SMTP_OUT_LOST:
		return r->phase <= SMTP_PHASE_BANNER ? TROUBLE_UNREACHABLE : TROUBLE_LOST;
	case SMTP_OUT_PROTOCOL:
		return TROUBLE_PROTOCOL;
	case SMTP_OUT_TRANSIENT:
	case SMTP_OUT_PERMANENT:
		break;
	}
	return r->code ? of_reply(r) : TROUBLE_OTHER; /* code 0: we refused it ourselves, before a word to the peer */
}

void trouble_text(const struct smtp_result *r, char ret[TROUBLE_TEXT_MAX + 1])
{
	size_t n = 0;
	char *p = ret;
	if (r->code)
		p[n++] = (char)('0' + r->code / 100 % 10), p[n++] = (char)('0' + r->code / 10 % 10), p[n++] = (char)('0' + r->code % 10);
	for (const char *z = r->status; *z && n < 20; z++) {
		if (z == r->status && n)
			p[n++] = ' ';
		p[n++] = *z;
	}
	if (n)
		p[n++] = ' ';
	size_t cut = str_utf8_cut(r->text, TROUBLE_TEXT_MAX - n);
	for (size_t i = 0; i < cut; i++) {
		unsigned char c = (unsigned char)r->text.p[i];
		p[n++] = c < 32 || c == 127 ? ' ' : (char)c;
	}
	p[n] = 0;
}
