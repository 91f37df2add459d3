/* Which sources a domain has, and the way of one question through them; see recipients.h. */
#include "recipients_internal.h"

#include "proto/smtp/address.h"

#include <stdlib.h>
#include <sys/random.h>

enum { LOCAL_ROOM = SMTP_MAILBOX_MAX, NAME_ROOM = LOCAL_ROOM + 1 + CONFIG_DOMAIN_MAX };

/* --- configuration */

static void sources_done(struct domain_sources *d)
{
	config_domains_free(d->domains);
	free((char *)(uintptr_t)d->pattern.p);
	free(d->files);
	free(d->delimiters);
	free(d->stage);
}

static void all_done(struct domain_sources *of, size_t n, struct recipient_file **files, size_t n_files)
{
	for (size_t i = 0; i < n; i++)
		sources_done(&of[i]);
	free(of);
	for (size_t i = 0; i < n_files; i++)
		recipient_file_free(files[i]);
	free(files);
}

/* What is being made of a configuration. */
struct reading {
	struct recipients *r;
	const struct config *c;
	struct domain_sources *of;
	size_t n;
	struct recipient_file **files;
	size_t n_files;
};

/* Files are shared by domains, and go on from the configuration before: a large one is not read again for nothing. */
static struct recipient_file *file_of(struct reading *g, const char *path)
{
	struct recipient_file *f = NULL;
	for (size_t i = 0; i < g->n_files; i++)
		if (strcmp(recipient_file_path(g->files[i]), path) == 0)
			return g->files[i];
	struct recipient_file **more = realloc(g->files, (g->n_files + 1) * sizeof *more);
	if (!more)
		return NULL;
	g->files = more;
	for (size_t i = 0; !f && i < g->r->n_files; i++)
		if (g->r->files[i] && strcmp(recipient_file_path(g->r->files[i]), path) == 0) {
			f = g->r->files[i];
			g->r->files[i] = NULL; /* moves */
		}
	if (!f && (f = recipient_file_new(g->r->base, path)))
		recipient_file_look(f, true);
	if (f)
		g->files[g->n_files++] = f;
	return f;
}

static int take_file(struct reading *g, struct domain_sources *d, struct str word)
{
	char *z = str_dupz(str_skip(word, 5)), *path = z ? config_expand(g->c, z, NULL) : NULL;
	struct recipient_file *f = path ? file_of(g, path) : NULL;
	struct recipient_file **more = f ? realloc(d->files, (d->n_files + 1) * sizeof *more) : NULL;
	free(z);
	free(path);
	if (!more)
		return -1;
	d->files = more;
	d->files[d->n_files++] = f;
	return 0;
}

static int take_stage(struct domain_sources *d, struct str word)
{
	free(d->stage);
	d->stage = str_dupz(str_skip(word, sizeof RECIPIENTS_STAGE - 1));
	if (d->stage) /* as all names of stages are */
		ascii_lower_z(d->stage);
	return d->stage ? 0 : -1;
}

static int take_section(struct reading *g, const char *section, const char *domains)
{
	struct domain_sources *more = realloc(g->of, (g->n + 1) * sizeof *more), *d;
	const char *set = config_get(g->c, section, "RECIPIENTS") ? config_str(g->c, section, "RECIPIENTS") : config_str(g->c, "pepsi", "RECIPIENTS");
	const char *delimiters = config_get(g->c, section, "RECIPIENT_DELIMITER") ? config_str(g->c, section, "RECIPIENT_DELIMITER") :
										 config_str(g->c, "pepsi", "RECIPIENT_DELIMITER");
	struct str rest = str_from(set), w;
	bool some = false;
	if (!more)
		return -1;
	g->of = more;
	d = &more[g->n++];
	*d = (struct domain_sources){ .delimiters = str_dupz(str_from(delimiters)) };
	if (domains) {
		d->domains = config_domains_new(domains);
		d->pattern = str_n(str_dupz(str_from(domains)), strlen(domains));
	}
	if (!d->delimiters || (domains && (!d->domains || !d->pattern.p)))
		return -1;
	for (; str_word(&rest, " \t", &w); some = true) {
		if (str_ieq(w, STR("any")))
			d->any = true;
		else if (str_ieq(w, STR("table")))
			d->table = true;
		else if (str_ieq(w, STR("aliases")))
			d->aliases = true;
		else if (str_ieq(w, STR("system")))
			d->system = true;
		else if (str_istarts(w, STR("file:")) && take_file(g, d, w))
			return -1;
		else if (str_istarts(w, STR(RECIPIENTS_STAGE)) && take_stage(d, w))
			return -1;
	}
	d->any |= !some;
	return 0;
}

/* Names before patterns, long patterns before short ones: what is nearest decides. */
static int by_nearness(const void *a, const void *b)
{
	const struct domain_sources *x = a, *y = b;
	bool wx = str_starts(x->pattern, STR("*")), wy = str_starts(y->pattern, STR("*"));
	if (!x->domains != !y->domains)
		return x->domains ? -1 : 1;
	if (wx != wy)
		return wy ? -1 : 1;
	return x->pattern.n > y->pattern.n ? -1 : x->pattern.n < y->pattern.n;
}

int recipients_configure(struct recipients *r, const struct config *c, const struct recipients_settings *set, struct config_faults *faults)
{
	struct reading g = { .r = r, .c = c };
	const char *section;
	int rc = take_section(&g, "pepsi", NULL);
	for (size_t i = 0; !rc && (section = config_section(c, i)); i++)
		if (str_istarts(str_from(section), STR("domain-")) && section[7])
			rc = take_section(&g, section, section + 7);
	if (rc) {
		/* files that moved go back where they were */
		for (size_t i = 0; i < r->n_files; i++)
			for (size_t j = 0; !r->files[i] && j < g.n_files; j++)
				if (g.files[j]) {
					r->files[i] = g.files[j];
					g.files[j] = NULL;
				}
		all_done(g.of, g.n, g.files, g.n_files);
		config_fault_add(faults, "", 0, false, "RECIPIENTS: out of memory");
		return -1;
	}
	qsort(g.of, g.n, sizeof *g.of, by_nearness);
	all_done(r->of, r->n, r->files, r->n_files);
	r->of = g.of;
	r->n = g.n;
	r->files = g.files;
	r->n_files = g.n_files;
	r->set = *set;
	recipient_cache_forget(r);
	recipient_cache_limit(r);
	return 0;
}

bool recipients_wanted(const struct recipients *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->of[i].any)
			return true;
	return false;
}

/* --- asking */

static void end_ask(struct recipient_ask *a)
{
	for (unsigned i = 0; i < ASK_PARTS; i++)
		recipient_cache_leave(&a->part[i]);
	free(a);
}

void recipients_cancel(struct recipient_ask *a)
{
	if (a)
		end_ask(a);
}

void recipient_ask_part(struct recipient_ask *a, enum recipient_answer answer, const char *source)
{
	a->pending--;
	a->away |= answer == RECIPIENT_AWAY;
	if (answer != RECIPIENT_YES && a->pending)
		return;
	recipient_fn fn = a->fn;
	void *arg = a->arg;
	enum recipient_answer all = answer == RECIPIENT_YES ? RECIPIENT_YES : a->away ? RECIPIENT_AWAY : RECIPIENT_NO;
	a->r->answers[all]++;
	end_ask(a);
	fn(arg, all, all == RECIPIENT_YES ? source : "");
}

static const struct domain_sources *sources_of(const struct recipients *r, const char *domain)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->of[i].domains || config_domains_has(r->of[i].domains, str_from(domain)))
			return &r->of[i];
	return NULL;
}

const char *recipients_stage(const struct recipients *r, struct str domain)
{
	char folded[CONFIG_DOMAIN_MAX + 1];
	const struct domain_sources *d = config_domain_fold(domain, folded, sizeof folded) ? NULL : sources_of(r, folded);
	return d ? d->stage : NULL;
}

/* An address in the form that is compared, and without what stands behind the delimiter. */
struct folded {
	char domain[CONFIG_DOMAIN_MAX + 1], name[NAME_ROOM + 1], base[NAME_ROOM + 1];
	size_t local_n, base_n; /* of the local parts; base_n 0: none */
};

static int fold(struct folded *f, struct str local, struct str domain)
{
	if (!local.n || local.n > LOCAL_ROOM || config_domain_fold(domain, f->domain, sizeof f->domain))
		return -1;
	for (size_t i = 0; i < local.n; i++)
		f->name[i] = ascii_lower(local.p[i]);
	f->local_n = local.n;
	f->base_n = 0;
	snprintf(f->name + local.n, sizeof f->name - local.n, "@%s", f->domain);
	return 0;
}

static void cut(struct folded *f, const char *delimiters)
{
	size_t n = 1;
	if (!*delimiters || f->name[0] == '"')
		return;
	while (n < f->local_n && !strchr(delimiters, f->name[n]))
		n++;
	if (n >= f->local_n)
		return;
	f->base_n = n;
	memcpy(f->base, f->name, n);
	snprintf(f->base + n, sizeof f->base - n, "@%s", f->domain);
}

static bool in_file(const struct recipient_file *file, const struct folded *f)
{
	return recipient_file_has(file, str_from(f->name)) || recipient_file_has(file, str_from(f->name + f->local_n)) ||
	    recipient_file_has(file, str_n(f->name, f->local_n)) ||
	    (f->base_n && (recipient_file_has(file, str_from(f->base)) || recipient_file_has(file, str_n(f->base, f->base_n))));
}

/* What can be told at once. */
static enum recipient_answer at_once(const struct domain_sources *d, const struct folded *f, const char **ret_source)
{
	bool away = false;
	if (d->any || str_eq(str_n(f->name, f->local_n), STR("postmaster"))) {
		*ret_source = d->any ? "any" : "postmaster";
		return RECIPIENT_YES;
	}
	for (size_t i = 0; i < d->n_files; i++) {
		if (in_file(d->files[i], f)) {
			*ret_source = recipient_file_path(d->files[i]);
			return RECIPIENT_YES;
		}
		away |= !recipient_file_ready(d->files[i]);
	}
	return away ? RECIPIENT_AWAY : RECIPIENT_NO;
}

enum recipient_answer recipients_ask(struct recipients *r, struct str local, struct str domain, recipient_fn fn, void *arg,
    struct recipient_ask **ret, const char **ret_source)
{
	struct folded f;
	const struct domain_sources *d;
	struct str base, base_local;
	enum recipient_answer now = RECIPIENT_NO;
	*ret = NULL;
	*ret_source = "";
	if (!fold(&f, local, domain) && (d = sources_of(r, f.domain))) {
		cut(&f, d->delimiters);
		base = str_n(f.base, f.base_n ? strlen(f.base) : 0);
		base_local = str_n(f.base, f.base_n);
		now = at_once(d, &f, ret_source);
		if (now != RECIPIENT_YES && (d->table || d->aliases || d->system)) {
			struct recipient_ask *a = calloc(1, sizeof *a);
			enum recipient_answer part[ASK_PARTS] = { RECIPIENT_NO, RECIPIENT_NO };
			if (!a) {
				r->answers[RECIPIENT_AWAY]++;
				return RECIPIENT_AWAY;
			}
			a->r = r;
			a->fn = fn;
			a->arg = arg;
			a->part[0].ask = a->part[1].ask = a;
			if (d->table || d->aliases)
				part[0] = recipient_cache_ask(r, (d->table ? KNOWN_TABLE : 0) | (d->aliases ? KNOWN_ALIASES : 0), str_from(f.name), base,
				    &a->part[0], ret_source);
			if (part[0] != RECIPIENT_YES && d->system)
				part[1] = recipient_cache_ask(r, KNOWN_ACCOUNT, str_n(f.name, f.local_n), base_local, &a->part[1], ret_source);
			a->away = now == RECIPIENT_AWAY || part[0] == RECIPIENT_AWAY || part[1] == RECIPIENT_AWAY;
			a->pending = (part[0] == RECIPIENT_WAIT) + (part[1] == RECIPIENT_WAIT);
			if (part[0] == RECIPIENT_YES || part[1] == RECIPIENT_YES) {
				now = RECIPIENT_YES;
			} else if (a->pending) {
				*ret = a;
				return RECIPIENT_WAIT;
			} else {
				now = a->away ? RECIPIENT_AWAY : RECIPIENT_NO;
			}
			end_ask(a);
		}
	}
	r->answers[now]++;
	return now;
}

void recipients_changed(struct recipients *r)
{
	recipient_cache_forget(r);
}

void recipients_account(struct recipients *r, uint64_t id, enum recipient_answer a)
{
	struct known *k = map_get(&r->by_id, id);
	if (k)
		recipient_cache_answer(r, k, a, a == RECIPIENT_YES ? "system" : "");
}

void recipients_accounts_away(struct recipients *r)
{
	for (struct known *k = r ? r->asked.oldest : NULL; k;) {
		if (k->kind == KNOWN_ACCOUNT) {
			recipient_cache_answer(r, k, RECIPIENT_AWAY, "");
			k = r->asked.oldest; /* whoever was told may have asked anew */
		} else {
			k = k->newer;
		}
	}
}

void recipients_tick(struct recipients *r, int64_t now_us)
{
	for (size_t i = 0; i < r->n_files; i++)
		recipient_file_look(r->files[i], false);
	recipient_cache_tick(r, now_us);
}

/* --- beginning, end, numbers */

static void on_flush(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	recipient_cache_flush(arg);
}

struct recipients *recipients_new(struct event_base *base, const struct recipient_backend *be)
{
	struct recipients *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->base = base;
	r->be = *be;
	r->flush = event_new(base, -1, 0, on_flush, r);
	if (getrandom(&r->salt, sizeof r->salt, GRND_NONBLOCK) != (ssize_t)sizeof r->salt)
		r->salt = UINT64_C(0x9e3779b97f4a7c15);
	if (!r->flush) {
		free(r);
		return NULL;
	}
	return r;
}

void recipients_free(struct recipients *r)
{
	if (!r)
		return;
	recipient_cache_done(r);
	all_done(r->of, r->n, r->files, r->n_files);
	event_free(r->flush);
	free(r);
}

void recipients_metrics(const struct recipients *r, struct buf *out)
{
	static const char *const names[] = { "yes", "no", "away" };
	buf_addz(out, "# HELP pepsi_recipient_lookups_total Recipients of local domains that were looked up, by answer\n"
		      "# TYPE pepsi_recipient_lookups_total counter\n");
	for (unsigned i = 0; i < RECIPIENT_WAIT; i++)
		buf_addf(out, "pepsi_recipient_lookups_total{answer=\"%s\"} %llu\n", names[i], (unsigned long long)r->answers[i]);
	buf_addf(out,
	    "# HELP pepsi_recipient_cache_hits_total Lookups that the cache answered\n# TYPE pepsi_recipient_cache_hits_total counter\n"
	    "pepsi_recipient_cache_hits_total %llu\n"
	    "# HELP pepsi_recipient_statements_total Statements sent to the database for lookups\n"
	    "# TYPE pepsi_recipient_statements_total counter\npepsi_recipient_statements_total %llu\n"
	    "# HELP pepsi_recipient_cache_entries Answers kept\n# TYPE pepsi_recipient_cache_entries gauge\npepsi_recipient_cache_entries %zu\n"
	    "# HELP pepsi_recipient_waiting Lookups under way\n# TYPE pepsi_recipient_waiting gauge\npepsi_recipient_waiting %zu\n",
	    (unsigned long long)r->hits, (unsigned long long)r->statements, r->answered.n, r->asked.n);
}

void recipients_status(const struct recipients *r, struct buf *out)
{
	size_t names = 0;
	for (size_t i = 0; i < r->n_files; i++)
		names += recipient_file_names(r->files[i]);
	buf_addf(out, "{\"yes\":%llu,\"no\":%llu,\"away\":%llu,\"cached\":%zu,\"waiting\":%zu,\"in_files\":%zu}",
	    (unsigned long long)r->answers[RECIPIENT_YES], (unsigned long long)r->answers[RECIPIENT_NO],
	    (unsigned long long)r->answers[RECIPIENT_AWAY], r->answered.n, r->asked.n, names);
}
