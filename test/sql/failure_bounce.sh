#!/bin/sh
# failure_bounce: the assertions of failure_bounce.sql; that the sweep notifies exactly when a message was moved; and that a
# row which somebody holds is left alone, without waiting for it.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
out=$(psql -XAt -f "$PEPSI_SQL_DIR/failure_bounce.sql") || exit 1
got=$(printf '%s\n' "$out" | sed 's/ received from server process.*//')
want='-- dropped
1:dropped
-- moved
2:moved
Asynchronous notification "workqueue"
-- end'
[ "$got" = "$want" ] || { echo "notifications: $out"; exit 1; }

psql -qX -c "SELECT pepsi.workqueue_add(i, 'out', false, now(), 'x@y', '{a@b}', '{}', 'h', 'b') FROM generate_series(101, 102) i" \
	-c "UPDATE pepsi.workqueue SET status = 'failed' WHERE id > 100" >/dev/null || exit 1
(echo "BEGIN; SELECT 1 FROM pepsi.workqueue WHERE id = 101 FOR UPDATE;"; sleep 2; echo "COMMIT;") | psql -qX >/dev/null &
holder=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
	[ "$(psql -qXAt -c "SELECT count(*) FROM pg_locks WHERE relation = 'pepsi.workqueue'::regclass AND mode = 'RowShareLock'")" = 1 ] && break
	sleep 0.1
done
sweep="SELECT string_agg(id || ':' || action, ' ') FROM pepsi.failure_bounce('bounce', '{failed}', 0, false, '{}', 0, 10)"
got=$(PGUSER=pepsi PGOPTIONS='-c lock_timeout=500' psql -qXAt -c "$sweep")
[ "$got" = 102:moved ] || { echo "beside a locked row: $got"; exit 1; }
wait $holder
got=$(PGUSER=pepsi psql -qXAt -c "$sweep")
[ "$got" = 101:moved ] || { echo "once it is free: $got"; exit 1; }
