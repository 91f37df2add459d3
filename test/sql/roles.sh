#!/bin/sh
# roles: each role of the system against each kind of statement, as the requirements and db/README.md have it. Allowed statements
# must work, denied ones must fail with 42501 (permission denied) and nothing else.
set -u
"$PEPSI_MIGRATE" 2>/dev/null || exit 1
export PGDATABASE=pepsi
bad=0
n=0
psql -qX -v ON_ERROR_STOP=1 -c "SELECT pepsi.workqueue_inject('s', '', '{a@b}', 'h', 'b') FROM generate_series(1, 3); UPDATE pepsi.workqueue SET status = 'running'" >/dev/null || exit 1

# try ROLE yes|no STATEMENT: inside a transaction that is rolled back.
try() {
	n=$((n + 1))
	out=$(printf '\\set VERBOSITY sqlstate\nBEGIN;\n%s;\nROLLBACK;\n' "$3" | PGUSER=$1 psql -qXAt -v ON_ERROR_STOP=1 2>&1 >/dev/null)
	status=$?
	if [ "$2" = yes ] && [ $status != 0 ]; then
		echo "$1 should be allowed: $3: $out"; bad=1
	elif [ "$2" = no ] && ! echo "$out" | grep -q 42501; then
		echo "$1 should be denied: $3: ${out:-no error}"; bad=1
	fi
}

add="SELECT pepsi.workqueue_add(nextval('pepsi.workqueue_id_seq'), 'init', false, now(), '', '{a@b}', '{}', 'h', 'b')"
addmany="SELECT pepsi.workqueue_add('{77}'::bigint[], '{init}'::text[], '{f}'::boolean[], ARRAY[now()], '{x}'::text[], '{a}'::text[], '{1}'::int[], '{1}'::int[], '{\"{}\"}'::text[], '{h}'::bytea[], '{b}'::bytea[])"
while IFS='|' read -r statement allowed; do
	[ -n "$statement" ] || continue
	case $statement in add) statement=$add ;; addmany) statement=$addmany ;; esac
	for role in pepsi pepsi-ingress pepsi-httpd pepsi-config pepsi-crypto pepsi-telemetry; do
		case " $allowed " in
		*" ${role#pepsi-} "* | *" all "*) try "$role" yes "$statement" ;;
		*) try "$role" no "$statement" ;;
		esac
	done
done <<'END'
SELECT nextval('pepsi.workqueue_id_seq')|pepsi ingress crypto
SELECT setval('pepsi.workqueue_id_seq', 1)|
add|pepsi ingress crypto
addmany|pepsi ingress crypto
NOTIFY workqueue|all
SELECT * FROM pepsi.workqueue|pepsi crypto
SELECT headers FROM pepsi.workqueue|pepsi crypto
SELECT id, stage, status, timeout, received_at FROM pepsi.workqueue|pepsi httpd crypto
INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers) VALUES (1, 's', '', '{}', '')|pepsi crypto
UPDATE pepsi.workqueue SET stage = 'x'|pepsi crypto
DELETE FROM pepsi.workqueue|pepsi crypto
TRUNCATE pepsi.workqueue|
SELECT body FROM pepsi.workqueue_body|pepsi crypto
SELECT data FROM pepsi.workqueue_chunk_0|
INSERT INTO pepsi.workqueue_chunk_0 VALUES (1, 1, '')|
TRUNCATE pepsi.workqueue_chunk_7|
SELECT * FROM pepsi.workqueue_fill|
UPDATE pepsi.workqueue_fill SET part = 1|
SELECT pepsi.workqueue_body_piece(77, 70000, 0, convert_to(repeat('x', 70000), 'UTF8'))|pepsi ingress crypto
SELECT pepsi.workqueue_body_get(1)|pepsi crypto
SELECT pepsi.workqueue_body_rotate()|pepsi crypto
SELECT pepsi.workqueue_inject('s', '', '{a@b}', '', convert_to(repeat('x', 70000), 'UTF8'))|pepsi crypto
UPDATE pepsi.workqueue_body SET body = ''|
SELECT pepsi.workqueue_finish('{1}', 'delivered')|pepsi crypto
SELECT pepsi.workqueue_body_gc()|pepsi crypto
SELECT pepsi.workqueue_inject('s', '', '{a@b}', '', '')|pepsi crypto
SELECT pepsi.workqueue_blame(1, 'a', false, 3, '{}')|pepsi crypto
SELECT pepsi.flow_bounced(1)|pepsi crypto
SELECT * FROM pepsi.flow_stats|pepsi httpd telemetry
UPDATE pepsi.flow_stats SET accepted = 0|
DELETE FROM pepsi.flow_stats|
SELECT * FROM pepsi.stage_stats|pepsi httpd telemetry
INSERT INTO pepsi.stage_stats (stage) VALUES ('x')|pepsi
DELETE FROM pepsi.stage_stats|
UPDATE pepsi.dispatch_stats SET stages = 0|pepsi
DELETE FROM pepsi.dispatch_stats|
SELECT * FROM pepsi.config_override|pepsi httpd config crypto
INSERT INTO pepsi.config_override VALUES ('global', 'pepsi', 'HOSTNAME', 'x')|config
UPDATE pepsi.config_override SET value = 'x'|config
DELETE FROM pepsi.config_override|config
TRUNCATE pepsi.config_override|
SELECT * FROM pepsi.alias_map|pepsi config
INSERT INTO pepsi.alias_map VALUES ('a', '{b}')|config
SELECT * FROM pepsi.recipient|config
INSERT INTO pepsi.recipient (address) VALUES ('@a')|config
DELETE FROM pepsi.recipient|config
UPDATE pepsi.recipient SET created_at = now()|
SELECT * FROM pepsi.greylist|
SELECT pepsi.recipient_lookup('{a@b}', '{}')|pepsi ingress crypto
SELECT * FROM pepsi.submission|
SELECT pepsi.workqueue_add_once('t', nextval('pepsi.workqueue_id_seq'), 'init', false, now(), '', '{a@b}', '{}', 'h', 'b')|pepsi ingress crypto
SELECT pepsi.greylist_ask('{}', '{}', 1, 1, 1, 1)|pepsi ingress crypto
SELECT pepsi.greylist_sweep(1)|pepsi ingress crypto
SELECT pepsi.queue_rows()|pepsi ingress crypto
SELECT * FROM pepsi.mail_account|config
SELECT name FROM pepsi.mail_account|config
SELECT password, scram FROM pepsi.mail_account|config
INSERT INTO pepsi.mail_account (name) VALUES ('a')|config
INSERT INTO pepsi.mail_account (name, created_at) VALUES ('a', now())|
UPDATE pepsi.mail_account SET enabled = true|config
UPDATE pepsi.mail_account SET signed_in_at = now()|config
UPDATE pepsi.mail_account SET name = 'b'|
UPDATE pepsi.mail_account SET created_at = now()|
DELETE FROM pepsi.mail_account|config
TRUNCATE pepsi.mail_account|
SELECT * FROM pepsi.schema_version|pepsi httpd config
UPDATE pepsi.schema_version SET version = 2|
CREATE TABLE pepsi.mine (x int)|
CREATE FUNCTION pepsi.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'|
CREATE SCHEMA mine|
CREATE TEMPORARY TABLE mine (x int)|
ALTER TABLE pepsi.workqueue DISABLE TRIGGER ALL|
SET ROLE "pepsi-owner"|
SET ROLE postgres|
END
# "must be owner" has the same SQLSTATE as "permission denied", so ALTER is covered, too.
echo "$n statements"
[ "$n" -gt 200 ] || { echo "the table of statements was not read"; bad=1; }
exit $bad
