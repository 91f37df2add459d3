/* The resolver of a worker, and settings of resolvers out of [pepsi-dns]. */
#include "resolve.h"

#include "base/clock.h"
#include "concurrent.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

struct source {
	const struct config *c;
	char *resolv_conf; /* expanded */
	char socket[PATH_MAX + 32];
};

static const char *text(const void *arg, const char *option)
{
	const struct source *s = arg;
	if (strcmp(option, "SOCKET") == 0)
		return s->socket;
	return strcmp(option, "RESOLV_CONF") == 0 ? s->resolv_conf : config_str(s->c, "pepsi-dns", option);
}

static int64_t number(const void *arg, const char *option)
{
	const struct source *s = arg;
	return config_int(s->c, "pepsi-dns", option);
}

int resolve_settings(const struct config *c, struct net_dns_settings *ret, char *err, size_t err_size)
{
	struct source s = { .c = c, .resolv_conf = config_path(c, "pepsi-dns", "RESOLV_CONF") };
	struct net_dns_source src = { text, number, &s };
	char *state = config_path(c, "pepsi", "STATE_DIR");
	snprintf(s.socket, sizeof s.socket, "%s/run/dns.sock", state ? state : "");
	free(state);
	int rc = net_dns_settings_read(ret, &src, err, err_size);
	free(s.resolv_conf);
	return rc;
}

/* ---- host->resolve() */

/* One per process, made with the first question: on the loop of a concurrent module, or on one of its own, that nobody else runs. */
static struct net_dns *the_dns;
static struct event_base *own_base;

struct net_dns *resolve_dns(const struct config *c)
{
	struct net_dns_settings s;
	char err[256];
	struct concurrent *many = concurrent_here();
	if (the_dns)
		return the_dns;
	if (resolve_settings(c, &s, err, sizeof err)) {
		log_error(NULL, "event=dns-settings reason=%s", log_qz(err));
		return NULL;
	}
	if (many || own_base || (own_base = event_base_new()))
		the_dns = net_dns_new(many ? concurrent_base(many) : own_base, &s);
	return the_dns;
}

void resolve_done(void)
{
	net_dns_free(the_dns);
	the_dns = NULL;
	if (own_base)
		event_base_free(own_base);
	own_base = NULL;
}

static struct net_dns_group *group_of(struct pepsi_msg *msg)
{
	struct net_dns *dns = msg->dns ? NULL : resolve_dns(msg->env->conf->c);
	int64_t left = host_runtime_left_ms(msg) * 1000 - US_PER_S; /* enough to do something about the answer */
	int64_t most = config_int(msg->env->conf->c, "pepsi-dns", "MESSAGE_DEADLINE");
	if (left > most)
		left = most;
	if (dns)
		msg->dns = net_dns_group_new(dns, left > 0 ? left : 1, 0);
	return msg->dns;
}

struct pepsi_dns *resolve_copy(struct arena *a, const struct dns_answer *from)
{
	struct pepsi_dns *to = arena_alloc(a, sizeof *to);
	struct pepsi_dns_rr *rr = arena_calloc(a, from->n_rr + 1, sizeof *rr);
	struct str canonical = arena_str(a, from->n_chain ? from->chain[from->n_chain - 1] : from->name);
	if (!to || !rr || !canonical.p)
		return NULL;
	*to = (struct pepsi_dns){ .abi = PEPSI_ABI_OF(struct pepsi_dns), .status = (uint32_t)from->status, .authenticated = from->authenticated,
		.ttl = from->ttl, .rr_size = sizeof *rr, .rr = rr, .n_rr = from->n_rr, .canonical = canonical.p, .why = from->why };
	for (size_t i = 0; i < from->n_rr; i++) {
		const struct dns_rr *r = &from->rr[i];
		struct str data = arena_str(a, r->data);
		if (!data.p)
			return NULL;
		rr[i] = (struct pepsi_dns_rr){ .data = { data.p, data.n }, .preference = r->preference, .usage = r->usage,
			.selector = r->selector, .matching = r->matching };
	}
	return to;
}

const char *resolve_wrong(const char *name, uint32_t type)
{
	return !name ? "no name" : !dns_type_name((enum dns_type)type) || type == DNS_SOA ? "no such type of record" : NULL;
}

const struct pepsi_dns *host_resolve(struct pepsi_msg *msg, const char *name, uint32_t type)
{
	_Static_assert(PEPSI_DNS_A == DNS_A && PEPSI_DNS_TLSA == DNS_TLSA && PEPSI_DNS_TXT == DNS_TXT, "the numbers of the protocol");
	_Static_assert(PEPSI_DNS_OK == DNS_OK && PEPSI_DNS_TEMPFAIL == DNS_TEMPFAIL, "one word, one meaning");
	if (!(msg->env->mod->stage.caps & PEPSI_CAP_NET)) {
		pass_misuse(msg, "resolve: the module does not declare PEPSI_CAP_NET");
		return NULL;
	}
	const char *wrong = resolve_wrong(name, type);
	if (wrong) {
		pass_misuse(msg, "resolve: %s", wrong);
		return NULL;
	}
	struct net_dns_group *g = group_of(msg);
	struct dns_answer *a = g ? net_dns_wait(g, str_from(name), (enum dns_type)type) : NULL;
	struct pepsi_dns *ret = a ? resolve_copy(msg->a, a) : NULL;
	dns_answer_unref(a);
	return ret;
}

void resolve_end(struct pepsi_msg *msg)
{
	net_dns_group_free(msg->dns);
	msg->dns = NULL;
}
