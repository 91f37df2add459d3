#!/bin/sh
# flow: the accounting under concurrent random operations of every kind, checked in many snapshots while they run, after the server
# was shut down in the middle of them, and at the end. The identity is exact or the test fails.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
bad=0
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/ops.sql" <<'END'
\set op random(1, 16)
\set n random(1, 8)
\set r random(0, 1000000)
\if :op <= 4
SELECT pepsi.workqueue_add(array_agg(nextval('pepsi.workqueue_id_seq')), array_agg('s'::text), array_agg(i % 2 = 0), array_agg(now()), array_agg('x'::text), array_agg('a@b'::text), array_agg(i::int), array_agg(i::int), array_agg('{}'::text), array_agg('h'::bytea), array_agg('b'::bytea)) FROM generate_series(1, :n) i;
\elif :op = 5
UPDATE pepsi.workqueue SET status = 'running' WHERE id = ANY (ARRAY(SELECT id FROM pepsi.workqueue WHERE status = 'pending' ORDER BY id LIMIT :n FOR UPDATE SKIP LOCKED)) AND status = 'pending';
\elif :op <= 8
SELECT pepsi.workqueue_finish(ARRAY(SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY id LIMIT :n FOR UPDATE SKIP LOCKED), (ARRAY['delivered', 'bounced', 'discarded'])[1 + :r % 3]);
\elif :op = 9
SELECT pepsi.workqueue_finish_with_clones(id, 'delivered', format('[{"stage":"s","indices":[0],"token":"f%s-%s"},{"stage":"t","status":"failed","rcpts":["n@x"],"token":"g%s-%s"}]', id, :r, id, :r)::jsonb) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
\elif :op = 10
SELECT pepsi.workqueue_split(id, NULL, format('[{"stage":"s","indices":[0],"token":"s%s-%s"}]', id, :r)::jsonb) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
\elif :op = 11
SELECT pepsi.workqueue_move(id, 'u', 'pending', 0, '{}', :r % 2 = 0, NULL, NULL, NULL, CASE WHEN :r % 3 = 0 THEN convert_to(repeat('n', :r % 140000), 'UTF8') END) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
\elif :op = 12
SELECT pepsi.workqueue_pause(id, 0, NULL, NULL, format('[{"stage":"s","indices":[0],"token":"p%s-%s"}]', id, :r)::jsonb) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
\elif :op = 13
SELECT pepsi.workqueue_inject('s', '', '{a@b}', 'h', convert_to(repeat('b', :r % 140000), 'UTF8'));
\elif :op = 14
BEGIN;
SELECT pepsi.workqueue_inject('s', '', '{a@b}', 'h', 'b');
DELETE FROM pepsi.workqueue WHERE id = (SELECT min(id) FROM pepsi.workqueue WHERE status <> 'running');
ROLLBACK;
\elif :op = 15
SELECT pepsi.workqueue_delete(ARRAY(SELECT id FROM pepsi.workqueue WHERE status <> 'running' ORDER BY id LIMIT :n));
\else
SELECT pepsi.workqueue_body_gc(50);
SELECT pepsi.workqueue_body_rotate(500000, 300000, '0');
\endif
END
# Nobody waits for one who idles in a transaction, though he has counted: sessions of every pid modulo 64, the idle one's among them.
add="SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), 's', true, now(), '', '{a@b}', '{}', 'h', 'b')"
mkfifo "$tmp/idle"
psql -qXAt <"$tmp/idle" >"$tmp/idle.out" 2>&1 &
exec 7>"$tmp/idle"
echo "BEGIN; $add; SELECT 'slot ' || pg_backend_pid() % 64;" >&7
i=0
until grep -q slot "$tmp/idle.out"; do
	i=$((i + 1)); [ $i -lt 400 ] || { echo "the idle session does not begin"; cat "$tmp/idle.out"; exit 1; }
	sleep 0.05
done
idle=$(sed -n 's/^slot //p' "$tmp/idle.out")
for i in $(seq 100); do printf '\\connect -\nSET statement_timeout = 5000; SELECT '\''slot '\'' || pg_backend_pid() %% 64; %s; SELECT pepsi.workqueue_finish(ARRAY[currval('\''pepsi.workqueue_id_seq'\'')], '\''delivered'\'');\n' "$add"; done >"$tmp/many.sql"
met=0
for i in 1 2 3 4 5 6 7 8 9 10; do
	psql -qXAt -v ON_ERROR_STOP=1 -f "$tmp/many.sql" >"$tmp/many.out" 2>"$tmp/many.err" || { echo "beside an idle transaction: $(cat "$tmp/many.err")"; bad=1; break; }
	if grep -qx "slot $idle" "$tmp/many.out"; then met=1; break; fi
done
[ $bad = 1 ] || [ $met = 1 ] || { echo "no session had the idle one's slot: nothing was tried"; bad=1; }
echo "COMMIT;" >&7
exec 7>&-
wait
identity="SELECT sum(accepted) - sum(delivered) - sum(bounced) - sum(discarded) - (SELECT count(*) FROM pepsi.workqueue) FROM pepsi.flow_stats"
bodyless="SELECT count(*) FROM pepsi.workqueue w WHERE NOT EXISTS (SELECT FROM pepsi.workqueue_body b WHERE b.id = w.body_id)"

# run SECONDS: eight clients; one more looks, each time in one snapshot.
run() {
	PGUSER=pepsi pgbench -n -c 8 -j 1 -T "$1" --max-tries=20 -f "$tmp/ops.sql" >"$tmp/bench.log" 2>&1 &
	bench=$!
	looks=0
	while kill -0 $bench 2>/dev/null; do
		got=$(psql -qXAt -c "SELECT ($identity) || ' ' || ($bodyless)" 2>/dev/null) || continue
		looks=$((looks + 1))
		[ "$got" = "0 0" ] || { echo "while running: identity off by, rows without a body: $got"; bad=1; }
	done
	wait $bench
}
run 4
grep -q "number of transactions actually processed" "$tmp/bench.log" || { cat "$tmp/bench.log"; exit 1; }
grep "transactions actually processed\|tps" "$tmp/bench.log"
[ "$looks" -gt 20 ] || { echo "only $looks looks"; bad=1; }

( sleep 1; "$PG_CTL" stop -m immediate ) & stop=$!
run 6
wait $stop
"$PG_CTL" start || exit 1
got=$(psql -qXAt -c "SELECT ($identity) || ' ' || ($bodyless) || ' ' || (SELECT sum(accepted) > 1000 FROM pepsi.flow_stats)")
[ "$got" = "0 0 true" ] || { echo "after the crash: $got"; bad=1; }

# Everything out: no body may be left once gc has run.
psql -qX -c "UPDATE pepsi.workqueue SET status = 'pending' WHERE status = 'running'" -c "DELETE FROM pepsi.workqueue" -c "SELECT pepsi.workqueue_body_gc(1000000)" >/dev/null
got=$(psql -qXAt -c "SELECT ($identity) || ' ' || (SELECT count(*) FROM pepsi.workqueue_body)")
[ "$got" = "0 0" ] || { echo "at the end: $got"; bad=1; }
exit $bad
