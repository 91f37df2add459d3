/* pepsi auth-check: what a stored message is found to be by SPF, DKIM, ARC and DMARC, step by step, and what a listener would do about it.
 * Here are the command line and the terms of the listener; see auth_check.h. */
#include "auth_check.h"

#include "worker/resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

const char *auth_action(enum vet_action a)
{
	static const char *const names[] = { [VET_ACCEPTS] = "accept", [VET_QUARANTINES] = "quarantine", [VET_REFUSES] = "refuse", [VET_PUTS_OFF] = "put off" };
	return names[a];
}

const char *auth_mode(enum vet_mode m)
{
	static const char *const names[] = { [VET_OFF] = "off", [VET_RECORD] = "record", [VET_ENFORCE] = "enforce" };
	return names[m];
}

/* Without a configuration, unless one was named, this tool works all the same. */
static int load(struct auth_check *k)
{
	struct cli *c = k->c;
	const char *env = getenv("PEPSI_CONFIG");
	if (c->args.value[CLI_CONFIG] || (env && *env) || access(cli_config_file(c), F_OK) == 0 || errno != ENOENT) {
		k->conf = cli_config_need(c);
		return k->conf ? 0 : CLI_FAILED;
	}
	struct config_faults *faults = config_faults_new();
	k->conf = faults ? config_load("/dev/null", faults) : NULL;
	config_faults_free(faults);
	if (!k->conf)
		return cli_fail("out of memory");
	fprintf(stderr, "pepsi: no %s: a listener with the defaults\n", cli_config_file(c));
	return 0;
}

static bool is_listener(const char *section)
{
	return !strncasecmp(section, "listener-", 9);
}

static bool is_smtp(const struct config *c, const char *section)
{
	const char *protocol = config_str(c, section, "PROTOCOL");
	return !protocol || !strcasecmp(protocol, "smtp");
}

/* The named one; else that which took the message, else the first that hears SMTP. */
static int find_listener(struct auth_check *k)
{
	const char *named = k->c->args.value[CLI_LISTENER], *want = named ? named : k->listener_by, *section, *first = NULL;
	for (size_t i = 0; (section = config_section(k->conf, i)); i++) {
		if (!is_listener(section))
			continue;
		if (want && (!strcasecmp(section, want) || !strcasecmp(section + 9, want))) {
			k->section = strdup(section);
			return 0;
		}
		if (!first && is_smtp(k->conf, section))
			first = section;
	}
	if (named)
		return cli_usage(k->c, "there is no listener \"%s\" in %s", named, cli_config_file(k->c));
	k->section = first ? strdup(first) : NULL;
	return 0;
}

static int read_terms(struct auth_check *k)
{
	const char *section = k->section ? k->section : "listener-none";
	const char *why;
	if (vet_terms_read(&k->terms, k->conf, section, is_smtp(k->conf, section), &why))
		return cli_fail("[%s]: %s", section, why);
	k->has_iprev = config_int(k->conf, section, "REVERSE_DNS");
	struct config_networks *relay = config_networks_new(config_str(k->conf, "pepsi", "RELAY_NETWORKS"));
	const struct config_networks *exempt = k->terms.exempt ? k->terms.exempt : relay;
	k->exempt = exempt && config_networks_has(exempt, k->ip_text);
	config_networks_free(relay);
	if (!k->terms.spf && !k->terms.dkim && !k->terms.arc && !k->terms.dmarc) {
		/* that listener looks at nothing: shown is what one that records would find */
		k->terms.spf = k->terms.dkim = k->terms.arc = k->terms.dmarc = VET_RECORD;
		k->exempt = true;
	}
	return 0;
}

/* Does pepsid's resolving child (BACKEND = libunbound) listen to us? */
static bool child_hears(const struct net_dns_server *s)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool ok = fd >= 0 && (connect(fd, (const struct sockaddr *)&s->ss, s->n) == 0 || errno == EPROTOTYPE || errno == EAGAIN);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* [pepsi-dns], or --server instead of its servers. */
static int read_servers(struct auth_check *k)
{
	const char *list = k->c->args.value[CLI_SERVER];
	struct str rest = str_from(list), word;
	char err[256];
	if (resolve_settings(k->conf, &k->dns, err, sizeof err))
		return cli_fail("%s", err);
	if (!list && k->dns.n_servers && k->dns.server[0].local && !child_hears(&k->dns.server[0])) {
		fprintf(stderr, "pepsi: pepsid's resolver (BACKEND = libunbound) cannot be asked: asking the servers of the configuration or of resolv.conf\n");
		if (config_set(k->conf, "pepsi-dns", "BACKEND", "servers") || resolve_settings(k->conf, &k->dns, err, sizeof err))
			return cli_fail("%s", err);
	}
	if (!list)
		return 0;
	k->dns.resolv_conf[0] = 0;
	for (k->dns.n_servers = 0; str_word(&rest, " \t,", &word); k->dns.n_servers++)
		if (k->dns.n_servers == NET_DNS_SERVERS_MAX || net_dns_server_parse(word, &k->dns.server[k->dns.n_servers]))
			return cli_usage(k->c, "--server: \"%.*s\" is no numeric ADDRESS or ADDRESS:PORT, or one too many", STR_ARG(word));
	return k->dns.n_servers ? 0 : cli_usage(k->c, "--server: no server");
}

static int exit_status(const struct auth_check *k)
{
	if (!k->exempt && k->decision.action == VET_REFUSES)
		return AUTH_REFUSED;
	if (verify_temporary(verify_verdict(k->v)))
		return AUTH_UNKNOWN;
	return !k->exempt && k->decision.action == VET_QUARANTINES ? AUTH_QUARANTINED : CLI_DONE;
}

static int check(struct auth_check *k)
{
	char id[40];
	const struct cli_args *a = &k->c->args;
	int rc;
	if (!a->n_pos == !a->value[CLI_ID])
		return cli_usage(k->c, "auth-check needs a FILE (- is standard input) or --id QUEUEID, and one of them only");
	snprintf(id, sizeof id, "message %.20s", a->n_pos ? "" : a->value[CLI_ID]);
	k->file = a->n_pos ? a->pos[0] : id;
	if ((rc = load(k)))
		return rc;
	if (!(k->hostname = config_hostname(k->conf)))
		return cli_fail("out of memory");
	if ((rc = read_servers(k)) || (rc = auth_message_read(k)) || (rc = find_listener(k)) || (rc = read_terms(k)) || (rc = auth_run(k)))
		return rc;
	if (k->c->json)
		auth_print_json(k);
	else
		auth_print(k);
	return exit_status(k);
}

int tool_auth_check(struct cli *c)
{
	struct auth_check k = { .c = c };
	int rc = check(&k);
	verify_free(k.v);
	json_object_put(k.steps);
	vet_terms_done(&k.terms);
	config_free(k.conf);
	buf_free(&k.raw);
	buf_free(&k.text);
	buf_free(&k.field);
	free(k.section);
	free(k.hostname);
	free(k.helo);
	free(k.from);
	free(k.listener_by);
	return rc;
}
