/* Stage modules whose optional hooks misbehave, one per HOOK_… definition; what `pepsi stage run` must say of them. Text of the
 * message plays no part: METADATA. */
#include <pepsi/stage.h>

#include <signal.h>

static int32_t process(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
	return h->advance_or_finish(m);
}

static int32_t process_batch(void *worker, const struct pepsi_host *h, struct pepsi_msg *const *m, int32_t *status, size_t n)
{
	for (size_t i = 0; i < n; i++) {
#if defined(HOOK_SILENT)
		if (i % 2) /* a terminal, but no word of it */
			h->finish(m[i]);
		else
			status[i] = process(worker, h, m[i]);
#elif defined(HOOK_CRASH)
		if (h->id(m[i]) == 52)
			raise(SIGKILL); /* no sanitizer may turn it into an exit */
		status[i] = process(worker, h, m[i]);
#elif defined(HOOK_REFUSES)
		if (i == 2)
			return PEPSI_RETRY; /* for all it did not get to */
		h->log(m[i], PEPSI_LOG_WARN, "one by one");
		status[i] = process(worker, h, m[i]);
#else
		status[i] = process(worker, h, m[i]);
#endif
	}
	return PEPSI_OK;
}

static int32_t can_fuse(void *worker, const struct pepsi_host *h, struct pepsi_msg *m)
{
	(void)worker;
#if defined(HOOK_FUSE_WRITES)
	h->merge_state(m, "{\"seen\":true}");
#endif
#if defined(HOOK_CRASH)
	raise(SIGKILL);
#endif
	return h->n_rcpt(m) == 1;
}

PEPSI_STAGE(.name = HOOK_NAME, .version = "1.0", .license = "none", .summary = "misbehaves in hooks", .load_class = PEPSI_LOAD_METADATA,
    .process = process, .process_batch = process_batch, .can_fuse = can_fuse);
