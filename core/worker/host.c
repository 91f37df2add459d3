/* The function table that modules see. */
#include "base/clock.h"
#include "concurrent.h"
#include "measure.h"
#include "pass.h"
#include "resolve.h"

static struct pg_conn *database(const struct pepsi_conf *conf)
{
	if (!(conf->m->stage.caps & PEPSI_CAP_DB) || !conf->database)
		return NULL;
	return conf->database(conf->database_arg);
}

const struct pepsi_host worker_host = {
	.abi = PEPSI_ABI_OF(struct pepsi_host),
	.conf_str = host_conf_str,
	.conf_int = host_conf_int,
	.conf_multi = host_conf_multi,
	.conf_stage_name = host_conf_stage_name,
	.conf_global = host_conf_global,
	.report = host_report,
	.id = host_id,
	.received_at = host_received_at,
	.mail_from = host_mail_from,
	.n_rcpt = host_n_rcpt,
	.rcpt = host_rcpt,
	.state = host_state,
	.state_get = host_state_get,
	.next_stage = host_next_stage,
	.bounce_stage = host_bounce_stage,
	.lifetime_left = host_lifetime_left,
	.runtime_left_ms = host_runtime_left_ms,
	.headers = host_headers,
	.body = host_body,
	.set_headers = host_set_headers,
	.set_body = host_set_body,
	.set_mail_from = host_set_mail_from,
	.set_rcpt_to = host_set_rcpt_to,
	.merge_state = host_merge_state,
	.clear_state = host_clear_state,
	.advance = host_advance,
	.advance_to = host_advance_to,
	.reroute = host_reroute,
	.pause = host_pause,
	.pause_with = host_pause_with,
	.fail = host_fail,
	.finish = host_finish,
	.finish_with = host_finish_with,
	.advance_or_finish = host_advance_or_finish,
	.complete_success = host_complete_success,
	.rewrite_recipients = host_rewrite_recipients,
	.split_off_recipients = host_split_off_recipients,
	.split_to_one_per_row = host_split_to_one_per_row,
	.fan_out = host_fan_out,
	.enqueue_new = host_enqueue_new,
	.log = host_log,
	.database = database,
	.now_us = clock_wall_us,
	.more_waiting = host_more_waiting,
	.resolve = host_resolve,
	.event_new = host_event_new,
	.event_arm = host_event_arm,
	.event_free = host_event_free,
	.ask = host_ask,
	.ask_cancel = host_ask_cancel,
	.complete = host_complete,
	.in_hand = host_in_hand,
	.mono_ms = host_mono_ms,
	.metric = host_metric,
	.measure = host_measure,
	.status_report = host_status_report,
	.tell_success = host_tell_success,
	.pause_others = host_pause_others,
};
