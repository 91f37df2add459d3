/* Configuration of the relay stages: validate() and the reading in open(). */
#include "relay.h"

#include "hop_socket.h"

#include <stdio.h>
#include <stdlib.h>

static bool given(const char *s)
{
	return s && *s;
}

static bool host_ok(const char *s)
{
	size_t n = strlen(s);
	if (hop_is_numeric(s))
		return true;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 32 || s[i] == 127 || strchr("/:[]<>()\\,;@\"", s[i]))
			return false;
	return n && n <= 253;
}

static bool helo_ok(const char *s)
{
	size_t n = strlen(s);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] <= 32 || (unsigned char)s[i] > 126)
			return false;
	return n && n <= 255;
}

int32_t relay_validate(const struct pepsi_host *host, const struct pepsi_conf *conf, struct pepsi_report *report, bool lmtp)
{
	const char *h = host->conf_str(conf, "HOST"), *helo = host->conf_str(conf, "HELO"), *tls = host->conf_str(conf, "TLS");
	const char *socket = lmtp ? host->conf_str(conf, "SOCKET") : NULL;
	struct hop_address a;
	if (given(h) && !host_ok(h))
		host->report(report, "HOST", "not a host name or an address in figures (no port, no brackets here)");
	if (lmtp && given(h) == given(socket))
		host->report(report, given(h) ? "SOCKET" : NULL,
		    given(h) ? "SOCKET and HOST exclude each other" : "one of SOCKET and HOST is needed");
	if (given(socket) && hop_unix_address(socket, &a))
		host->report(report, "SOCKET", "the path is too long for a socket (107 octets)");
	if (given(helo) && !helo_ok(helo))
		host->report(report, "HELO", "only printable ASCII without blanks can be sent");
	if (tls && !strcmp(tls, "dane"))
		host->report(report, "TLS", "dane is not available yet; require checks the certificate against TLS_CA_FILE");
	if (given(socket) && tls && strcmp(tls, "none") != 0)
		host->report(report, "TLS", "a local socket has no TLS; leave it at none");
	if (host->conf_int(conf, "RETRY_MIN") > host->conf_int(conf, "RETRY_MAX"))
		host->report(report, "RETRY_MAX", "is shorter than RETRY_MIN");
	return PEPSI_OK;
}

static const char *keep(struct relay *r, const char *s)
{
	char *copy = strdup(s);
	if (copy && r->n_strings < sizeof r->strings / sizeof *r->strings)
		r->strings[r->n_strings++] = copy;
	return copy;
}

int relay_configure(struct relay *r, const struct pepsi_host *host, const struct pepsi_conf *conf, bool lmtp, struct buf *why)
{
	const char *h = host->conf_str(conf, "HOST"), *helo = host->conf_str(conf, "HELO"), *tls = host->conf_str(conf, "TLS");
	const char *socket = lmtp ? host->conf_str(conf, "SOCKET") : NULL, *ca = host->conf_str(conf, "TLS_CA_FILE");
	if (!given(helo))
		helo = host->conf_global(conf, "pepsi", "HOSTNAME");
	if (!given(helo))
		helo = "localhost";
	if (!given(h) && !given(socket)) {
		buf_addz(why, lmtp ? "neither SOCKET nor HOST is set" : "HOST is not set");
		return -1;
	}
	if (!helo_ok(helo)) {
		buf_addz(why, "HELO: only printable ASCII without blanks can be sent");
		return -1;
	}
	r->conf = (struct hop_conf){ .port = (int)host->conf_int(conf, "PORT"), .lmtp = lmtp, .helo = keep(r, helo),
		.tls_verify = host->conf_int(conf, "TLS_VERIFY"), .connect_ms = host->conf_int(conf, "CONNECT_TIMEOUT") * 1000,
		.command_ms = host->conf_int(conf, "COMMAND_TIMEOUT") * 1000,
		.data_ms = host->conf_int(conf, "DATA_TIMEOUT") * 1000, .idle_ms = host->conf_int(conf, "IDLE_TIMEOUT") * 1000 };
	if (given(socket))
		r->conf.socket = keep(r, socket);
	else
		r->conf.host = keep(r, h);
	if (tls && !strcmp(tls, "may"))
		r->conf.tls = HOP_TLS_MAY;
	else if (tls && !strcmp(tls, "require"))
		r->conf.tls = HOP_TLS_REQUIRE;
	else if (tls && strcmp(tls, "none") != 0) {
		buf_addf(why, "TLS = %s is not available", tls);
		return -1;
	}
	if (given(ca))
		r->conf.tls_ca_file = keep(r, ca);
	r->policy = (struct relay_policy){ .retry_min = host->conf_int(conf, "RETRY_MIN"),
		.retry_max = host->conf_int(conf, "RETRY_MAX"), .delay_warning = host->conf_int(conf, "DELAY_WARNING"),
		.stage = keep(r, host->conf_stage_name(conf)) };
	if (r->conf.host) {
		char mta[280];
		snprintf(mta, sizeof mta, !hop_is_numeric(h) ? "%s" : strchr(h, ':') ? "[IPv6:%s]" : "[%s]", h);
		r->policy.remote_mta = keep(r, mta);
	}
	if (!r->conf.helo || !r->policy.stage || (!r->conf.host && !r->conf.socket)) {
		buf_addz(why, "out of memory");
		return -1;
	}
	return 0;
}

void relay_unconfigure(struct relay *r)
{
	for (size_t i = 0; i < r->n_strings; i++)
		free(r->strings[i]);
	r->n_strings = 0;
}
