#!/bin/sh
# by-hand: `echo ID | pepsi worker STAGE` on a real table: a row moves, one that is not running is refused, modules that
# misbehave fail their own rows only, aliases come out of the database, and standard output holds status lines alone.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
bad=0
fail() { echo "FAIL: $*"; bad=1; }
sql() { psql -qXAt -v ON_ERROR_STOP=1 -c "$1"; }
cat >"$tmp/pepsi.conf" <<END
[pepsi]
HOSTNAME = mx.example.test
LOCAL_DOMAINS = example.test
MODULE_PATH = $MODULES:$BAD_STAGES
[pepsi-postgres]
CONFIG = host=$PGHOST port=$PGPORT dbname=pepsi
[stage-init]
PROGRAM = pepsi-stage-route
ROUTE_1 = example.test local
ROUTE_2 = other.test drop
NEXT_STAGE = aliases
[stage-aliases]
PROGRAM = pepsi-stage-aliases
MAP = database
NEXT_STAGE = local
[stage-local]
PROGRAM = pepsi-stage-relay-to-maildir
MAILDIR = $tmp/mail/\${domain}/\${local}
BOUNCE_STAGE = drop
[stage-drop]
PROGRAM = pepsi-stage-discard
[stage-printer]
PROGRAM = pepsi-stage-bad-stdout
DEPTH = 1
[stage-none]
PROGRAM = pepsi-stage-bad-none
DEPTH = 1
[stage-many]
PROGRAM = pepsi-stage-many
NEXT_STAGE = local
MAX_RUNTIME = 5 s
[stage-future]
PROGRAM = pepsi-stage-bad-major
DEPTH = 1
END
worker() { "$PEPSI" -c "$tmp/pepsi.conf" worker "$1" 2>"$tmp/err"; }
# inject STAGE RECIPIENTS BODY: prints the id of a running row
inject() { sql "WITH w AS (SELECT pepsi.workqueue_inject('$1', 's@example.test', '$2', 'Subject: x
'::bytea, '$3'::bytea) AS id) SELECT id FROM w" | { read -r id; sql "UPDATE pepsi.workqueue SET status = 'running', headers = E'Subject: x\\\\015\\\\012' WHERE id = $id"; echo "$id"; }; }
row() { sql "SELECT stage || ' ' || status || ' ' || array_to_string(rcpt_to, ',') FROM pepsi.workqueue WHERE id = $1"; }

# one row, and a split
a=$(inject init '{ann@example.test}' hello)
b=$(inject init '{ann@example.test,x@other.test,y@elsewhere.test}' hello)
got=$(printf '%s\n%s\n' "$a" "$b" | worker init) || { fail "worker init"; cat "$tmp/err"; }
[ "$got" = "0
0" ] || fail "init answered: $got"
[ "$(row "$a")" = 'local pending ann@example.test' ] || fail "row $a: $(row "$a")"
[ "$(row "$b")" = 'local pending ann@example.test' ] || fail "row $b: $(row "$b")"
[ "$(sql "SELECT string_agg(stage || ' ' || array_to_string(rcpt_to, ','), ';' ORDER BY stage) FROM pepsi.workqueue WHERE id NOT IN ($a, $b)")" = 'aliases y@elsewhere.test;drop x@other.test' ] || fail "siblings of $b"

# not claimed, not there, not a number, another stage's
got=$(printf '%s\n999999\nnonsense\n' "$a" | worker local) && fail "refusals must show in the exit status"
[ "$(echo "$got" | cut -c1-2 | tr -d '\n')" = '1 1 1 ' ] || fail "refusals: $got"
echo "$got" | grep -q "row $a is pending, not running" || fail "refusal of a pending row: $got"
sql "UPDATE pepsi.workqueue SET status = 'running' WHERE id = $a"
got=$(echo "$a" | worker drop)
echo "$got" | grep -q "row $a is at stage local, whose PROGRAM is pepsi-stage-relay-to-maildir, not pepsi-stage-discard" || fail "other program: $got"

# delivery
got=$(echo "$a" | worker local) || { fail "worker local"; cat "$tmp/err"; }
[ "$got" = 0 ] || fail "local answered: $got"
[ -z "$(row "$a")" ] || fail "row $a is still there"
[ "$(cat "$tmp"/mail/example.test/ann/new/* | tr -d '\r')" = "Return-Path: <s@example.test>
Delivered-To: ann@example.test
Subject: x

hello" ] || fail "the delivered file: $(cat "$tmp"/mail/example.test/ann/new/*)"

# aliases in the database
sql "INSERT INTO pepsi.alias_map VALUES ('team', '{ann,\"bob@elsewhere.test\"}'), ('team2@example.test', '{team}'), ('nobody', '{}')"
c=$(inject aliases '{team2@example.test,nobody@example.test,z@y.test}' hello)
d=$(inject aliases '{nobody@example.test}' hello)
got=$(printf '%s\n%s\n' "$c" "$d" | worker aliases) || { fail "worker aliases"; cat "$tmp/err"; }
[ "$(row "$c")" = 'local pending ann@example.test,bob@elsewhere.test,z@y.test' ] || fail "aliases: $(row "$c") $got"
[ -z "$(row "$d")" ] || fail "an alias of nobody: $(row "$d")"

# modules that misbehave
e=$(inject printer '{a@b.test}' x)
got=$(echo "$e" | worker printer)
[ "$got" = 0 ] || fail "a module wrote to the status channel: $got"
f=$(inject none '{a@b.test}' x)
got=$(echo "$f" | worker none)
[ "$got" = 0 ] || fail "none answered: $got"
sql "SELECT status, state ->> 'last_error', state ? 'failed_at' FROM pepsi.workqueue WHERE id = $f" |
	grep -q '^failed|pepsi-stage-bad-none broke the stage ABI: .*|t$' || fail "the failed row says nothing"
# many at once: answers carry the id, in the order in which messages end; ids out of a file; one that never ends is given up
a=$(inject many '{wait-700@b.test}' x)
b=$(inject many '{wait-10@b.test}' x)
c=$(inject many '{now@b.test}' x)
got=$(printf '%s\n%s\n%s\n' "$a" "$b" "$c" | worker many) || { fail "worker many"; cat "$tmp/err"; }
[ "$got" = "0 $c
0 $b
0 $a" ] || fail "many answered: $got"
[ "$(row "$a")" = 'local pending wait-700@b.test' ] || fail "row $a: $(row "$a")"
sql "UPDATE pepsi.workqueue SET status = 'running', stage = 'many' WHERE id IN ($a, $b)"
printf '%s\n%s\n999999\n' "$b" "$a" >"$tmp/ids"
got=$(worker many <"$tmp/ids") && fail "a row that is not there must show in the exit status"
echo "$got" | grep -q "^0 $b\$" && echo "$got" | grep -q "^0 $a\$" && echo "$got" | grep -q '^1 999999 {"error":"there is no row' || fail "ids out of a file: $got"
a=$(inject many '{forever@b.test}' x)
got=$(echo "$a" | worker many) && fail "it never ended, and yet all is well: $got"
grep -q 'event=overdue' "$tmp/err" || fail "overdue: $(cat "$tmp/err")"

echo "$f" | worker future && fail "a module of another major was loaded"
grep -q 'speaks stage ABI 2.0, this pepsi speaks 1.3' "$tmp/err" || fail "refusal of another major: $(cat "$tmp/err")"
exit $bad
