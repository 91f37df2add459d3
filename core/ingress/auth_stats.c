/* What /metrics and `pepsi status` show of sign-ins. Reads only. */
#include "auth_internal.h"

static void one(struct buf *out, const char *type, const char *name, const char *help, double v)
{
	buf_addf(out, "# HELP pepsi_signin_%s %s\n# TYPE pepsi_signin_%s %s\npepsi_signin_%s %.15g\n", name, help, name, type, name, v);
}

static void put_backends(const struct auth *a, struct buf *out)
{
	const struct wire_signin_counts *c = &a->child;
	if (!c->n_backends)
		return;
	buf_addz(out, "# HELP pepsi_signin_backend_up Can this backend be asked?\n# TYPE pepsi_signin_backend_up gauge\n");
	for (size_t i = 0; i < c->n_backends; i++)
		buf_addf(out, "pepsi_signin_backend_up{backend=\"%s\"} %d\n", a->backend_names[i], c->backends[i].up && a->fd >= 0);
	buf_addz(out, "# HELP pepsi_signin_backend_answers_total Answers of backends\n# TYPE pepsi_signin_backend_answers_total counter\n");
	for (size_t i = 0; i < c->n_backends; i++)
		buf_addf(out,
		    "pepsi_signin_backend_answers_total{backend=\"%s\",result=\"ok\"} %llu\n"
		    "pepsi_signin_backend_answers_total{backend=\"%s\",result=\"refused\"} %llu\n"
		    "pepsi_signin_backend_answers_total{backend=\"%s\",result=\"away\"} %llu\n",
		    a->backend_names[i], (unsigned long long)c->backends[i].ok, a->backend_names[i],
		    (unsigned long long)c->backends[i].refused, a->backend_names[i], (unsigned long long)c->backends[i].away);
}

void auth_metrics(const struct auth *a, struct buf *out)
{
	buf_addz(out,
	    "# HELP pepsi_signin_attempts_total Sign-ins by mechanism and result\n# TYPE pepsi_signin_attempts_total counter\n");
	for (unsigned m = 0; m < SASL_MECHS; m++)
		for (unsigned r = 0; r < AUTH_RESULTS; r++)
			if (a->attempts[m][r] || r == AUTH_OK || r == AUTH_CREDENTIALS)
				buf_addf(out, "pepsi_signin_attempts_total{mechanism=\"%s\",result=\"%s\"} %llu\n",
				    sasl_mech_name((enum sasl_mech)m), auth_result_names[r], (unsigned long long)a->attempts[m][r]);
	one(out, "gauge", "up", "Is there an admin child to ask?", a->fd >= 0);
	one(out, "gauge", "exchanges", "Sign-ins under way", a->n);
	one(out, "gauge", "in_flight", "Questions the admin child is at work on", a->n_asked);
	one(out, "gauge", "waiting", "Questions waiting for their turn", a->n_line);
	one(out, "gauge", "held", "Sign-ins and refusals held back", a->n_held);
	one(out, "gauge", "throttle_buckets", "Accounts and networks with failures remembered", guess_buckets(a->guesses));
	one(out, "gauge", "throttle_places", "Networks with sign-ins remembered", guess_places(a->guesses));
	one(out, "counter", "peer_lost_total", "Times the admin child was lost", (double)a->peer_lost);
	one(out, "counter", "late_answers_total", "Answers for which nobody waited any more", (double)a->late_answers);
	one(out, "counter", "unlogged_total", "Failures not logged, there were too many", (double)a->unlogged);
	one(out, "counter", "answers_total", "Answers of the admin child", (double)a->answers);
	one(out, "counter", "answer_seconds_total", "Time it took for them", (double)a->answer_us / 1e6);
	one(out, "gauge", "hashing", "Password checks running", a->child.hashing);
	one(out, "gauge", "hashing_limit", "Password checks that may run at once", a->child.hashing_max);
	one(out, "gauge", "hashing_queue", "Password checks waiting", a->child.queued);
	one(out, "counter", "hashed_total", "Password checks done", (double)a->child.hashed);
	one(out, "counter", "hash_seconds_total", "Time of password checks", (double)a->child.hash_us / 1e6);
	one(out, "counter", "hash_busy_total", "Password checks refused because the queue was full", (double)a->child.busy);
	put_backends(a, out);
}

void auth_status(const struct auth *a, struct buf *out)
{
	uint64_t sums[AUTH_RESULTS] = { 0 }, failed = 0;
	for (unsigned m = 0; m < SASL_MECHS; m++)
		for (unsigned r = 0; r < AUTH_RESULTS; r++)
			sums[r] += a->attempts[m][r];
	for (unsigned r = AUTH_CREDENTIALS; r <= AUTH_MECHANISM; r++)
		failed += sums[r];
	buf_addf(out,
	    "{\"up\":%s,\"ok\":%llu,\"failed\":%llu,\"throttled\":%llu,\"temporary\":%llu,\"cancelled\":%llu,\"in_flight\":%u,"
	    "\"waiting\":%u,\"held\":%u,\"hashing\":%u,\"hashing_max\":%u}",
	    a->fd >= 0 ? "true" : "false", (unsigned long long)sums[AUTH_OK], (unsigned long long)failed,
	    (unsigned long long)sums[AUTH_THROTTLED],
	    (unsigned long long)(sums[AUTH_BUSY] + sums[AUTH_AWAY] + sums[AUTH_TIMEOUT]), (unsigned long long)sums[AUTH_CANCELLED],
	    a->n_asked, a->n_line, a->n_held, a->child.hashing, a->child.hashing_max);
}
