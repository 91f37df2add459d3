/* The text of every statement; see stmt.h. What takes more than one statement is a function of db/procedures.sql. */
#include "store/stmt.h"

/* The rows an operator means: the parameters of struct store_filter. */
#define FILTERED "pepsi.workqueue_select($1::bigint[], $2::text, $3::text, $4::text, $5::text, $6::bigint, $7::integer)"
#define LOAD "SELECT w.id, w.body_id, w.received_at, w.stage, w.status::text, w.mail_from, w.rcpt_to, w.state::text"
#define ROW_JSON                                                                                                       \
	"'id', w.id, 'stage', w.stage, 'status', w.status, 'mail_from', w.mail_from, 'rcpt_to', to_json(w.rcpt_to[1:50])," \
	" 'rcpt_count', cardinality(w.rcpt_to), 'received_at', pepsi.iso(w.received_at),"                                \
	" 'next_attempt_at', pepsi.iso(w.timeout), 'last_error', coalesce(pepsi.last_error(w.state), CASE WHEN w.status = 'paused'" \
	" AND w.timeout < now() - interval '1 second' THEN 'due; another message for this domain is tried first' END)," \
	" 'hold', CASE WHEN pepsi.is_held(w.status, w.state) THEN 'operator'" \
	" WHEN w.status = 'paused' AND w.state ? 'hold' THEN coalesce(w.state #>> '{hold,why}', 'sender') END," \
	" 'held', CASE WHEN pepsi.is_held(w.status, w.state) THEN w.state -> 'held' END"

/* Array UPDATEs of workers: rows that are running, and at the stage in $1 when there is one. */
#define MOVE "UPDATE pepsi.workqueue w SET stage = coalesce(u.stage, w.stage), status = u.status::pepsi.workqueue_status," \
	" timeout = CASE WHEN u.status = 'paused' THEN now() + u.secs * interval '1 second' END"
#define AT " WHERE w.id = u.id AND w.status = 'running' AND ($1::text IS NULL OR lower(w.stage) = lower($1::text))"

#define ACCOUNT_REST "password IS NOT NULL, enabled, senders, certificates, messages_hour, messages_day, recipients_hour, recipients_day," \
	" created_at, changed_at, signed_in_at FROM pepsi.mail_account"

const struct stmt stmts[STMT_N] = {
	[STMT_RESERVE_IDS] = { "reserve_ids", "SELECT nextval('pepsi.workqueue_id_seq') FROM generate_series(1, $1::integer)" },
	[STMT_ADD] = { "add", "SELECT pepsi.workqueue_add($1::bigint, $2::text, $3::boolean, $4::timestamptz, $5::text, $6::text[],"
	    " $7::text::jsonb, $8::bytea, $9::bytea)" },
	[STMT_ADD_ONCE] = { "add_once", "SELECT pepsi.workqueue_add_once($1::text, $2::bigint, $3::text, $4::boolean, $5::timestamptz, $6::text,"
	    " $7::text[], $8::text::jsonb, $9::bytea, $10::bytea)" },
	[STMT_ADD_BATCH] = { "add_batch", "SELECT pepsi.workqueue_add($1::bigint[], $2::text[], $3::boolean[], $4::timestamptz[],"
	    " $5::text[], $6::text[], $7::integer[], $8::integer[], $9::text[], $10::bytea[], $11::bytea[])" },

	[STMT_LOCK_DISPATCHER] = { "lock_dispatcher", "SELECT pg_try_advisory_lock('pepsi.workqueue'::regclass::oid::bigint)" },
	[STMT_CLAIM] = { "claim", "SELECT id, stage, sender_key, domain FROM pepsi.workqueue_claim($1::text[], $2::integer[], $3::integer[],"
	    " $4::bigint[], $5::bigint[], $6::integer[], $7::text[], $8::bigint[], $9::integer[])" },
	[STMT_DUE] = { "due", "SELECT stage, domain, n, wait_us, clock, upto, upto_id FROM pepsi.workqueue_due($1::text[], $2::integer[],"
	    " $3::timestamptz, $4::bigint, $5::integer[], $6::text[], $7::integer[], $8::integer)" },
	[STMT_DUE_EARLIER] = { "due_earlier", "WITH up AS (UPDATE pepsi.workqueue SET timeout = timeout - $1::bigint * interval '1 microsecond'"
	    " WHERE status = 'paused' AND timeout > now() AND timeout < 'infinity' RETURNING 1) SELECT count(*)::integer FROM up" },
	[STMT_RELEASE] = { "release", "WITH up AS (UPDATE pepsi.workqueue SET status = 'pending' WHERE id = ANY ($1::bigint[])"
	    " AND status = 'running' RETURNING 1) SELECT count(*)::integer FROM up" },
	[STMT_RELEASE_ALL] = { "release_all", "WITH up AS (UPDATE pepsi.workqueue SET status = 'pending' WHERE status = 'running'"
	    " RETURNING 1) SELECT count(*)::integer FROM up" },
	[STMT_ORPHANS] = { "orphans", "SELECT id FROM pepsi.workqueue WHERE status = 'running' AND id <> ALL ($1::bigint[])"
	    " ORDER BY id LIMIT 10000" },
	[STMT_STILL_RUNNING] = { "still_running", "SELECT id FROM pepsi.workqueue WHERE id = ANY ($1::bigint[])"
	    " AND status = 'running' AND stage = $2::text ORDER BY id" },
	[STMT_BLAME] = { "blame", "SELECT pepsi.workqueue_blame($1::bigint, $2::text, $3::boolean, $4::integer, $5::text::jsonb)" },
	[STMT_FLUSH_STAGES] = { "flush_stages", "INSERT INTO pepsi.stage_stats AS s (stage, messages, time_us, kills, crashes)"
	    " SELECT u.stage, sum(u.messages), sum(u.time_us), sum(u.kills), sum(u.crashes)"
	    " FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) u(stage, messages, time_us, kills, crashes)"
	    " GROUP BY u.stage ORDER BY u.stage ON CONFLICT (stage) DO UPDATE SET messages = s.messages + excluded.messages,"
	    " time_us = s.time_us + excluded.time_us, kills = s.kills + excluded.kills, crashes = s.crashes + excluded.crashes" },
	[STMT_FLUSH_TOTALS] = { "flush_totals", "UPDATE pepsi.dispatch_stats SET stages = stages + $1::bigint,"
	    " messages_failed = messages_failed + $2::bigint, serialization_failures = serialization_failures + $3::bigint,"
	    " updated_at = now()" },
	[STMT_NOTIFY] = { "notify", "SELECT pg_notify('workqueue', '')" },
	[STMT_BODY_PIECE] = { "body_piece", "SELECT pepsi.workqueue_body_piece($1::bigint, $2::bigint, $3::integer, $4::bytea)" },
	[STMT_BODY_ROTATE] = { "body_rotate", "SELECT pepsi.workqueue_body_rotate()" },
	[STMT_BODY_GC] = { "body_gc", "SELECT pepsi.workqueue_body_gc()" },

	/* One statement, so one snapshot; each count from the smallest index that has it. */
	[STMT_COUNTS] = { "counts", "SELECT (SELECT count(*) FROM pepsi.workqueue),"
	    " (SELECT count(*) FROM pepsi.workqueue WHERE status = 'pending'), (SELECT count(*) FROM pepsi.workqueue WHERE status = 'paused'),"
	    " (SELECT count(*) FROM pepsi.workqueue WHERE status = 'failed' AND status IN ('failed', 'timeout')),"
	    " (SELECT count(*) FROM pepsi.workqueue WHERE status = 'timeout' AND status IN ('failed', 'timeout')),"
	    " sum(accepted)::bigint, sum(received)::bigint, sum(delivered)::bigint, sum(bounced)::bigint, sum(discarded)::bigint,"
	    " (SELECT array_to_string(pepsi.delivery_counts(), ' ')),"
	    " (SELECT count(*) FROM pepsi.workqueue WHERE status = 'paused' AND (state #>> '{held,rule}') IS NOT NULL),"
	    " (SELECT count(*) FROM pepsi.queue_rule WHERE action = 'hold' AND (expires_at IS NULL OR expires_at > now())),"
	    " (SELECT count(*) FROM pepsi.queue_rule WHERE action = 'reroute' AND (expires_at IS NULL OR expires_at > now()))"
	    " FROM pepsi.flow_stats" },
	[STMT_LIST] = { "list", "SELECT coalesce(json_agg(json_build_object(" ROW_JSON ") ORDER BY w.id), '[]')::text"
	    " FROM pepsi.workqueue w WHERE w.id = ANY (" FILTERED ")" },
	[STMT_SHOW] = { "show", "SELECT coalesce((SELECT json_build_object(" ROW_JSON ", 'attempts', w.state -> 'attempts',"
	    " 'sender_key', w.sender_key, 'body_id', w.body_id, 'headers_size', octet_length(w.headers),"
	    " 'body_size', (SELECT coalesce(octet_length(b.body), b.size) FROM pepsi.workqueue_body b WHERE b.id = w.body_id),"
	    " 'all_rcpt_to', to_json(w.rcpt_to), 'state', w.state) FROM pepsi.workqueue w WHERE w.id = $1::bigint)::text, 'null')" },
	[STMT_CAT] = { "cat", "SELECT (m.h + 2 + coalesce(octet_length(b.body), b.size, 0))::bigint,"
	    " substring(w.headers || '\\x0d0a'::bytea FROM m.o + 1 FOR m.l) || coalesce(CASE WHEN b.part IS NULL"
	    " THEN substring(b.body FROM greatest(m.o - m.h - 2, 0) + 1 FOR greatest(m.l - greatest(m.h + 2 - m.o, 0), 0))"
	    " ELSE pepsi.workqueue_body_get(b.id, greatest(m.o - m.h - 2, 0), greatest(m.l - greatest(m.h + 2 - m.o, 0), 0)) END, '')"
	    " FROM pepsi.workqueue w LEFT JOIN pepsi.workqueue_body b ON b.id = w.body_id"
	    " CROSS JOIN LATERAL (SELECT octet_length(w.headers) AS h, least(greatest($2::bigint, 0), 2000000000)::integer AS o,"
	    " greatest($3::integer, 0) AS l) m WHERE w.id = $1::bigint" },
	[STMT_CHANGE] = { "change", "SELECT matched, changed, last FROM pepsi.workqueue_change($8::text, $9::text, $10::boolean, $1::bigint[], $2::text,"
	    " $3::text, $4::text, $5::text, $6::bigint, $7::integer)" },
	[STMT_SUPPRESSION_LIST] = { "suppression_list", "SELECT pepsi.suppression_list($1::text::jsonb)::text" },
	[STMT_SUPPRESSION_ADD] = { "suppression_add", "SELECT pepsi.suppression_add($1::text::jsonb)::text" },
	[STMT_SUPPRESSION_REMOVE] = { "suppression_remove", "SELECT pepsi.suppression_remove($1::text::jsonb)::text" },
	[STMT_RULE_ADD] = { "rule_add", "SELECT pepsi.queue_rule_add($1::text::jsonb)" },
	[STMT_RULE_REMOVE] = { "rule_remove", "SELECT CASE WHEN pepsi.queue_rule_remove($1::bigint) THEN 1 ELSE 0 END::bigint" },
	[STMT_RULE_LIST] = { "rule_list", "SELECT pepsi.queue_rule_list($1::text)::text" },
	[STMT_RULE_APPLY] = { "rule_apply", "SELECT matched, changed, last FROM pepsi.queue_rule_apply($1::bigint, $2::text::jsonb, $3::boolean,"
	    " $4::bigint, $5::integer)" },
	[STMT_RULE_RELEASE] = { "rule_release", "SELECT pepsi.queue_rule_release($1::bigint, $2::integer)::bigint" },
	[STMT_RULE_SWEEP] = { "rule_sweep", "SELECT pepsi.queue_rule_sweep(1000)" },
	[STMT_EXPIRE] = { "expire", "SELECT id, stage, went_to, error FROM pepsi.workqueue_expire($1::text[], $2::bigint[], $3::text[], $4::boolean[],"
	    " $5::bigint, $6::integer)" },
	[STMT_RULE_LOAD] = { "rule_load", "SELECT id, action, sender, recipient, client, stage, to_stage, reason, created_us, expires_us"
	    " FROM pepsi.queue_rules()" },
	[STMT_STATS] = { "stats", "SELECT json_build_object('stages', coalesce((SELECT json_agg(json_build_object('stage', stage,"
	    " 'messages', messages, 'time_us', time_us, 'kills', kills, 'crashes', crashes) ORDER BY stage) FROM pepsi.stage_stats), '[]'),"
	    " 'dispatch', (SELECT json_build_object('stages', stages, 'messages_failed', messages_failed, 'serialization_failures',"
	    " serialization_failures, 'updated_at', pepsi.iso(updated_at)) FROM pepsi.dispatch_stats))::text" },
	[STMT_LISTEN_WORKQUEUE] = { "listen_workqueue", "LISTEN workqueue" },
	[STMT_LISTEN_CONFIG] = { "listen_config_changed", "LISTEN config_changed" },
	[STMT_LISTEN_FAILED] = { "listen_workqueue_failed", "LISTEN workqueue_failed" },

	[STMT_LOAD_METADATA] = { "load_metadata", LOAD " FROM pepsi.workqueue w WHERE w.id = ANY ($1::bigint[])" },
	[STMT_LOAD_HEADERS] = { "load_headers", LOAD ", w.headers FROM pepsi.workqueue w WHERE w.id = ANY ($1::bigint[])" },
	[STMT_LOAD_FULL] = { "load_full", LOAD ", w.headers,"
	    " CASE WHEN b.part IS NULL THEN b.body ELSE pepsi.workqueue_body_get(b.id) END FROM pepsi.workqueue w"
	    " LEFT JOIN pepsi.workqueue_body b ON b.id = w.body_id WHERE w.id = ANY ($1::bigint[])" },
	[STMT_MOVE] = { "move", MOVE " FROM unnest($2::bigint[], $3::text[], $4::text[], $5::integer[]) u(id, stage, status, secs)" AT },
	[STMT_MOVE_STATE] = { "move_state", MOVE ", state = pepsi.state_merge(w.state, u.state::jsonb)"
	    " FROM unnest($2::bigint[], $3::text[], $4::text[], $5::integer[], $6::text[]) u(id, stage, status, secs, state)" AT },
	/* the recipients of all rows in $10, those of a row from lo to hi (NULL: unchanged) */
	[STMT_MOVE_ENVELOPE] = { "move_envelope", MOVE ", state = pepsi.state_merge(w.state, u.state::jsonb),"
	    " mail_from = coalesce(u.mail_from, w.mail_from),"
	    " rcpt_to = CASE WHEN u.lo IS NULL THEN w.rcpt_to ELSE ($10::text[])[u.lo:u.hi] END"
	    " FROM unnest($2::bigint[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::integer[], $9::integer[])"
	    " u(id, stage, status, secs, state, mail_from, lo, hi)" AT },
	[STMT_MOVE_FULL] = { "move_full", "SELECT pepsi.workqueue_move($1::bigint, $2::text, $3::text::pepsi.workqueue_status, $4::integer,"
	    " $5::text::jsonb, $6::boolean, $7::bytea, $8::text, $9::text[], $10::bytea, $11::text)" },
	[STMT_PAUSE] = { "pause", "SELECT pepsi.workqueue_pause($1::bigint, $2::integer, $3::text::jsonb, $4::integer[], $5::text::jsonb,"
	    " $6::text)" },
	[STMT_FINISH] = { "finish", "SELECT pepsi.workqueue_finish($1::bigint[], $2::text, $3::text)" },
	[STMT_FINISH_CLONES] = { "finish_clones", "SELECT pepsi.workqueue_finish_with_clones($1::bigint, $2::text, $3::text::jsonb, $4::text)" },
	/* The longest time, and rows of one domain: traffic.h's TRAFFIC_BACK_MOST_S, and a transaction that a claim may have to wait for. */
	[STMT_PUT_OFF] = { "put_off", "SELECT pepsi.workqueue_put_off($1::text[], $2::text[], $3::integer[], $4::integer[], $5::text[], $6::bigint[],"
	    " 3600, 1000)" },
	[STMT_SPLIT] = { "split", "SELECT pepsi.workqueue_split($1::bigint, $2::integer[], $3::text::jsonb, $4::text)" },
	[STMT_INJECT] = { "inject", "SELECT pepsi.workqueue_inject($1::text, $2::text, $3::text[], $4::bytea, $5::bytea, $6::text::jsonb,"
	    " $7::bigint, $8::text)" },
	[STMT_FAILURE_BOUNCE] = { "failure_bounce", "SELECT id, action, mail_from, stage, status, error, failed_at"
	    " FROM pepsi.failure_bounce($1::text, $2::text[], $3::bigint, $4::boolean, $5::text[], $6::bigint, $7::integer)" },
	[STMT_FAILURE_WAIT] = { "failure_wait", "SELECT waiting, next_us FROM pepsi.failure_wait($1::text, $2::text[], $3::bigint)" },
	[STMT_ACCOUNT_GET] = { "account_get", "SELECT name, password, scram, " ACCOUNT_REST " WHERE name = $1::text" },
	[STMT_ACCOUNT_BY_CERTIFICATE] = { "account_by_certificate", "SELECT name, password, scram, " ACCOUNT_REST
	    " WHERE certificates @> ARRAY[$1::text] ORDER BY name LIMIT 1" },
	[STMT_ACCOUNT_LIST] = { "account_list", "SELECT name, NULL::text, NULL::text, " ACCOUNT_REST
	    " WHERE name > $1::text ORDER BY name LIMIT $2::integer" },
	/* a cap below zero: what the configuration says */
	[STMT_ACCOUNT_ADD] = { "account_add", "INSERT INTO pepsi.mail_account (name, password, scram, enabled, senders, certificates,"
	    " messages_hour, messages_day, recipients_hour, recipients_day) VALUES ($1::text, $2::text, $3::text, $4::boolean, $5::text[],"
	    " $6::text[], CASE WHEN $7::integer >= 0 THEN $7::integer END, CASE WHEN $8::integer >= 0 THEN $8::integer END,"
	    " CASE WHEN $9::integer >= 0 THEN $9::integer END, CASE WHEN $10::integer >= 0 THEN $10::integer END)"
	    " ON CONFLICT (name) DO NOTHING RETURNING 1" },
	[STMT_ACCOUNT_CHANGE] = { "account_change", "UPDATE pepsi.mail_account SET password = coalesce($2::text, password),"
	    " scram = coalesce($3::text, scram), enabled = coalesce($4::boolean, enabled), senders = coalesce($5::text[], senders),"
	    " certificates = coalesce($6::text[], certificates),"
	    " messages_hour = CASE WHEN $7::integer IS NULL THEN messages_hour WHEN $7::integer >= 0 THEN $7::integer END,"
	    " messages_day = CASE WHEN $8::integer IS NULL THEN messages_day WHEN $8::integer >= 0 THEN $8::integer END,"
	    " recipients_hour = CASE WHEN $9::integer IS NULL THEN recipients_hour WHEN $9::integer >= 0 THEN $9::integer END,"
	    " recipients_day = CASE WHEN $10::integer IS NULL THEN recipients_day WHEN $10::integer >= 0 THEN $10::integer END,"
	    " changed_at = now() WHERE name = $1::text RETURNING 1" },
	[STMT_ACCOUNT_REMOVE] = { "account_remove", "DELETE FROM pepsi.mail_account WHERE name = $1::text RETURNING 1" },
	[STMT_ACCOUNT_USE_PUT] = { "account_use_put", "SELECT pepsi.account_use_put($1::text[], $2::timestamptz[], $3::timestamptz[], $4::bigint[],"
	    " $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[])" },
	[STMT_ACCOUNT_USE_GET] = { "account_use_get", "SELECT name, hour_at, day_at, messages_hour, messages_day, recipients_hour, recipients_day,"
	    " told_at FROM pepsi.account_use_get($1::integer)" },
	[STMT_ACCOUNT_SEEN] = { "account_seen", "UPDATE pepsi.mail_account SET signed_in_at = now() WHERE name = $1::text"
	    " AND (signed_in_at IS NULL OR signed_in_at < now() - interval '1 hour')" },
	[STMT_LISTEN_RECIPIENT] = { "listen_recipient_changed", "LISTEN recipient_changed" },
	[STMT_RECIPIENT_LOOKUP] = { "recipient_lookup", "SELECT name, alias FROM pepsi.recipient_lookup($1::text[], $2::text[])" },
	[STMT_RECIPIENT_ADD] = { "recipient_add", "INSERT INTO pepsi.recipient (address) VALUES ($1::text) ON CONFLICT (address) DO NOTHING"
	    " RETURNING 1" },
	[STMT_RECIPIENT_REMOVE] = { "recipient_remove", "DELETE FROM pepsi.recipient WHERE address = $1::text RETURNING 1" },
	[STMT_RECIPIENT_LIST] = { "recipient_list", "SELECT address FROM pepsi.recipient WHERE address > $1::text ORDER BY address LIMIT $2::integer" },
	[STMT_OVERLAY_SET] = { "overlay_set", "INSERT INTO pepsi.config_override (scope, section, option, value)"
	    " VALUES ('global', $1::text, $2::text, $3::text) ON CONFLICT (scope, section, option) DO UPDATE SET value = EXCLUDED.value,"
	    " updated_at = now() RETURNING 1" },
	[STMT_OVERLAY_UNSET] = { "overlay_unset", "DELETE FROM pepsi.config_override WHERE scope = 'global' AND lower(section) = lower($1::text)"
	    " AND lower(option) = lower($2::text) RETURNING 1" },
	[STMT_OVERLAY_LIST] = { "overlay_list", "SELECT section, option, value FROM pepsi.config_override WHERE scope = 'global'"
	    " AND (section, option) > ($1::text, $2::text) ORDER BY section, option LIMIT $3::integer" },
	[STMT_OVERLAY_LOAD] = { "overlay_load", "SELECT section, option, value FROM pepsi.config_override WHERE scope = 'global'"
	    " AND lower(section) LIKE 'stage-%' ORDER BY section, option LIMIT $1::integer" },
	[STMT_GREYLIST_ASK] = { "greylist_ask", "SELECT w FROM unnest(pepsi.greylist_ask($1::bytea[], $2::bytea[], $3::integer, $4::integer,"
	    " $5::integer, $6::integer)) WITH ORDINALITY u(w, o) ORDER BY o" },
	[STMT_GREYLIST_SWEEP] = { "greylist_sweep", "SELECT pepsi.greylist_sweep($1::integer)::bigint" },
	[STMT_QUEUE_ROWS] = { "queue_rows", "SELECT pepsi.queue_rows()" },
	[STMT_DMARC_TALLY_PUT] = { "dmarc_tally_put", "SELECT pepsi.dmarc_tally_put($1::text, $2::bigint, $3::integer, $4::integer, $5::timestamptz[],"
	    " $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bigint[])" },
	[STMT_DMARC_FAILURE_PUT] = { "dmarc_failure_put", "SELECT pepsi.dmarc_failure_put($1::text, $2::bigint, $3::integer, $4::integer, $5::timestamptz[],"
	    " $6::text[], $7::text[], $8::text[], $9::bytea[])" },
	[STMT_DMARC_FAILURES] = { "dmarc_failures", "SELECT pepsi.dmarc_failures($1::text::jsonb)::text" },
	[STMT_DMARC_FAILURE_SUMMARY] = { "dmarc_failure_summary", "SELECT pepsi.dmarc_failure_summary($1::text::jsonb)::text" },
	[STMT_DMARC_DUE] = { "dmarc_due", "SELECT pepsi.dmarc_due($1::text::jsonb)::text" },
	[STMT_DMARC_ROWS] = { "dmarc_rows", "SELECT pepsi.dmarc_rows($1::text::jsonb)::text" },
	[STMT_DMARC_DONE] = { "dmarc_done", "SELECT pepsi.dmarc_done($1::text::jsonb)::text" },
	[STMT_DMARC_LIST] = { "dmarc_list", "SELECT pepsi.dmarc_list($1::text::jsonb)::text" },
	[STMT_DMARC_UNMUTE] = { "dmarc_unmute", "SELECT pepsi.dmarc_unmute($1::text::jsonb)::text" },
	[STMT_DMARC_SWEEP] = { "dmarc_sweep", "SELECT pepsi.dmarc_sweep($1::text::jsonb)::text" },
	[STMT_DMARC_SUMMARY] = { "dmarc_received_summary", "SELECT pepsi.dmarc_received_summary($1::text::jsonb)::text" },
	[STMT_DMARC_ENQUEUE] = { "dmarc_enqueue", "SELECT coalesce((pepsi.dmarc_enqueue($1::bigint, $2::text, $3::text, $4::text, $5::text[], $6::bytea[],"
	    " $7::bytea, $8::text::jsonb, $9::boolean))[1], 0)" },
	[STMT_TLSRPT_DUE] = { "tlsrpt_due", "SELECT pepsi.tlsrpt_due($1::text::jsonb)::text" },
	[STMT_TLSRPT_ROWS] = { "tlsrpt_rows", "SELECT pepsi.tlsrpt_rows($1::text::jsonb)::text" },
	[STMT_TLSRPT_BEGIN] = { "tlsrpt_begin", "SELECT pepsi.tlsrpt_begin($1::text::jsonb)::text" },
	[STMT_TLSRPT_POSTED] = { "tlsrpt_posted", "SELECT pepsi.tlsrpt_posted($1::text::jsonb)::text" },
	[STMT_TLSRPT_DONE] = { "tlsrpt_done", "SELECT pepsi.tlsrpt_done($1::text::jsonb)::text" },
	[STMT_TLSRPT_LIST] = { "tlsrpt_list", "SELECT pepsi.tlsrpt_list($1::text::jsonb)::text" },
	[STMT_TLSRPT_MUTE] = { "tlsrpt_mute", "SELECT pepsi.tlsrpt_mute($1::text::jsonb)::text" },
	[STMT_TLSRPT_UNMUTE] = { "tlsrpt_unmute", "SELECT pepsi.tlsrpt_unmute($1::text::jsonb)::text" },
	[STMT_TLSRPT_SWEEP] = { "tlsrpt_sweep", "SELECT pepsi.tlsrpt_sweep($1::text::jsonb)::text" },
	[STMT_TLSRPT_SUMMARY] = { "tlsrpt_received_summary", "SELECT pepsi.tlsrpt_received_summary($1::text::jsonb)::text" },
	[STMT_TLSRPT_ENQUEUE] = { "tlsrpt_enqueue", "SELECT coalesce((pepsi.tlsrpt_enqueue($1::bigint, $2::text, $3::text, $4::text, $5::text[], $6::bytea[],"
	    " $7::bytea, $8::text::jsonb))[1], 0)" },
	[STMT_STS_LIST] = { "sts_list", "SELECT pepsi.sts_policy_list($1::text::jsonb)::text" },
	[STMT_STS_PUT] = { "sts_put", "SELECT 'true' FROM (SELECT $1::text::jsonb) t(j), LATERAL pepsi.sts_policy_put(j ->> 'domain', j ->> 'id', j ->> 'mode', j ->> 'body',"
	    " (j ->> 'fetched')::bigint, (j ->> 'expires')::bigint, (j ->> 'due')::bigint)" },
	[STMT_STS_FAILED] = { "sts_failed", "SELECT 'true' FROM (SELECT $1::text::jsonb) t(j), LATERAL pepsi.sts_policy_failed(j ->> 'domain', j ->> 'result', j ->> 'why',"
	    " (j ->> 'at')::bigint, (j ->> 'due')::bigint, (j ->> 'before')::integer)" },
	[STMT_STS_DUE] = { "sts_due", "SELECT coalesce((SELECT jsonb_agg(d) FROM pepsi.sts_policy_due(($1::text::jsonb ->> 'limit')::integer, ($1::text::jsonb ->> 'used')::bigint) d),"
	                              " '[]')::text" },
	[STMT_STS_FORGET] = { "sts_forget", "SELECT pepsi.sts_policy_forget($1::text::jsonb ->> 'domain')::text" },
	[STMT_ADDRESS_LIST] = { "address_list", "SELECT pepsi.dns_address_list($1::text::jsonb)::text" },
	[STMT_SECURITY_LIST] = { "security_list", "SELECT pepsi.destination_security_list($1::text::jsonb)::text" },
	[STMT_SECURITY_FORGET] = { "security_forget", "SELECT pepsi.destination_security_forget($1::text::jsonb ->> 'domain')::text" },
};
