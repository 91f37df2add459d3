/* Settings of the resolver out of [pepsi-dns]. */
#include "resolve.h"

#include <stdlib.h>

struct source {
	const struct config *c;
	char *resolv_conf; /* expanded */
};

static const char *text(const void *arg, const char *option)
{
	const struct source *s = arg;
	return strcmp(option, "RESOLV_CONF") == 0 ? s->resolv_conf : config_str(s->c, "pepsi-dns", option);
}

static int64_t number(const void *arg, const char *option)
{
	const struct source *s = arg;
	return config_int(s->c, "pepsi-dns", option);
}

int resolve_settings(const struct config *c, struct net_dns_settings *ret, char *err, size_t err_size)
{
	struct source s = { c, config_path(c, "pepsi-dns", "RESOLV_CONF") };
	struct net_dns_source src = { text, number, &s };
	int rc = net_dns_settings_read(ret, &src, err, err_size);
	free(s.resolv_conf);
	return rc;
}
