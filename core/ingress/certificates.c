/* Looking at certificates' ends. Each section counts once, however many sockets it has. */
#include "certificates.h"

#include "base/clock.h"
#include "ingress_internal.h"
#include "base/json.h"

enum { DAY_S = 86400, WARN_DAYS = 14 };

/* Is l the first socket of its section? */
static bool first(const struct ingress *in, const struct listening *l)
{
	for (const struct listening *p = in->listening; p != l; p = p->next)
		if (!p->gone && str_ieq(str_from(p->terms->section), str_from(l->terms->section)))
			return false;
	return !l->gone;
}

static int64_t now_s(void)
{
	return clock_wall_us() / US_PER_S;
}

void certificates_watch(struct ingress *in, int64_t now_us)
{
	struct net_tls_cert cert;
	if (in->certificates_us && now_us - in->certificates_us < DAY_S * US_PER_S)
		return;
	in->certificates_us = now_us;
	for (const struct listening *l = in->listening; l; l = l->next) {
		if (!first(in, l) || !l->terms->tls)
			continue;
		for (size_t i = 0; net_tls_cert(l->terms->tls, i, &cert); i++) {
			int64_t left = cert.not_after_s - now_s();
			if (left < 0)
				log_error(NULL, "event=certificate-expired listener=%s file=%s since_days=%lld", l->terms->name,
				    log_qz(cert.file), (long long)(-left / DAY_S));
			else if (left < (int64_t)WARN_DAYS * DAY_S)
				log_warn(NULL, "event=certificate-expires listener=%s file=%s days=%lld", l->terms->name,
				    log_qz(cert.file), (long long)(left / DAY_S));
		}
		if (!net_tls_names(l->terms->tls, l->terms->hostname))
			log_warn(NULL, "event=certificate-name listener=%s hostname=%s hint=\"none of its certificates is valid for HOSTNAME\"",
			    l->terms->name, log_qz(l->terms->hostname));
	}
}

void certificates_metrics(const struct ingress *in, struct buf *out)
{
	struct net_tls_cert cert;
	buf_addz(out, "# HELP pepsi_tls_certificate_not_after_seconds When the certificate ends, seconds since 1970\n"
		      "# TYPE pepsi_tls_certificate_not_after_seconds gauge\n");
	for (const struct listening *l = in->listening; l; l = l->next)
		for (size_t i = 0; first(in, l) && net_tls_cert(l->terms->tls, i, &cert); i++) {
			buf_addf(out, "pepsi_tls_certificate_not_after_seconds{listener=\"%s\",file=\"", l->terms->name);
			for (const char *p = cert.file; *p; p++) {
				if (*p == '"' || *p == '\\' || *p == '\n')
					buf_addc(out, '\\');
				buf_addc(out, *p == '\n' ? 'n' : *p);
			}
			buf_addf(out, "\"} %lld\n", (long long)cert.not_after_s);
		}
}

void certificates_status(const struct ingress *in, struct buf *out)
{
	struct net_tls_cert cert;
	bool any = false;
	for (const struct listening *l = in->listening; l; l = l->next)
		for (size_t i = 0; first(in, l) && net_tls_cert(l->terms->tls, i, &cert); i++) {
			int64_t left = cert.not_after_s - now_s();
			buf_addz(out, any ? ",{" : "{");
			any = true;
			json_put_member(out, "listener", str_from(l->terms->name));
			json_put_member(out, "file", str_from(cert.file));
			json_put_key(out, "not_after");
			buf_addf(out, "%lld", (long long)cert.not_after_s);
			json_put_bool(out, "expires_soon", left < (int64_t)WARN_DAYS * DAY_S);
			json_put_bool(out, "names_host", net_tls_names(l->terms->tls, l->terms->hostname));
			buf_addc(out, '}');
		}
}
