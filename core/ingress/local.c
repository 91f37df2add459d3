/* Users of this machine (local.h). The kernel's word counts, never the client's. The name service is asked at a reload, and where
 * TRUSTED_USERS restricts others, once in a session; nothing else here could wait. */
#include "local.h"

#include "ingress_internal.h"

#include <pwd.h>
#include <stdlib.h>

enum { PASSWD_OCTETS = 16 * 1024, USERS_MAX = 1024 };

struct local_senders {
	size_t n;
	uid_t of[USERS_MAX];
};

void local_begin(struct session *s)
{
	if (!s->terms->user_known || !s->peer.uid_known)
		return;
	s->user_known = s->relay = true;
	s->uid = s->peer.uid;
}

static bool listed(const struct local_senders *l, uid_t uid)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->of[i] == uid)
			return true;
	return uid == 0;
}

static bool own_address(const struct session *s, struct str address)
{
	struct passwd pw, *found = NULL;
	char *room = malloc(PASSWD_OCTETS);
	ptrdiff_t at = str_chr(address, '@');
	bool ok = room && at > 0 && !getpwuid_r(s->uid, &pw, room, PASSWD_OCTETS, &found) && found &&
	    str_eq(str_n(address.p, (size_t)at), str_from(found->pw_name));
	free(room);
	struct str domain = at > 0 ? str_skip(address, (size_t)at + 1) : STR_NULL;
	return ok && (str_ieq(domain, str_from(s->terms->hostname)) || config_domains_has(s->terms->local, domain));
}

bool local_may_send_as(struct session *s, struct str address)
{
	const struct local_senders *l = s->terms->senders;
	if (!s->user_known || !l || !address.n)
		return true;
	if (!s->sender_ok)
		s->sender_ok = listed(l, s->uid) ? 1 : -1;
	return s->sender_ok > 0 || own_address(s, address);
}

int local_senders_read(struct terms *t, const struct config *c, struct config_faults *faults)
{
	const struct config_value *v = config_get(c, t->section, "TRUSTED_USERS");
	struct str rest = str_from(v ? v->value : NULL), word;
	struct passwd pw, *found;
	char name[256], *room;
	if (!v)
		return 0;
	t->senders = calloc(1, sizeof *t->senders);
	room = malloc(PASSWD_OCTETS);
	while (t->senders && room && str_word(&rest, " \t,", &word)) {
		snprintf(name, sizeof name, "%.*s", STR_ARG(word));
		found = NULL;
		if (getpwnam_r(name, &pw, room, PASSWD_OCTETS, &found) || !found || t->senders->n == USERS_MAX)
			config_fault_add(faults, v->file, v->line, true, "[%s] TRUSTED_USERS: there is no account %s, or too many are named", t->section, name);
		else
			t->senders->of[t->senders->n++] = found->pw_uid;
	}
	int r = t->senders && room ? 0 : -1;
	if (r)
		config_fault_add(faults, v->file, v->line, false, "[%s]: out of memory", t->section);
	free(room);
	return r;
}

void local_senders_free(struct local_senders *l)
{
	free(l);
}
