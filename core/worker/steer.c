/* See steer.h. May look at the envelope, the state and the clock, and set a terminal; may not touch the database. */
#include "steer.h"

#include "base/clock.h"
#include "proto/dns/address.h"
#include "state.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { STEER_OCTETS_MAX = 4 * 1024 * 1024 }; /* 1000 rules with the longest texts */

struct rule {
	struct store_rule r; /* texts in the arena */
	struct config_networks *client;
};

struct steer {
	struct arena *a;
	struct rule v[STORE_RULES_MAX];
	size_t n;
	bool short_of_memory;
};

struct steer_list {
	size_t n;
	const struct rule *v[];
};

/* An address, or "@domain", as it is compared: with its domain's A-labels. With a NUL behind it where it is copied; p NULL: no memory. */
static struct str plain(struct arena *a, struct str s)
{
	struct buf b = BUF_INIT(4096);
	struct str r = STR_NULL;
	if (dns_address_fold(s, &b) == 0)
		r = arena_str(a, buf_str(&b));
	buf_free(&b);
	return r;
}

struct steer *steer_new(void)
{
	struct steer *s = calloc(1, sizeof *s);
	if (s && !(s->a = arena_new(STEER_OCTETS_MAX))) {
		free(s);
		return NULL;
	}
	return s;
}

void steer_add(void *steer, const struct store_rule *r)
{
	struct steer *s = steer;
	struct rule *to = s->n < STORE_RULES_MAX ? &s->v[s->n] : NULL;
	if (!to) {
		s->short_of_memory = true;
		return;
	}
	*to = (struct rule){ .r = *r };
	struct str *texts[] = { &to->r.sender, &to->r.recipient, &to->r.client, &to->r.stage, &to->r.to_stage, &to->r.reason };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i]->p) {
			*texts[i] = i < 2 ? plain(s->a, *texts[i]) : arena_str(s->a, *texts[i]); /* with a NUL behind it */
			s->short_of_memory |= !texts[i]->p;
		}
	if (to->r.client.p && !(to->client = config_networks_new(to->r.client.p)))
		s->short_of_memory = true;
	s->n++;
}

bool steer_whole(const struct steer *s)
{
	return !s->short_of_memory;
}

void steer_free(struct steer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		config_networks_free(s->v[i].client);
	arena_free(s->a);
	free(s);
}

struct steer_list *steer_for(const struct steer *s, const char *stage, bool deliver)
{
	struct steer_list *l = s && s->n ? calloc(1, sizeof *l + s->n * sizeof *l->v) : NULL;
	if (!l)
		return NULL;
	/* who is held is not rerouted: that comes first, and of each kind the newest */
	for (int hold = 1; hold >= 0; hold--)
		for (size_t i = 0; i < s->n; i++) {
			const struct store_rule *r = &s->v[i].r;
			if (r->hold == hold && (r->stage.p ? str_ieq(r->stage, str_from(stage)) : deliver))
				l->v[l->n++] = &s->v[i];
		}
	if (!l->n) {
		free(l);
		return NULL;
	}
	return l;
}

/* "@example.org": everybody there. ASCII letters without case, like address_means() in the database; both are plain(). */
static bool means(struct str pattern, struct str address)
{
	if (str_ieq(pattern, address))
		return true;
	return pattern.n && pattern.p[0] == '@' && address.n > pattern.n && str_ieq(str_skip(address, address.n - pattern.n), pattern);
}

static int64_t number(struct pepsi_msg *m, const char *key, const char *path)
{
	struct json_object *o;
	if (!m->state && !m->base_merge && !m->base_state && !memmem(m->state0.p, m->state0.n, key, strlen(key)))
		return 0;
	o = state_at(pass_state(m), path);
	return json_object_is_type(o, json_type_int) ? json_object_get_int64(o) : 0;
}

static bool from_client(struct pepsi_msg *m, const struct rule *r)
{
	struct json_object *o = r->client ? state_at(pass_state(m), "origin.ip") : NULL;
	return json_object_is_type(o, json_type_string) && config_networks_has(r->client, json_object_get_string(o));
}

/* A message's addresses as they are compared. */
struct envelope {
	struct str sender;
	const struct str *rcpts;
};

/* Nearly always what stands in the row. */
static struct envelope envelope_of(struct pepsi_msg *m)
{
	struct envelope e = { .sender = m->mail_from0, .rcpts = m->rcpts0 };
	struct str *own = NULL;
	if (!str_is_ascii(e.sender))
		e.sender = plain(m->a, e.sender);
	if (!e.sender.p)
		e.sender = m->mail_from0;
	for (size_t i = 0; i < m->n_rcpts0; i++) {
		if (str_is_ascii(m->rcpts0[i]))
			continue;
		if (!own && !(own = arena_calloc(m->a, m->n_rcpts0, sizeof *own)))
			break;
		if (e.rcpts != own) {
			memcpy(own, m->rcpts0, m->n_rcpts0 * sizeof *own);
			e.rcpts = own;
		}
		struct str s = plain(m->a, m->rcpts0[i]);
		if (s.p)
			own[i] = s;
	}
	return e;
}

/* Is the rule about this message at all, whoever of its recipients? */
static bool about(struct pepsi_msg *m, const struct envelope *e, const struct rule *rule, int64_t now, int64_t released, int64_t rerouted)
{
	const struct store_rule *r = &rule->r;
	if ((r->expires_us && r->expires_us <= now) || (r->sender.p && !means(r->sender, e->sender)))
		return false;
	if (r->hold && released > 0 && released >= r->created_us)
		return false;
	/* a rule that went away with its stage is none; nor is one that sends it where it is, or an older one than that which sent it here */
	if (!r->hold && (rerouted >= r->id || str_ieq(r->to_stage, str_from(m->env->stage)) ||
	                    (!m->env->any_stage && !conf_has_stage(m->env->conf->c, r->to_stage.p))))
		return false;
	return !r->client.p || from_client(m, rule);
}

/* {"held":{…}} on top of what state.held has of former times. */
static struct json_object *held(struct pepsi_msg *m, const struct store_rule *r, int64_t now)
{
	struct json_object *o = json_object_new_object(), *h = json_object_new_object(), *old = state_at(pass_state(m), "held");
	static const char *const kept[] = { "s", "released" };
	for (size_t i = 0; i < 2 && json_object_is_type(old, json_type_object); i++) {
		struct json_object *v = NULL;
		if (json_object_object_get_ex(old, kept[i], &v))
			json_object_object_add(h, kept[i], json_object_get(v));
	}
	json_object_object_add(h, "rule", json_object_new_int64(r->id));
	json_object_object_add(h, "since", json_object_new_int64(now / US_PER_S));
	if (r->reason.n)
		json_object_object_add(h, "reason", json_object_new_string_len(r->reason.p, (int)r->reason.n));
	json_object_object_add(o, "held", h);
	return o;
}

static struct json_object *rerouted(const struct pepsi_msg *m, const struct store_rule *r)
{
	struct json_object *o = json_object_new_object(), *h = json_object_new_object();
	json_object_object_add(h, "rule", json_object_new_int64(r->id));
	json_object_object_add(h, "from", json_object_new_string(m->env->stage));
	json_object_object_add(o, "rerouted", h);
	return o;
}

/* The whole row. */
static bool act(struct pepsi_msg *m, const struct store_rule *r, int64_t now)
{
	struct json_object *o = r->hold ? held(m, r, now) : rerouted(m, r);
	bool ok = pass_merge_object(m, o) == PEPSI_OK;
	json_object_put(o);
	if (!ok)
		return false; /* out of memory: the hook will say so, too */
	if (r->hold) {
		int64_t left = r->expires_us ? (r->expires_us - now) / US_PER_S + 1 : 0;
		m->end = END_PAUSE;
		m->end_held = true;
		m->end_secs = left > 0 ? (uint32_t)left : STORE_PAUSE_ENDLESS;
		log_info(&m->log, "event=held rule=%lld reason=%s", (long long)r->id, log_q(r->reason));
	} else {
		m->end = END_MOVE;
		m->end_stage = r->to_stage.p;
		log_info(&m->log, "event=rerouted rule=%lld to=%s", (long long)r->id, m->end_stage);
	}
	return true;
}

/* The recipients meant go to a row of their own, here and due at once; the others stay in this one. */
static bool part(struct pepsi_msg *m, const struct envelope *e, const struct store_rule *r)
{
	uint32_t *idx = arena_calloc(m->a, m->n_rcpts0, sizeof *idx);
	size_t n = 0;
	for (uint32_t i = 0; idx && i < m->n_rcpts0; i++)
		if (means(r->recipient, e->rcpts[i]))
			idx[n++] = i;
	if (!idx || host_split_off_recipients(m, idx, n, m->env->stage) != PEPSI_OK)
		return false;
	m->clones[m->n_clones - 1].status = PEPSI_CLONE_RETRY; /* it keeps the age it has */
	m->end = END_MOVE;
	m->end_stage = m->env->stage;
	log_info(&m->log, "event=parted rule=%lld rcpts=%zu", (long long)r->id, n);
	return true;
}

bool pass_steer(struct pepsi_msg *m)
{
	const struct steer_list *l = m->env->steer;
	if (!l)
		return false;
	struct envelope e = envelope_of(m);
	int64_t now = clock_wall_us(), released = number(m, "\"held\"", "held.released"), rule = number(m, "\"rerouted\"", "rerouted.rule");
	for (size_t i = 0; i < l->n; i++) {
		const struct store_rule *r = &l->v[i]->r;
		size_t n = 0;
		if (!about(m, &e, l->v[i], now, released, rule))
			continue;
		for (size_t k = 0; k < m->n_rcpts0 && r->recipient.p; k++)
			n += means(r->recipient, e.rcpts[k]);
		if (!r->recipient.p || n == m->n_rcpts0)
			return act(m, r, now);
		if (n)
			return part(m, &e, r);
	}
	return false;
}
