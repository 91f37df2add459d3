/* Is there an account of this name on the machine? The reactor asks for recipients (RECIPIENTS = system); looking it up may block in a
 * directory service, so a job does it, in a keeper of its own: a flood of recipients does not keep anybody from signing in. */
#include "internal.h"

#include "base/log.h"

#include <stdlib.h>

struct question {
	struct signin *s;
	uint64_t id;
};

bool system_wanted(const struct config *c)
{
	const char *section;
	struct str rest = str_from(config_str(c, "pepsi", "RECIPIENTS")), w;
	while (str_word(&rest, " \t", &w))
		if (str_ieq(w, STR("system")))
			return true;
	for (size_t i = 0; (section = config_section(c, i)); i++) {
		if (!str_istarts(str_from(section), STR("domain-")))
			continue;
		rest = str_from(config_str(c, section, "RECIPIENTS"));
		while (str_word(&rest, " \t", &w))
			if (str_ieq(w, STR("system")))
				return true;
	}
	return false;
}

static void say(struct signin *s, uint64_t id, enum wire_signin_system is)
{
	struct wire_signin m = { .op = WIRE_SIGNIN_SYSTEM_IS, .id = id, .system_is = is };
	signin_send(s, &m);
}

static void on_job(void *arg, const struct job_msg *answer)
{
	struct question q = *(struct question *)arg;
	free(arg);
	say(q.s, q.id, answer && answer->what == JOB_YES ? WIRE_SYSTEM_YES : answer && answer->what == JOB_NO ? WIRE_SYSTEM_NO : WIRE_SYSTEM_AWAY);
}

void system_ask(struct signin *s, const struct wire_signin *m)
{
	struct job_msg job = { .what = JOB_SYSTEM, .n = 1, .f = { m->system } };
	struct question *q = s->names ? malloc(sizeof *q) : NULL;
	if (q) {
		*q = (struct question){ s, m->id };
		if (keeper_run(s->names, &job, on_job, q))
			return;
	}
	free(q);
	say(s, m->id, WIRE_SYSTEM_AWAY);
}
