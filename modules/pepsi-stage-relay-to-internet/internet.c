/* pepsi-stage-relay-to-internet: hands messages to the mail exchangers of their recipients' domains, many at once from one event loop. Here are
 * the descriptor and the hooks; internet.h says how the rest hangs together. */
#include "internet.h"

#include "count.h"
#include <stdlib.h>
#include <sys/random.h>

static const struct pepsi_option options[] = {
	{ "PORT", PEPSI_OPT_INT, PEPSI_OPTF_FILE_ONLY, "25", 1, 65535, NULL, "port of mail exchangers" },
	{ "HELO", PEPSI_OPT_STRING, 0, NULL, 0, 0, NULL, "our name towards mail exchangers; default: HOSTNAME of [pepsi]" },
	{ "FAMILY", PEPSI_OPT_CHOICE, 0, "any", 0, 0, "any ipv4 ipv6", "addresses that are connected to" },
	{ "TLS", PEPSI_OPT_CHOICE, PEPSI_OPTF_FILE_ONLY, "may", 0, 0, "none may require verify dane",
	    "STARTTLS where neither DANE, MTA-STS nor TLS_POLICY_… says more: never, where offered, always, with a valid certificate, or only with usable TLSA records" },
	{ "TLS_POLICY_*", PEPSI_OPT_MULTI, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "DOMAIN… none|may|require|verify[=NAME,…]|dane: as TLS, for recipients at domain, *.domain or *; the first line that matches decides, in file order" },
	{ "TLS_CA_FILE", PEPSI_OPT_PATH, 0, NULL, 0, 0, NULL, "authorities that certificates are checked with (PEM); default: the system's" },
	{ "DANE", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "YES", 0, 0, NULL,
	    "obey TLSA records (RFC 7672); needs a resolver that validates and is trusted: [pepsi-dns] TRUST_AD" },
	{ "MTA_STS", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "YES", 0, 0, NULL, "obey policies of MTA-STS (RFC 8461); [pepsi-mta-sts] has how they are fetched" },
	{ "TLSRPT", PEPSI_OPT_BOOL, 0, "YES", 0, 0, NULL, "count what is seen of TLS, for reports to those who ask for them (RFC 8460)" },
	{ "ADDRESS_HEALTH", PEPSI_OPT_BOOL, 0, "YES", 0, 0, NULL,
	    "leave an address alone for a while that could not be connected to, whatever message is for it" },
	{ "SHAPE_*", PEPSI_OPT_MULTI, 0, NULL, 0, 0, NULL,
	    "PATTERN[,PATTERN…] [concurrency=N] [rate=N/min] …: limits of the destinations that fit; the first by its number decides" },
	{ "SOURCES_*", PEPSI_OPT_MULTI, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "[from=@DOMAIN…] [to=PATTERN…] [pool=NAME] ADDRESS[=HELO][*WEIGHT] …: addresses that mail leaves from; the first that fits" },
	{ "SOURCE_ADDRESSES", PEPSI_OPT_LIST, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL, "the same for all that no SOURCES_n fits" },
	{ "WARMUP_*", PEPSI_OPT_MULTI, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "ADDRESS… start=YYYY-MM-DD steps=N,N,… (or first=N factor=F last=N): messages a day (UTC) that a new source address sends to each destination" },
	{ "OWN_NAMES", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL, "further names of this host: exchangers of that name are ourselves; HOSTNAME and HELO are known" },
	{ "LOOP_DETECT", PEPSI_OPT_BOOL, 0, "YES", 0, 0, NULL,
	    "an exchanger that answers EHLO with a name of ours is ourselves: mail is not sent there, and returned (5.4.6) when there is no other" },
	{ "OWN_ADDRESSES", PEPSI_OPT_LIST, 0, NULL, 0, 0, NULL,
	    "addresses that lead to this host from outside (NAT); those of its interfaces are known" },
	{ "ALLOW_NETWORKS", PEPSI_OPT_LIST, PEPSI_OPTF_FILE_ONLY, NULL, 0, 0, NULL,
	    "networks (or: private) that exchangers may be in although they are no part of the public Internet: of a VPN, of domains within" },
	{ "ALLOW_LOOPBACK", PEPSI_OPT_BOOL, PEPSI_OPTF_FILE_ONLY, "NO", 0, 0, NULL,
	    "connect to whatever address the DNS names, loopback and link-local ones, too: for laboratories" },
	{ "CONNECT_TIMEOUT", PEPSI_OPT_DURATION, 0, "30 s", 1, 3600, NULL, "for a connection" },
	{ "GREETING_TIMEOUT", PEPSI_OPT_DURATION, 0, "5 min", 1, 3600, NULL, "for the banner, the replies to EHLO and STARTTLS, the handshake, each" },
	{ "COMMAND_TIMEOUT", PEPSI_OPT_DURATION, 0, "5 min", 1, 3600, NULL, "for each reply to MAIL, RCPT, DATA" },
	{ "DATA_TIMEOUT", PEPSI_OPT_DURATION, 0, "3 min", 1, 7200, NULL, "for content that leaves, without progress" },
	{ "DOT_TIMEOUT", PEPSI_OPT_DURATION, 0, "10 min", 1, 7200, NULL, "for the reply to the end of the content" },
	{ "IDLE_TIMEOUT", PEPSI_OPT_DURATION, 0, "10 s", 0, 300, NULL, "a connection without a message is closed after that" },
	{ "WHOLE_TIMEOUT", PEPSI_OPT_DURATION, 0, "30 min", 1, 86400, NULL,
	    "for a greeting, and for a message, from its first to its last octet: who is slow on purpose is not waited for longer" },
	RELAY_DOWNGRADE_OPTION,
	RELAY_CHUNKING_OPTION,
	RELAY_RETRY_OPTIONS("5 min", "1 h"),
};

static void stage_close(void *worker)
{
	struct worker *w = worker;
	if (!w)
		return;
	while (w->all)
		delivery_free(w->all);
	while (w->lines)
		line_free(w->lines);
	warm_free(w->warm);
	session_env_done(&w->env);
	sts_policies_free(w->sts);
	address_health_free(w->health);
	ratchet_memory_free(w->ratchet);
	tls_results_free(w->results);
	known_free(w->known);
	outlook_free(w->outlook);
	queue_free(w->queue);
	safety_free(w->safety);
	hop_tls_conf_free(w->env.tls);
	settings_done(&w->set);
	free(w);
}

static int32_t start(const struct pepsi_host *host, const struct pepsi_conf *conf, void **ret_worker)
{
	struct worker *w = calloc(1, sizeof *w);
	struct buf why = BUF_INIT(1024);
	if (!w)
		return PEPSI_RETRY;
	w->host = host;
	w->conf = conf;
	if (getrandom(&w->seed, sizeof w->seed, 0) != sizeof w->seed)
		w->seed = (uint64_t)host->now_us();
	if (settings_read(&w->set, host, conf, &why) == 0) {
		w->env = (struct session_env){ .host = host, .conf = conf, .times = w->set.times };
		relay_measure_open(&w->measure, host, conf, true);
		w->set.policy.measure = &w->measure;
		w->back = count_new(host, conf, PEPSI_METRIC_COUNTER, "given_back", "why", "backoff window rate poor full memory tls health leaving time",
		    "Messages that went back to the queue without an attempt.");
		w->loops = count_new(host, conf, PEPSI_METRIC_COUNTER, "loops", NULL, NULL, "Sessions with a host that calls itself by a name of ours: nothing was sent.");
		w->env.tls = hop_tls_conf_new(false, w->set.ca_file, &why);
		w->queue = queue_new(w);
		w->safety = safety_new(host);
		w->outlook = outlook_new(w);
	}
	if (w->outlook && (w->known = known_new(host, conf))) {
		w->ratchet = ratchet_memory_new(host, conf, w->known);
		if (warmups_count(w->set.warmups))
			w->warm = warm_new(w);
		if (w->set.sts)
			w->sts = sts_policies_new(host, conf, w->known, &why);
		if (w->set.tlsrpt)
			w->results = tls_results_new(host, conf, w->known);
		if (w->set.health)
			w->health = address_health_new(host, conf, w->known, &why);
	}
	if (!w->env.tls || !w->queue || !w->safety || !w->outlook || !w->ratchet || (w->set.sts && !w->sts) || (w->set.health && !w->health) ||
	    (w->set.tlsrpt && !w->results) || (warmups_count(w->set.warmups) && !w->warm)) {
		host->log(NULL, PEPSI_LOG_ERROR, why.n ? why.p : "out of memory");
		buf_free(&why);
		stage_close(w);
		return PEPSI_PERMANENT;
	}
	buf_free(&why);
	*ret_worker = w;
	return PEPSI_OK;
}

static int32_t process(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg)
{
	(void)host;
	return delivery_begin(worker, msg);
}

static void stop(void *worker, const struct pepsi_host *host, struct pepsi_msg *msg, uint32_t why)
{
	struct delivery *d = delivery_find(worker, msg);
	(void)host;
	if (d)
		delivery_stop(d, why);
}

PEPSI_STAGE(.name = "pepsi-stage-relay-to-internet", .version = "1.0", .license = "Apache-2.0",
    .summary = "hands messages to the mail exchangers of their recipients' domains", .load_class = PEPSI_LOAD_FULL,
    .caps = PEPSI_CAP_DELIVER | PEPSI_CAP_NET | PEPSI_CAP_DB | PEPSI_CAP_CONCURRENT, PEPSI_OPTIONS(options), .validate = settings_validate,
    .open = start, .process = process, .close = stage_close, .stop = stop);
