#!/bin/sh
# gc: workqueue_body_gc beside open transactions. Whatever is under way when it runs, no body that a row will refer to is freed; and an
# orphan, as two concurrent deletes leave it, is.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
bad=0
q() { psql -qXAt -v ON_ERROR_STOP=1 -c "$1"; }
check() { # check WHAT WANT QUERY
	got=$(q "$3")
	[ "$got" = "$2" ] || { echo "$1: got '$got', want '$2'"; bad=1; }
}
# A session that is fed line by line: open_session N; say N SQL (waits until it is done).
open_session() {
	mkfifo "$tmp/$1"
	psql -qXAt -v ON_ERROR_STOP=0 <"$tmp/$1" >"$tmp/$1.out" 2>&1 &
	sessions="$sessions $!"
	eval "exec $2>\"$tmp/$1\""
}
say() { # say NAME FD SQL
	mark=done-$(date +%s%N)
	printf '%s;\n\\echo %s\n' "$3" "$mark" >&"$2"
	i=0
	until grep -q "$mark" "$tmp/$1.out"; do
		i=$((i + 1)); [ $i -lt 200 ] || { echo "session $1 hangs at: $3"; exit 1; }
		sleep 0.05
	done
}
sessions=
# Killed, not waited for: when the test has failed, one may wait for a lock of the other for ever.
tmp=$(mktemp -d) && trap 'kill $sessions 2>/dev/null; wait; rm -rf "$tmp"' EXIT
open_session a 7
open_session b 8
add="SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), 's', true, now(), '', '{a@b,c@d}', '{}', 'h', 'b')"
books="SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || (SELECT count(*) FROM pepsi.workqueue_body) || ' '
 || (SELECT count(*) FROM pepsi.workqueue w JOIN pepsi.workqueue_body b ON b.id = w.body_id)"

# Admission under way.
say a 7 "BEGIN; $add"
check "gc beside admission frees" 0 "SELECT pepsi.workqueue_body_gc()"
say a 7 COMMIT
check "admitted" "1 1 1" "$books"

# A body inserted, its row not yet.
say a 7 "BEGIN; INSERT INTO pepsi.workqueue_body VALUES (900001, 'x')"
check "gc beside a half-made message frees" 0 "SELECT pepsi.workqueue_body_gc()"
say a 7 "INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers) VALUES (900001, 900001, 's', 'running', '', '{a}', ''); COMMIT"
check "both there" "2 2 2" "$books"

# A clone made and its parent deleted, in one open transaction.
say a 7 "BEGIN; SELECT pepsi.workqueue_finish_with_clones(900001, 'delivered', '[{\"stage\":\"s\",\"indices\":[0],\"token\":\"g1\"}]')"
check "gc beside finish_with_clones frees" 0 "SELECT pepsi.workqueue_body_gc()"
say a 7 COMMIT
check "the clone has the body" "2 2 2" "$books"
check "nothing to free" 0 "SELECT pepsi.workqueue_body_gc()"

# A rewrite under way: old and new body.
id=$(q "SELECT id FROM pepsi.workqueue WHERE token IS NULL")
say a 7 "BEGIN; SELECT pepsi.workqueue_move($id, 't', 'running', 0, NULL, false, NULL, NULL, NULL, 'new')"
check "gc beside a rewrite frees" 0 "SELECT pepsi.workqueue_body_gc()"
say a 7 ROLLBACK
check "rolled back: the old body is there" "2 2 2" "$books"
say a 7 "BEGIN; SELECT pepsi.workqueue_move($id, 't', 'running', 0, NULL, false, NULL, NULL, NULL, 'new'); COMMIT"
check "rewritten" "2 2 2" "$books"

# Two siblings deleted at once: each sees the other's row, so the body stays: an orphan, which gc frees.
q "UPDATE pepsi.workqueue SET status = 'running'" 
q "SELECT pepsi.workqueue_split($id, '{0}', '[{\"stage\":\"s\",\"indices\":[1],\"token\":\"g2\"}]')" >/dev/null
q "UPDATE pepsi.workqueue SET status = 'running'"
twin=$(q "SELECT id FROM pepsi.workqueue WHERE token = 'g2'")
say a 7 "BEGIN; SELECT pepsi.workqueue_finish('{$id}', 'delivered')"
say b 8 "BEGIN; SELECT pepsi.workqueue_finish('{$twin}', 'delivered')"
check "gc beside two deletes frees" 0 "SELECT pepsi.workqueue_body_gc()"
say a 7 COMMIT
say b 8 COMMIT
check "an orphan" "1 2 1" "$books"
check "gc frees it" 1 "SELECT pepsi.workqueue_body_gc()"
check "books" "1 1 1" "$books"
# gc itself rolled back, and twice at once.
q "INSERT INTO pepsi.workqueue_body VALUES (900002, 'o')"
say a 7 "BEGIN; SELECT pepsi.workqueue_body_gc(); ROLLBACK"
say a 7 "BEGIN; SELECT pepsi.workqueue_body_gc()"
say b 8 "SET lock_timeout = '100ms'; SELECT pepsi.workqueue_body_gc()"
say a 7 COMMIT
check "books at the end" "1 1 1" "$books"
exit $bad
