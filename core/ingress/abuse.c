/* Reads the options of abuse handling; see abuse.h. */
#include "abuse.h"

#include "ingress_internal.h"

#include <stdlib.h>
#include <sys/resource.h>

static unsigned number(const struct config *c, const char *section, const char *option)
{
	int64_t v = config_int(c, section, option);
	return v < 0 ? 0 : v > INT32_MAX ? INT32_MAX : (unsigned)v;
}

/* Users of this machine are many programs each, and known by name: what limits strangers holds for them where it is written down. */
static unsigned rate(const struct config *c, const char *section, const char *option, bool users)
{
	return users && !config_get(c, section, option) ? 0 : number(c, section, option);
}

/* The check of the configuration has refused words that do not parse: none is left here. */
static int read_lists(struct abuse_terms *t, const struct config *c, const char *section, const char *option, bool allow)
{
	struct str rest = str_from(config_str(c, section, option)), w;
	const char *why;
	while (t->n_lists < DNSBL_LISTS_MAX && str_word(&rest, " \t,", &w)) {
		if (!t->lists && !(t->lists = calloc(DNSBL_LISTS_MAX, sizeof *t->lists)))
			return -1;
		if (dnsbl_parse(w, allow, &t->lists[t->n_lists], &why) == 0)
			t->n_lists++;
	}
	return 0;
}

int abuse_terms_read(struct abuse_terms *t, const struct config *c, const char *section, bool users)
{
	const char *exempt = config_str(c, section, "LIMIT_EXEMPT");
	unsigned max = number(c, section, "MAX_CONNECTIONS");
	*t = (struct abuse_terms){
		.rates = {
			.per_minute = { [LIMIT_CONNECTIONS] = rate(c, section, "CONNECTIONS_PER_MINUTE", users),
			    [LIMIT_MESSAGES] = rate(c, section, "MESSAGES_PER_MINUTE", users),
			    [LIMIT_RECIPIENTS] = rate(c, section, "RECIPIENTS_PER_MINUTE", users),
			    [LIMIT_QUERIES] = rate(c, section, "AUTHENTICATION_QUERIES_PER_MINUTE", users) },
			.per_hour = { [LIMIT_MESSAGES] = rate(c, section, "MESSAGES_PER_HOUR", users),
			    [LIMIT_RECIPIENTS] = rate(c, section, "RECIPIENTS_PER_HOUR", users) },
			.network_factor = number(c, section, "NETWORK_FACTOR"),
			.unknown_per_hour = number(c, section, "UNKNOWN_PER_HOUR"),
		},
		.max_per_network = number(c, section, "MAX_CONNECTIONS_PER_NETWORK"),
		.reserved = number(c, section, "RESERVED_CONNECTIONS"),
		.banner_delay_us = config_int(c, section, "BANNER_DELAY"),
		.unknown_free = number(c, section, "UNKNOWN_FREE"),
		.unknown_max = number(c, section, "MAX_UNKNOWN"),
		.unknown_delay_us = config_int(c, section, "UNKNOWN_DELAY"),
		.dnsbl_wait_us = config_int(c, section, "DNSBL_WAIT"),
		.dnsbl_text = config_int(c, section, "DNSBL_TEXT"),
		.greylist = config_int(c, section, "GREYLIST"),
	};
	if (t->reserved > max / 2)
		t->reserved = max / 2;
	if (exempt && !(t->exempt = config_networks_new(exempt)))
		return -1;
	return read_lists(t, c, section, "DNSBL", false) || read_lists(t, c, section, "DNSWL", true) ? -1 : 0;
}

void abuse_terms_done(struct abuse_terms *t)
{
	config_networks_free(t->exempt);
	free(t->lists);
}

/* A session takes one descriptor, and perhaps one for its message; some are for everything else. */
static unsigned descriptors(void)
{
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) || rl.rlim_cur == RLIM_INFINITY)
		return INT32_MAX;
	rlim_t rest = rl.rlim_cur / 4 < 1024 ? rl.rlim_cur / 4 : 1024;
	return rl.rlim_cur - rest > INT32_MAX ? INT32_MAX : (unsigned)(rl.rlim_cur - rest);
}

void abuse_settings_read(struct abuse_settings *s, const struct config *c)
{
	static const char sec[] = "pepsi-ingress";
	unsigned most = descriptors();
	*s = (struct abuse_settings){
		.max_sessions = number(c, sec, "MAX_SESSIONS"),
		.reserved_percent = number(c, sec, "RESERVED_SESSIONS"),
		.remembered = number(c, sec, "LIMITS_REMEMBERED"),
		.tarpit_max = number(c, sec, "TARPIT_MAX"),
		.recipients = { .cached = number(c, sec, "RECIPIENT_CACHE"),
		    .cache_us = config_int(c, sec, "RECIPIENT_CACHE_TIME") * INT64_C(1000000) },
		.greylist = { .delay_s = (int32_t)number(c, sec, "GREYLIST_DELAY"), .window_s = (int32_t)number(c, sec, "GREYLIST_WINDOW"),
		    .life_s = (int32_t)number(c, sec, "GREYLIST_LIFETIME"), .auto_passes = (int32_t)number(c, sec, "GREYLIST_AUTO") },
		.queue_max = (uint64_t)config_int(c, sec, "QUEUE_MAX_ROWS"),
	};
	if (s->max_sessions > most)
		s->max_sessions = most;
}

bool abuse_exempt(const struct listening *l, const struct net_addr *peer, bool relay)
{
	const struct abuse_terms *t = &l->terms->abuse;
	if (!net_addr_is_ip(peer)) /* who comes by a unix socket for servers is one of ours; users are counted each for himself */
		return !l->terms->user_known || !peer->uid_known || !peer->uid;
	return t->exempt ? config_networks_has(t->exempt, peer->text) : relay;
}

int64_t abuse_banner_delay(const struct session *s)
{
	const struct terms *t = s->terms;
	if (s->exempt || t->need_auth || t->implicit_tls || t->user_known || limits_known(s->in->limits, &s->peer))
		return 0;
	return t->abuse.banner_delay_us;
}
