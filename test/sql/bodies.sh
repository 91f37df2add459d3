#!/bin/sh
# bodies: large bodies, cut into chunks. What is put in comes out, by any slice; rotation beside open transactions of every kind
# never loses or mixes a body, waits for nobody, and gives space back; under concurrent random operations, reads and rotations
# every body read is the one that was written, also after a crash. PEPSI_BODIES_S: seconds of concurrent operations.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
export PGOPTIONS='-c statement_timeout=40s' # a statement that waits for ever says which it was
bad=0
q() { psql -qXAt -v ON_ERROR_STOP=1 -c "$1"; }
check() { # check WHAT WANT QUERY
	got=$(q "$3" 2>&1)
	[ "$got" = "$2" ] || { echo "$1: got '$got', want '$2'"; bad=1; }
}
open_session() {
	mkfifo "$tmp/$1"
	psql -qXAt -v ON_ERROR_STOP=0 -v VERBOSITY=sqlstate <"$tmp/$1" >"$tmp/$1.out" 2>&1 &
	sessions="$sessions $!"
	eval "exec $2>\"$tmp/$1\""
}
send() { # send NAME FD SQL; done_with NAME waits for it
	mark=done-$(date +%s%N)
	: >"$tmp/$1.out"
	printf '%s;\n\\echo %s\n' "$3" "$mark" >&"$2"
}
done_with() {
	i=0
	until grep -q "$mark" "$tmp/$1.out"; do
		i=$((i + 1)); [ $i -lt 200 ] || { echo "session $1 hangs"; cat "$tmp/$1.out"; exit 1; }
		sleep 0.05
	done
}
say() { send "$1" "$2" "$3"; done_with "$1"; }
sessions=
tmp=$(mktemp -d) && trap 'kill $sessions 2>/dev/null; wait; rm -rf "$tmp"' EXIT
open_session a 7
open_session b 8
q "SET client_min_messages = warning;
CREATE SCHEMA t; GRANT USAGE ON SCHEMA t TO pepsi;
-- Octets that differ everywhere and by id; of a message its digest stands in its state.
CREATE FUNCTION t.octets(p_id bigint, n integer) RETURNS bytea LANGUAGE sql AS 'SELECT substring(convert_to(string_agg(md5(p_id || ''.'' || i), '''' ORDER BY i), ''UTF8'') FROM 1 FOR n) FROM generate_series(0, n / 32) i';
CREATE FUNCTION t.add(n integer) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE i bigint := nextval('pepsi.workqueue_id_seq'); b bytea := t.octets(i, n);
BEGIN RETURN pepsi.workqueue_add(i, 's', true, now(), '', '{a@b,c@d}', jsonb_build_object('md5', md5(b)), 'h', b); END \$\$;
-- Bodies that are not what was written. A row that went meanwhile has none.
CREATE FUNCTION t.wrong(p_ids bigint[]) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE r record; b bytea; w bigint := 0;
BEGIN
    FOR r IN SELECT id, body_id, state ->> 'md5' AS md5 FROM pepsi.workqueue WHERE id = ANY (p_ids) LOOP
        b := pepsi.workqueue_body_get(r.body_id);
        IF md5(b) <> r.md5 OR (b IS NULL AND EXISTS (SELECT FROM pepsi.workqueue WHERE id = r.id AND body_id = r.body_id)) THEN
            w := w + 1;
            RAISE WARNING 'row % body % is wrong: % octets', r.id, r.body_id, octet_length(b);
        END IF;
    END LOOP;
    RETURN w;
END \$\$;
CREATE FUNCTION t.all_wrong() RETURNS bigint LANGUAGE sql AS 'SELECT t.wrong(ARRAY(SELECT id FROM pepsi.workqueue))';
CREATE FUNCTION t.used() RETURNS text LANGUAGE sql AS 'SELECT coalesce(string_agg(i::text, '' '' ORDER BY i), '''') FROM generate_series(0, 7) i WHERE pg_relation_size(format(''pepsi.workqueue_chunk_%s'', i)::regclass) > 0'" >/dev/null || exit 1

# What goes in comes out: at every size near a limit, whole and in slices that begin and end near the cuts.
q "DO \$\$
DECLARE n integer; i bigint; b bytea; f integer; l integer; got bytea;
BEGIN
    FOREACH n IN ARRAY ARRAY[0, 1, 65535, 65536, 65537, 9 * 8120 - 1, 9 * 8120, 9 * 8120 + 1, 300001] LOOP
        i := t.add(n);
        b := t.octets(i, n);
        ASSERT (SELECT (part IS NOT NULL) = (n > 65536) AND coalesce(size, octet_length(body)) = n FROM pepsi.workqueue_body WHERE id = i), n;
        ASSERT pepsi.workqueue_body_get(i) = b, n;
        FOREACH f IN ARRAY ARRAY[0, 1, 8119, 8120, 8121, 16240, n - 1, n, n + 1, n + 100000] LOOP
            CONTINUE WHEN f < 0;
            FOREACH l IN ARRAY ARRAY[0, 1, 8119, 8120, 8121, 20000, n, n + 1] LOOP
                got := pepsi.workqueue_body_get(i, f, l);
                ASSERT got = substring(b FROM f + 1 FOR l), format('%s from %s for %s: %s', n, f, l, octet_length(got));
            END LOOP;
        END LOOP;
    END LOOP;
    ASSERT pepsi.workqueue_body_get(-1) IS NULL;
    -- by inject and by a rewrite, too
    i := pepsi.workqueue_inject('s', '', '{a@b}', 'h', t.octets(1, 100000));
    ASSERT pepsi.workqueue_body_get(i) = t.octets(1, 100000);
    UPDATE pepsi.workqueue SET status = 'running' WHERE id = i;
    PERFORM pepsi.workqueue_move(i, 's', 'pending', 0, NULL, false, NULL, NULL, NULL, t.octets(2, 200000));
    ASSERT (SELECT pepsi.workqueue_body_get(body_id) = t.octets(2, 200000) AND body_id <> i FROM pepsi.workqueue WHERE id = i);
    ASSERT NOT EXISTS (SELECT FROM pepsi.workqueue_body WHERE id = i);
END \$\$" || bad=1
# In pieces: whole or not at all, and only by who began.
piece="SELECT pepsi.workqueue_body_piece(5000000, 100000, 0, t.octets(5, 81200))"
add="SELECT pepsi.workqueue_add(5000000, 's', true, now(), '', '{a@b}', jsonb_build_object('md5', md5(t.octets(5, 100000))), 'h', NULL)"
rest="SELECT pepsi.workqueue_body_piece(5000000, 100000, 10, substring(t.octets(5, 100000) FROM 81201))"
fails() { # fails WHAT STATE SQL
	printf '\\set VERBOSITY sqlstate\nBEGIN;\n%s;\nCOMMIT;\n' "$3" | psql -qXAt -v ON_ERROR_STOP=1 2>&1 >/dev/null | grep -q "$2" || { echo "$1: no error $2"; bad=1; }
}
fails "a piece is missing" 55000 "$piece; $add"
fails "no piece at all" 55000 "$add"
fails "a piece twice" 55000 "$piece; $rest; $rest; $add"
say a 7 "BEGIN; $piece; $rest; $add; COMMIT"
fails "appending to another's body" 55000 "$rest"
fails "a NULL body of another" 55000 "SELECT pepsi.workqueue_add(6000000, 's', true, now(), '', '{a@b}', '{}', 'h', NULL)"
check "all as written" 0 "SELECT t.all_wrong()"
q "DELETE FROM pepsi.workqueue" >/dev/null
check "no body is left" 0 "SELECT count(*) FROM pepsi.workqueue_body"

# Rotation. It fills the next, empties what nobody needs, and leaves what is in use.
rotate="SELECT pepsi.workqueue_body_rotate(100000, 1000000, '0')"
q "$rotate; $rotate" >/dev/null
check "everything given back" "" "SELECT t.used()"
one=$(q "SELECT t.add(70000)")
two=$(q "SELECT t.add(70000)")
check "filled" 1 "SELECT count(*) FROM pepsi.workqueue_body b, pepsi.workqueue_fill f WHERE b.id = $one AND b.part = f.part"
check "on to the next" 0 "$rotate"
check "not in it" 0 "SELECT count(*) FROM pepsi.workqueue_body b, pepsi.workqueue_fill f WHERE b.part = f.part"
say a 7 "BEGIN; SELECT t.add(70000)"            # half-done admission, into the second
q "SELECT t.add(100000)" >/dev/null
check "on again" 0 "$rotate"
check "beside it" 0 "$rotate"
q "DELETE FROM pepsi.workqueue" >/dev/null
check "the first one goes, the second is being written to" 1 "$rotate"
say a 7 COMMIT
check "its message is there" "1 0" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || t.all_wrong()"
q "DELETE FROM pepsi.workqueue" >/dev/null
check "now the second" 1 "$rotate"

# Somebody who saw the table to fill before the rotation and writes after the truncation.
say a 7 "BEGIN; INSERT INTO pepsi.workqueue_body (id, part, size) SELECT 7000000, part, 100000 FROM pepsi.workqueue_fill"
q "SELECT t.add(200000)" >/dev/null
q "$rotate" >/dev/null
q "DELETE FROM pepsi.workqueue" >/dev/null
check "emptied under the other's eyes" 1 "$rotate"
say a 7 "SELECT pepsi.workqueue_chunks_put(part, id, 0, t.octets(7000000, 100000)) FROM pepsi.workqueue_body WHERE id = 7000000; INSERT INTO pepsi.workqueue (id, body_id, stage, mail_from, rcpt_to, headers, state) VALUES (7000000, 7000000, 's', '', '{a}', '', jsonb_build_object('md5', md5(t.octets(7000000, 100000)))); COMMIT"
check "and nothing is lost" "1 0" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || t.all_wrong()"
check "nor truncated" 0 "$rotate"
q "DELETE FROM pepsi.workqueue" >/dev/null
q "$rotate" >/dev/null

# A survivor is moved, shared bodies with it; readers of every age see it or are told to begin anew, never something else.
keep=$(q "SELECT t.add(70000)")
q "SELECT pepsi.workqueue_split($keep, '{0}', '[{\"stage\":\"s\",\"indices\":[1],\"token\":\"x1\"}]'); SELECT t.add(400000) FROM generate_series(1, 2)" >/dev/null
q "$rotate" >/dev/null
q "DELETE FROM pepsi.workqueue WHERE body_id <> $keep" >/dev/null
say a 7 "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pepsi.workqueue"
check "moved and truncated" 1 "$rotate"
check "whole" "2 0" "SELECT (SELECT count(*) FROM pepsi.workqueue WHERE body_id = $keep) || ' ' || t.all_wrong()"
say a 7 "SELECT pepsi.workqueue_body_get($keep); ROLLBACK"
grep -q 40001 "$tmp/a.out" || { echo "an old snapshot: $(cut -c1-100 "$tmp/a.out")"; bad=1; }
# A reader at work in the table keeps it from being truncated, and the rotation does not wait for it.
q "SELECT t.add(400000) FROM generate_series(1, 2)" >/dev/null
q "$rotate" >/dev/null
q "DELETE FROM pepsi.workqueue WHERE body_id <> $keep" >/dev/null
say a 7 "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT md5(pepsi.workqueue_body_get($keep))"
check "moved, not truncated" 0 "SET statement_timeout = '2s'; $rotate"
say a 7 "SELECT 'same ' || (md5(pepsi.workqueue_body_get($keep)) = md5(t.octets($keep, 70000)))"
grep -q "same true" "$tmp/a.out" || { echo "a reader's table was taken away: $(cut -c1-100 "$tmp/a.out")"; bad=1; }
say a 7 COMMIT
check "then it is" 1 "$rotate"
# A reader that saw the body where it was, and gets to the chunks when they are moved and truncated, looks again.
q "SELECT t.add(400000) FROM generate_series(1, 2); $rotate" >/dev/null
q "DELETE FROM pepsi.workqueue WHERE body_id <> $keep" >/dev/null
say a 7 "BEGIN; $rotate"
send b 8 "SELECT 'same ' || (md5(pepsi.workqueue_body_get($keep)) = md5(t.octets($keep, 70000)))"
sleep 0.5
grep -q same "$tmp/b.out" && { echo "the reader should wait for the table"; bad=1; }
mark_b=$mark
say a 7 COMMIT
mark=$mark_b done_with b
grep -q "same true" "$tmp/b.out" || { echo "a reader beside a move: $(cut -c1-100 "$tmp/b.out")"; bad=1; }
# Who deletes what is being moved waits, and then it is gone for good; what is being deleted is not moved.
q "SELECT t.add(400000) FROM generate_series(1, 2)" >/dev/null
q "$rotate" >/dev/null
q "DELETE FROM pepsi.workqueue WHERE body_id <> $keep" >/dev/null
say a 7 "BEGIN; $rotate"
send b 8 "DELETE FROM pepsi.workqueue"
sleep 0.3
say a 7 COMMIT
i=0
while [ "$(q 'SELECT count(*) FROM pepsi.workqueue')" != 0 ] && [ $i -lt 100 ]; do i=$((i + 1)); sleep 0.05; done
check "deleted behind the move" "0 0" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || (SELECT count(*) FROM pepsi.workqueue_body)"
keep=$(q "SELECT t.add(70000)")
q "SELECT t.add(400000) FROM generate_series(1, 2); $rotate" >/dev/null
q "DELETE FROM pepsi.workqueue WHERE id <> $keep" >/dev/null
say b 8 "BEGIN; DELETE FROM pepsi.workqueue"
check "about to be deleted: not moved, not truncated" 0 "SET statement_timeout = '2s'; $rotate"
say b 8 ROLLBACK
check "rolled back" "1 0" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || t.all_wrong()"
# Two rotations at once: the second does nothing.
say a 7 "BEGIN; $rotate"
check "one at a time" 0 "SET statement_timeout = '2s'; $rotate"
say a 7 ROLLBACK
# A move that is rolled back, then done.
check "still as written" "1 0" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || t.all_wrong()"
check "moved at last" 1 "$rotate"
q "DELETE FROM pepsi.workqueue" >/dev/null
# No empty one: the present one grows, and nothing is refused.
for n in 1 2 3 4 5 6 7 8 9 10; do q "SELECT t.add(150000); $rotate" >/dev/null; done
check "all in use, nothing lost" "10 0 7" "SELECT (SELECT count(*) FROM pepsi.workqueue) || ' ' || t.all_wrong() || ' ' || (SELECT max(part) FROM pepsi.workqueue_body)"
q "DELETE FROM pepsi.workqueue; $rotate; $rotate" >/dev/null
check "everything given back again" "" "SELECT t.used()"

# All of it at once.
cat >"$tmp/ops.sql" <<'END'
\set op random(1, 20)
\set n random(1, 4)
\set r random(0, 1000000)
\if :op <= 5
SELECT t.add(60000 + :r % 100000) FROM generate_series(1, :n);
\elif :op = 6
BEGIN;
SELECT t.add(70000 + :r % 100000);
ROLLBACK;
\elif :op <= 10
SELECT t.wrong(ARRAY(SELECT id FROM pepsi.workqueue ORDER BY random() LIMIT :n)) AS wrong \gset
\if :wrong
SELECT 1 / 0;
\endif
\elif :op <= 14
SELECT pepsi.workqueue_finish(ARRAY(SELECT id FROM pepsi.workqueue WHERE status = 'running' AND id % 17 <> 0 ORDER BY id LIMIT :n + 1 FOR UPDATE SKIP LOCKED), 'delivered');
\elif :op = 15
SELECT pepsi.workqueue_finish(ARRAY(SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED), 'delivered');
\elif :op = 16
SELECT pepsi.workqueue_split(id, '{0}', format('[{"stage":"s","indices":[0],"token":"s%s-%s"}]', id, :r)::jsonb) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
UPDATE pepsi.workqueue SET status = 'running' WHERE id = ANY (ARRAY(SELECT id FROM pepsi.workqueue WHERE status = 'pending' FOR UPDATE SKIP LOCKED));
\elif :op = 17
SELECT pepsi.workqueue_move(id, 's', 'running', 0, jsonb_build_object('md5', md5(t.octets(id + :r, 90000))), false, NULL, NULL, NULL, t.octets(id + :r, 90000)) FROM (SELECT id FROM pepsi.workqueue WHERE status = 'running' ORDER BY random() LIMIT 1) x;
\elif :op = 18
SELECT pepsi.workqueue_body_gc(50);
\else
SELECT pepsi.workqueue_body_rotate(300000 + :r % 500000, 200000, CASE WHEN :n > 2 THEN interval '0' ELSE interval '1 second' END);
\endif
END
run() {
	pgbench -n -c 8 -j 1 -T "$1" --max-tries=20 -f "$tmp/ops.sql" >"$tmp/bench.log" 2>&1
}
run "${PEPSI_BODIES_S:-5}"
grep -q "number of transactions actually processed" "$tmp/bench.log" || { cat "$tmp/bench.log"; exit 1; }
grep -i "wrong\|division\|error" "$tmp/bench.log" && bad=1
grep "transactions actually processed" "$tmp/bench.log"
check "after it" 0 "SELECT t.all_wrong()"
# some that nobody finishes, so that on the slowest machine there is something to lose
q "SELECT t.add(70000) FROM generate_series(1, 15)" >/dev/null
q "UPDATE pepsi.workqueue SET status = 'paused', timeout = now() + interval '1 day' WHERE id IN (SELECT id FROM pepsi.workqueue ORDER BY id DESC LIMIT 15)" >/dev/null
( sleep $(( ${PEPSI_BODIES_S:-5} / 3 + 1 )); "$PG_CTL" stop -m immediate ) & stop=$!
run $(( ${PEPSI_BODIES_S:-5} + 1 ))
grep -i "is wrong\|division" "$tmp/bench.log" && bad=1
wait $stop
"$PG_CTL" start || exit 1
check "after the crash" "0 true" "SELECT t.all_wrong() || ' ' || (SELECT count(*) > 10 FROM pepsi.workqueue_body WHERE part IS NOT NULL)"
check "the books" 0 "SELECT sum(accepted) - sum(delivered) - sum(bounced) - sum(discarded) - (SELECT count(*) FROM pepsi.workqueue) FROM pepsi.flow_stats"
q "DELETE FROM pepsi.workqueue; SELECT pepsi.workqueue_body_gc()" >/dev/null
check "no body is left at the end" 0 "SELECT count(*) FROM pepsi.workqueue_body"
q "SELECT pepsi.workqueue_body_rotate(1, 1, '0'); SELECT pepsi.workqueue_body_rotate(1, 1, '0')" >/dev/null
check "no space is left at the end" "" "SELECT t.used()"
exit $bad
