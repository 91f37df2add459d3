/* A new configuration in the reactor: it comes from the spawner as a memfd, waits for what was opened for it, comes into force in all parts,
 * and whoever asked is told. Reads no file and opens nothing itself; what the check refuses never arrives here. */
#include "reactor_internal.h"

#include "base/log.h"
#include "worker/resolve.h"

#include <stdlib.h>
#include <unistd.h>

struct waiting_reload {
	SLIST_ENTRY(waiting_reload) link;
	void (*done)(void *ctx, const char *faults, bool in_force);
	void *ctx;
};

void reactor_reload_done(struct reactor *r, const char *faults, bool in_force)
{
	struct waiting_reload *w;
	while ((w = SLIST_FIRST(&r->reloads))) {
		SLIST_REMOVE_HEAD(&r->reloads, link);
		w->done(w->ctx, faults, in_force);
		free(w);
	}
}

int reactor_dns_new(struct reactor *r)
{
	struct net_dns_settings s;
	char err[256];
	if (resolve_settings(r->config, &s, err, sizeof err)) {
		log_error(NULL, "event=dns-settings reason=%s", log_qz(err));
		return -1;
	}
	s.reuse = true;
	return (r->dns = net_dns_new(r->base, &s)) ? 0 : -1;
}

static void reload_dns(struct reactor *r)
{
	struct net_dns_settings s;
	char err[256];
	if (resolve_settings(r->config, &s, err, sizeof err)) { /* the check has refused it before */
		log_error(NULL, "event=dns-settings reason=%s hint=\"the old ones stay\"", log_qz(err));
	} else {
		s.reuse = true;
		net_dns_reload(r->dns, &s);
	}
}

void reactor_new_config(struct reactor *r, int fd)
{
	struct buf blob = BUF_INIT(CONFIG_BLOB_MAX);
	/* a reload that was under way is overtaken */
	grants_free(r->grants);
	r->grants = NULL;
	config_free(r->next_config);
	r->next_config = channel_slurp(fd, &blob) ? NULL : config_thaw(buf_str(&blob));
	buf_free_secret(&blob);
	if (!r->next_config) {
		log_error(NULL, "event=reload-failed reason=\"the new configuration did not arrive whole\"");
		reactor_reload_done(r, "the new configuration did not arrive whole\n", false);
		return;
	}
	config_load_secrets(r->next_config, NULL);
}

/* The new configuration is here, and what could be opened for it. */
static void take_config(struct reactor *r, const struct ingress_supply *supply)
{
	struct config_faults *faults = config_faults_new();
	struct buf text = BUF_INIT(CONFIG_FAULTS_MAX);
	struct config *old = r->config;
	if (!faults) {
		reactor_reload_done(r, "out of memory\n", false);
		return;
	}
	r->config = r->next_config;
	r->next_config = NULL;
	ingress_reload(r->ingress, r->config, supply, faults);
	dispatch_reload(r->dispatch, r->config);
	reload_dns(r);
	config_free(old);
	for (size_t i = 0; i < config_faults_n(faults, true); i++) {
		const struct config_fault *f = config_faults_at(faults, i);
		log_line(f->warning ? LOG_LV_WARN : LOG_LV_ERROR, NULL, "event=reload-fault at=%s:%u reason=%s", f->file, f->line,
		    log_qz(f->text));
		config_fault_print(f, &text);
	}
	config_faults_free(faults);
	reactor_reload_done(r, text.n ? buf_z(&text) : NULL, true);
	buf_free(&text);
}

static void on_grants(void *arg)
{
	struct reactor *r = arg;
	struct ingress_supply supply = grants_supply(r->grants);
	if (r->next_config)
		take_config(r, &supply);
	grants_release(r->grants); /* the rest of it with the next reload: it is calling us */
}

void reactor_new_grants(struct reactor *r, int fd)
{
	if (!r->next_config) {
		if (fd >= 0)
			close(fd);
		return;
	}
	r->grants = fd >= 0 ? grants_new(r->base, fd, on_grants, r) : NULL;
	if (!r->grants) /* the rest of the configuration is no reason to wait */
		take_config(r, NULL);
}

void reactor_reload_asked(void *arg, void (*done)(void *ctx, const char *faults, bool in_force), void *ctx)
{
	struct reactor *r = arg;
	struct channel_msg m = { .op = CH_RELOAD };
	struct waiting_reload *w = malloc(sizeof *w);
	if (!w) {
		done(ctx, "out of memory\n", false);
		return;
	}
	w->done = done;
	w->ctx = ctx;
	SLIST_INSERT_HEAD(&r->reloads, w, link);
	reactor_tell_spawner(r, &m);
}
