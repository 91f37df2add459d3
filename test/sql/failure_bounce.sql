-- pepsi.failure_bounce() and what it decides by, each sentence of pepsi-failure-bouncer(1) about messages an ASSERT. Run as
-- superuser; the sweeps are done as role pepsi.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

-- Addresses in networks, as core/config/networks.c has them.
DO $$
DECLARE t record;
BEGIN
    FOR t IN SELECT * FROM (VALUES
        ('127.0.0.1', '{127.0.0.0/8,::1}', true), ('::1', '{127.0.0.0/8,::1}', true), ('128.0.0.1', '{127.0.0.0/8,::1}', false),
        ('10.9.9.9', '{10.1.2.3/8}', true), ('11.9.9.9', '{10.1.2.3/8}', false), ('192.0.2.1', '{192.0.2.1}', true),
        ('192.0.2.2', '{192.0.2.1}', false), ('192.0.2.1', '{}', false), ('192.0.2.1', NULL, false), (NULL, '{0.0.0.0/0}', false),
        ('', '{0.0.0.0/0}', false), ('unknown', '{0.0.0.0/0,::/0}', false), ('192.0.2.1', '{0.0.0.0/0}', true),
        ('192.0.2.1', '{::/0}', true), ('2001:db8::1', '{0.0.0.0/0}', false), ('2001:db8::1', '{2001:db8::/32}', true),
        ('2001:db9::1', '{2001:db8::/32}', false), ('2001:db8::1', '{[2001:db8::1]}', true),
        ('::ffff:192.0.2.1', '{192.0.2.0/24}', true), ('::ffff:192.0.3.1', '{192.0.2.0/24}', false),
        ('192.0.2.1', '{::ffff:192.0.2.0/120}', true), ('192.0.3.1', '{::ffff:192.0.2.0/120}', false),
        ('fe80::1%eth0', '{fe80::/10}', true), ('fe80::1', '{fe80::1%eth0}', true), ('192.0.2.1', '{nonsense,192.0.2.1}', true),
        ('192.0.2.1/0', '{10.0.0.0/8}', false)) v(ip, nets, want) LOOP
        ASSERT pepsi.address_in(t.ip, t.nets::text[]) = t.want, format('%s in %s', t.ip, t.nets);
    END LOOP;
END $$;

-- Who is authenticated. 192.0.2.0/24 may relay.
DO $$
DECLARE
    t record;
    mx text := '"origin":{"listener":"mx","ip":"198.51.100.7"}';
BEGIN
    FOR t IN SELECT * FROM (VALUES
        -- made here: no listener, no client
        ('{}', 'a@b.example', true), ('{"origin":{"esmtp":true}}', 'a@b.example', true),
        -- a stranger
        (format('{%s}', mx), 'a@b.example', false),
        ('{"origin":{"listener":"mx"}}', 'a@b.example', false), ('{"origin":{"ip":"unknown"}}', 'a@b.example', false),
        ('{"origin":{"listener":"mx","ip":"unknown"}}', 'a@b.example', false),
        -- signed in, or from RELAY_NETWORKS
        ('{"origin":{"listener":"mx","ip":"198.51.100.7","account":"ann"}}', 'a@b.example', true),
        ('{"origin":{"listener":"mx","ip":"198.51.100.7","account":""}}', 'a@b.example', false),
        ('{"origin":{"listener":"mx","ip":"192.0.2.7"}}', 'a@b.example', true),
        ('{"origin":{"listener":"mx","ip":"192.0.3.7"}}', 'a@b.example', false),
        -- message authentication, for the sender's own domain or one above it
        (format('{%s,"auth":{"spf":{"result":"pass","domain":"b.example"}}}', mx), 'a@b.example', true),
        (format('{%s,"auth":{"spf":{"result":"pass","domain":"B.Example."}}}', mx), 'a@b.EXAMPLE', true),
        (format('{%s,"auth":{"spf":{"result":"pass","domain":"c.example"}}}', mx), 'a@b.example', false),
        (format('{%s,"auth":{"spf":{"result":"softfail","domain":"b.example"}}}', mx), 'a@b.example', false),
        (format('{%s,"auth":{"spf":{"result":"pass"}}}', mx), 'a@b.example', false),
        (format('{%s,"auth":{"spf":"pass"}}', mx), 'a@b.example', false),
        (format('{%s,"auth":{"dkim":[{"result":"fail","domain":"b.example"},{"result":"pass","domain":"example.org"}]}}', mx), 'a@mail.example.org', true),
        (format('{%s,"auth":{"dkim":[{"result":"pass","domain":"mail.example.org"}]}}', mx), 'a@example.org', false),
        (format('{%s,"auth":{"dkim":[{"result":"pass","domain":"ample.org"}]}}', mx), 'a@example.org', false),
        (format('{%s,"auth":{"dkim":[{"result":"pass","domain":"org"}]}}', mx), 'a@example.org', false),
        (format('{%s,"auth":{"dmarc":{"result":"pass","domain":"b.example"}}}', mx), 'a@b.example', true),
        -- the header's author proves nothing about another envelope sender
        (format('{%s,"auth":{"dmarc":{"result":"pass","domain":"evil.example"}}}', mx), 'victim@b.example', false),
        (format('{%s,"auth":{"arc":{"result":"pass","domain":"b.example"}}}', mx), 'a@b.example', false),
        (format('{%s,"auth":{"spf":{"result":"pass","domain":""}}}', mx), 'postmaster', false),
        (format('{%s,"auth":{"spf":{"result":"pass","domain":"b.example"}}}', mx), '"x@evil.example"@b.example', true),
        (format('{%s,"auth":{"spf":{"result":"pass","domain":"evil.example"}}}', mx), '"x@evil.example"@b.example', false),
        (format('{%s,"auth":{"spf":[1,"x",null,[]],"dkim":7,"dmarc":[{"result":{"pass":1},"domain":["b.example"]}]}}', mx), 'a@b.example', false),
        (format('{%s,"auth":"pass"}', mx), 'a@b.example', false)) v(state, sender, want) LOOP
        ASSERT pepsi.sender_authenticated(t.state::jsonb, t.sender, '{192.0.2.0/24}') = t.want, format('%s %s', t.sender, t.state);
    END LOOP;
END $$;

CREATE FUNCTION pg_temp.sweep(p_min_age_us bigint DEFAULT 3600000000, p_statuses text[] DEFAULT '{failed,timeout}',
    p_unauth boolean DEFAULT false, p_after bigint DEFAULT 0, p_limit integer DEFAULT 100) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(format('%s:%s', f.id, f.action), ' ' ORDER BY f.id), '')
    FROM pepsi.failure_bounce('bounce', p_statuses, p_min_age_us, p_unauth, '{192.0.2.0/24}', p_after, p_limit) f
$$;
-- A message that fails at p_stage, p_age ago.
CREATE FUNCTION pg_temp.stuck(p_id bigint, p_stage text DEFAULT 'out', p_status text DEFAULT 'failed', p_age interval DEFAULT '2 hours',
    p_from text DEFAULT 'ann@example.org', p_state jsonb DEFAULT '{"origin":{"listener":"mx","ip":"192.0.2.1"}}') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pepsi.workqueue_add(p_id, p_stage, true, now(), p_from, ARRAY['bob@example.net'], p_state, 'h', 'b');
    UPDATE pepsi.workqueue SET status = p_status::pepsi.workqueue_status WHERE id = p_id;
    ASSERT pepsi.time_or_null((SELECT state ->> 'failed_at' FROM pepsi.workqueue WHERE id = p_id)) > now() - interval '1 minute', 'the stamp';
    UPDATE pepsi.workqueue SET state = state || jsonb_build_object('failed_at',
        to_char((clock_timestamp() - p_age) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) WHERE id = p_id;
END $$;
CREATE FUNCTION pg_temp.books() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    ASSERT (SELECT sum(accepted) - sum(delivered) - sum(bounced) - sum(discarded) FROM pepsi.flow_stats) = (SELECT count(*) FROM pepsi.workqueue), 'books';
    ASSERT (SELECT count(*) FROM pepsi.workqueue_body) = (SELECT count(DISTINCT body_id) FROM pepsi.workqueue), 'bodies';
END $$;
SET ROLE pepsi;

-- Which are taken, which are left, and what becomes of them.
DO $$
DECLARE got text; w record;
BEGIN
    PERFORM pg_temp.stuck(1);                                                  -- failed two hours ago
    PERFORM pg_temp.stuck(2, p_status => 'timeout');
    PERFORM pg_temp.stuck(3, p_age => '59 minutes');                           -- an operator may still come
    PERFORM pg_temp.stuck(4, p_stage => 'Bounce');                             -- a report that failed where reports are made
    PERFORM pg_temp.stuck(5, p_state => '{"origin":{"listener":"mx","ip":"192.0.2.1"},"list":{"name":"talk"}}');
    PERFORM pg_temp.stuck(6, p_state => '{"origin":{"listener":"mx","ip":"198.51.100.1"}}');
    PERFORM pg_temp.stuck(7, p_from => '', p_state => '{"origin":{"listener":"mx","ip":"198.51.100.1"}}'); -- a report downstream
    PERFORM pg_temp.stuck(8, p_stage => 'bounce', p_state => '{"list":{}}');
    PERFORM pg_temp.stuck(9, p_from => '', p_state => '{"list":true}');
    PERFORM pepsi.workqueue_add(10, 'out', false, now(), 'x@y', '{a@b}', '{}', 'h', 'b');
    PERFORM pepsi.workqueue_add(11, 'out', true, now(), 'x@y', '{a@b}', '{}', 'h', 'b');
    PERFORM pepsi.workqueue_add(12, 'out', true, now(), 'x@y', '{a@b}', '{}', 'h', 'b');
    PERFORM pepsi.workqueue_pause(12, 0);
    got := pg_temp.sweep();
    ASSERT got = '1:moved 2:moved 5:deleted 6:dropped 7:moved 9:deleted', got;
    ASSERT (SELECT string_agg(format('%s %s %s', id, stage, status), ', ' ORDER BY id) FROM pepsi.workqueue)
        = '1 bounce pending, 2 bounce pending, 3 out failed, 4 Bounce failed, 7 bounce pending, 8 bounce failed, 10 out pending, 11 out running, 12 out paused';
    SELECT * INTO w FROM pepsi.workqueue WHERE id = 1;
    ASSERT w.state = '{"origin":{"listener":"mx","ip":"192.0.2.1"},"failed_stage":"out"}' AND w.timeout IS NULL AND w.mail_from = 'ann@example.org', w.state;
    ASSERT (SELECT state ? 'failed_at' AND NOT state ? 'failed_stage' FROM pepsi.workqueue WHERE id = 4), 'left as it was';
    ASSERT pg_temp.sweep() = '', 'nothing twice';
    -- at once, what is left
    ASSERT pg_temp.sweep(0) = '3:moved';
    PERFORM pepsi.workqueue_delete(ARRAY(SELECT id FROM pepsi.workqueue));
    DELETE FROM pepsi.workqueue;
    PERFORM pg_temp.books();
END $$;

-- One of the two kinds only; senders nobody vouched for; batches.
DO $$
DECLARE got text;
BEGIN
    PERFORM pg_temp.stuck(i, p_status => CASE WHEN i % 2 = 0 THEN 'timeout' ELSE 'failed' END,
        p_state => '{"origin":{"listener":"mx","ip":"198.51.100.1"}}') FROM generate_series(1, 6) i;
    got := pg_temp.sweep(p_statuses => '{timeout}', p_unauth => true, p_limit => 1);
    ASSERT got = '2:moved', got;
    ASSERT (SELECT waiting = 2 AND next_us BETWEEN -3601000000 AND -3599000000 FROM pepsi.failure_wait('bounce', '{timeout}', 3600000000));
    got := pg_temp.sweep(p_statuses => '{timeout}', p_unauth => true, p_after => 4);
    ASSERT got = '6:moved', got;
    ASSERT (SELECT waiting = 3 FROM pepsi.failure_wait('bounce', '{failed}', 3600000000));
    got := pg_temp.sweep(p_statuses => '{failed}', p_limit => 2);
    ASSERT got = '1:dropped 3:dropped', got;
    got := pg_temp.sweep();
    ASSERT got = '4:dropped 5:dropped', got;
    ASSERT (SELECT waiting = 0 AND next_us IS NULL FROM pepsi.failure_wait('bounce', '{failed,timeout}', 3600000000)), 'those at the bounce stage do not count';
    ASSERT pg_temp.sweep(p_statuses => '{}') = '';
    DELETE FROM pepsi.workqueue;
    PERFORM pg_temp.books();
END $$;

-- The record: what ended it is what the report names, and retries and crashes are counted anew at the bounce stage.
DO $$
DECLARE r record; s jsonb;
BEGIN
    PERFORM pepsi.workqueue_add(1, 'out', true, now(), 'ann@example.org', '{a@b}',
        '{"last_error":"450 come back","attempts":3,"delay_sent":true,"dsn":{"envid":"e"},"dispatch_error":{"crashes":2}}', 'h', 'b');
    ASSERT pepsi.workqueue_blame(1, 'out', false, 3, '{"what":"killed by signal 11"}');
    ASSERT pepsi.last_error((SELECT state FROM pepsi.workqueue)) = 'worker crash at stage out: killed by signal 11', 'not the older reason';
    SELECT * INTO r FROM pepsi.failure_bounce('bounce', '{failed}', 0, false, '{}', 0, 10);
    ASSERT r.error = 'worker crash at stage out: killed by signal 11' AND r.stage = 'out' AND r.status = 'failed' AND r.mail_from = 'ann@example.org' AND r.failed_at > '2026', r;
    SELECT state INTO s FROM pepsi.workqueue;
    ASSERT s = '{"failed_stage":"out","last_error":"worker crash at stage out: killed by signal 11","dsn":{"envid":"e"}}', s;
    UPDATE pepsi.workqueue SET status = 'running';
    ASSERT NOT pepsi.workqueue_blame(1, 'bounce', false, 3, NULL), 'the crashes of another stage count against this one';
    -- and back into circulation by hand: it has not failed any more
    ASSERT pepsi.workqueue_set_stage('{1}', 'out') = 1;
    ASSERT NOT (SELECT state ? 'failed_stage' FROM pepsi.workqueue);
    DELETE FROM pepsi.workqueue;
    -- a failure of which nothing was recorded
    PERFORM pg_temp.stuck(2, p_state => '{}');
    SELECT * INTO r FROM pepsi.failure_bounce('bounce', '{failed}', 0, false, '{}', 0, 10);
    ASSERT r.error IS NULL AND (SELECT state = '{"failed_stage":"out"}' FROM pepsi.workqueue), r;
    DELETE FROM pepsi.workqueue;
END $$;

-- The time of failure: lost, garbage, or in the future: the wait begins now, and is not over at once nor never.
DO $$
DECLARE v text;
BEGIN
    FOREACH v IN ARRAY ARRAY['null', '17', '"yesterday"', '"2026-13-45T99:00:00Z"', '"2999-01-01T00:00:00.000000Z"', '{}', '"-infinity"'] LOOP
        PERFORM pg_temp.stuck(1);
        UPDATE pepsi.workqueue SET state = state || jsonb_build_object('failed_at', v::jsonb);
        ASSERT pg_temp.sweep() = '', v;
        ASSERT (SELECT waiting = 1 AND next_us BETWEEN 3590000000 AND 3600000000 FROM pepsi.failure_wait('bounce', '{failed}', 3600000000)), v;
        ASSERT (SELECT status = 'failed' AND pepsi.time_or_null(state ->> 'failed_at') BETWEEN now() - interval '1 second' AND clock_timestamp()
            FROM pepsi.workqueue), v;
        PERFORM pg_sleep(0.001);
        ASSERT pg_temp.sweep(0) = '1:moved', v;
        DELETE FROM pepsi.workqueue;
    END LOOP;
END $$;
RESET ROLE;

-- It notifies the dispatcher when a message became pending, and only then.
LISTEN workqueue;
SET ROLE pepsi;
\o
\echo -- dropped
SELECT pg_temp.stuck(1, p_state => '{"origin":{"listener":"mx","ip":"198.51.100.1"}}') \g /dev/null
SELECT pg_temp.sweep();
\echo -- moved
SELECT pg_temp.stuck(2) \g /dev/null
SELECT pg_temp.sweep();
\echo -- end
