/* pepsi dns: one question, through the running pepsid (its cache, its view of the servers) or, without one, with a resolver of its
 * own made from the same configuration. */
#include "cli_internal.h"

#include "net/dns.h"
#include "worker/resolve.h"

#include <arpa/inet.h>

static void print_answer(struct json_object *o)
{
	struct json_object *list = NULL, *v = NULL;
	bool yes = json_object_object_get_ex(o, "authenticated", &v) && json_object_get_boolean(v);
	bool cached = json_object_object_get_ex(o, "cached", &v) && json_object_get_boolean(v);
	cli_text_print(stdout, cli_json_text(o, "name"));
	printf(" %.*s: %.*s", STR_ARG(cli_json_text(o, "type")), STR_ARG(cli_json_text(o, "status")));
	if (cli_json_text(o, "why").n) {
		fputs(" (", stdout);
		cli_text_print(stdout, cli_json_text(o, "why"));
		putchar(')');
	}
	printf(", ttl %lld, %s", (long long)cli_json_int(o, "ttl"), yes ? "authenticated" : "not authenticated");
	if (cached)
		fputs(", from the cache", stdout);
	if (cli_json_text(o, "server").n) {
		fputs(", by ", stdout);
		cli_text_print(stdout, cli_json_text(o, "server"));
		if (json_object_object_get_ex(o, "took_ms", &v))
			printf(" in %.1f ms", json_object_get_double(v));
	}
	putchar('\n');
	if (json_object_object_get_ex(o, "chain", &list))
		for (size_t i = 0; i < json_object_array_length(list); i++)
			printf("  alias of %s\n", json_object_get_string(json_object_array_get_idx(list, i)));
	if (json_object_object_get_ex(o, "records", &list))
		for (size_t i = 0; i < json_object_array_length(list); i++)
			printf("  %s\n", json_object_get_string(json_object_array_get_idx(list, i)));
}

static struct json_object *through_daemon(struct cli *c, const char *name, const char *type, bool quiet)
{
	struct json_object *args = json_object_new_object();
	json_object_object_add(args, "name", json_object_new_string(name));
	json_object_object_add(args, "type", json_object_new_string(type));
	return cli_ask(c, "dns", args, CLI_ANSWER_MS, quiet);
}

struct asking {
	struct net_dns *dns;
	struct event_base *base;
	struct buf json;
};

static void on_answer(void *arg, const struct dns_answer *a)
{
	struct asking *k = arg;
	struct net_dns_delivery how = net_dns_delivery(k->dns);
	net_dns_answer_json(a, &how, &k->json);
	event_base_loopbreak(k->base);
}

static struct json_object *directly(struct cli *c, const char *name, enum dns_type type)
{
	struct net_dns_settings s;
	char err[256];
	struct asking k = { .json = BUF_INIT(4 << 20) };
	struct json_object *o = NULL;
	struct config *conf = cli_config_need(c);
	if (!conf)
		return NULL;
	if (resolve_settings(conf, &s, err, sizeof err)) {
		cli_fail("%s", err);
		config_free(conf);
		return NULL;
	}
	k.base = event_base_new();
	k.dns = k.base ? net_dns_new(k.base, &s) : NULL;
	struct net_dns_group *g = k.dns ? net_dns_group_new(k.dns, 0, 0) : NULL;
	if (g && net_dns_query(g, str_from(name), type, on_answer, &k)) {
		event_base_dispatch(k.base);
		o = json_tokener_parse(buf_z(&k.json));
	}
	if (!o)
		cli_fail("out of memory");
	net_dns_group_free(g);
	net_dns_free(k.dns);
	if (k.base)
		event_base_free(k.base);
	buf_free(&k.json);
	config_free(conf);
	return o;
}

/* An address as NAME means its reverse name. */
static const char *name_of(const char *text, char *reverse, bool *ret_is_address)
{
	unsigned char ip[16];
	size_t n = inet_pton(AF_INET, text, ip) == 1 ? 4 : inet_pton(AF_INET6, text, ip) == 1 ? 16 : 0;
	*ret_is_address = n && dns_name_reverse(ip, n, NULL, reverse) > 0;
	return *ret_is_address ? reverse : text;
}

int tool_dns(struct cli *c)
{
	char reverse[DNS_NAME_MAX + 1];
	bool is_address, direct = c->args.set & CLI_BIT(CLI_DIRECT);
	enum dns_type type;
	const char *name = name_of(c->args.pos[0], reverse, &is_address);
	const char *text = c->args.n_pos > 1 ? c->args.pos[1] : is_address ? "PTR" : "A";
	if (!*name)
		return cli_usage(c, "an empty name: which one is to be looked up?");
	if (dns_type_parse(str_from(text), &type))
		return cli_usage(c, "\"%s\" is no type of record: A, AAAA, MX, TXT, PTR, NS, CNAME, SOA or TLSA", text);
	struct json_object *o = direct ? directly(c, name, type) : through_daemon(c, name, text, true);
	if (!o && !direct) {
		/* nobody listens, or we may not ask: aloud, so that it is known who answers then */
		fprintf(stderr, "pepsi: pepsid cannot be asked: asking with a resolver of our own\n");
		o = directly(c, name, type);
	}
	if (!o)
		return CLI_FAILED;
	int rc = str_eq(cli_json_text(o, "status"), STR("ok")) ? CLI_DONE : CLI_FAILED;
	if (c->json)
		cli_json_print(o);
	else
		print_answer(o);
	json_object_put(o);
	return rc;
}
