-- The stored functions and triggers as seen from SQL, each fact an ASSERT. Run as superuser; what must work for role pepsi is
-- done as that role.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.flow(OUT a bigint, OUT r bigint, OUT d bigint, OUT b bigint, OUT x bigint, OUT n bigint) LANGUAGE sql AS
    'SELECT sum(accepted), sum(received), sum(delivered), sum(bounced), sum(discarded), (SELECT count(*) FROM pepsi.workqueue) FROM pepsi.flow_stats';
CREATE FUNCTION pg_temp.books() RETURNS void LANGUAGE plpgsql AS $$
DECLARE f record;
BEGIN
    SELECT * INTO f FROM pg_temp.flow();
    ASSERT f.a = f.d + f.b + f.x + f.n, format('books: %s', f);
    ASSERT NOT EXISTS (SELECT FROM pepsi.workqueue_body b WHERE NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.body_id = b.id)), 'body without a row';
    ASSERT NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE NOT EXISTS (SELECT FROM pepsi.workqueue_body b WHERE w.body_id = b.id)), 'row without a body';
END $$;
CREATE FUNCTION pg_temp.fails(p text, p_state text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE p;
    EXCEPTION WHEN others THEN
        ASSERT SQLSTATE = p_state, format('%s: %s %s instead of %s', p, SQLSTATE, SQLERRM, p_state);
        RETURN;
    END;
    RAISE EXCEPTION 'no error: %', p;
END $$;

-- sender_key: account, else address, IPv6 by /64; never an error.
DO $$
DECLARE t record; k text;
BEGIN
    FOR t IN SELECT * FROM (VALUES
        ('{}', ''), ('{"origin":{}}', ''), ('{"origin":null}', ''), ('{"origin":[1]}', ''), ('{"origin":"x"}', ''),
        ('{"origin":{"ip":"192.0.2.1"}}', '192.0.2.1'),
        ('{"origin":{"ip":"192.0.2.1","account":"ann"}}', 'ann'),
        ('{"origin":{"ip":"192.0.2.1","account":""}}', '192.0.2.1'),
        ('{"origin":{"ip":"2001:db8:1:2:3:4:5:6"}}', '2001:db8:1:2::/64'),
        ('{"origin":{"ip":"2001:DB8:1:2::9"}}', '2001:db8:1:2::/64'),
        ('{"origin":{"ip":"::1"}}', '::/64'),
        ('{"origin":{"ip":"::ffff:192.0.2.9"}}', '192.0.2.9'),
        ('{"origin":{"ip":"fe80::1%eth0"}}', 'fe80::1%eth0'),
        ('{"origin":{"ip":":::::"}}', ':::::'),
        ('{"origin":{"ip":"1.2.3.4:25"}}', '1.2.3.4:25'),
        ('{"origin":{"ip":"garbage"}}', 'garbage'),
        ('{"origin":{"ip":{"a":1}}}', NULL), ('{"origin":{"ip":17,"account":{"x":[]}}}', NULL)) v(state, want) LOOP
        INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers, state) VALUES (-1, 's', '', '{}', '', t.state::jsonb)
        RETURNING sender_key INTO k;
        ASSERT k = coalesce(t.want, k) AND k IS NOT NULL, format('%s: %s', t.state, k);
    END LOOP;
    FOR i IN 1..300 LOOP
        INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers, state) VALUES (-1, 's', '', '{}', '',
            jsonb_build_object('origin', jsonb_build_object('ip', (SELECT string_agg(substr(':.%/0123456789abcdefG', 1 + (random() * 20)::int, 1), '')
                FROM generate_series(1, 1 + (random() * 60)::int) WHERE i > 0), 'account', CASE WHEN i % 10 = 0 THEN repeat('x', i * 10) END)));
    END LOOP;
    ASSERT (SELECT max(length(sender_key)) FROM pepsi.workqueue) <= 320;
    DELETE FROM pepsi.workqueue;
END $$;

-- What the table refuses, whoever writes.
SELECT pg_temp.fails('INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers, state) VALUES (1, ''s'', '''', ''{}'', '''', ''[]'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.workqueue (body_id, stage, mail_from, rcpt_to, headers) VALUES (1, '''', '''', ''{}'', '''')', '23514');
SELECT pg_temp.fails('TRUNCATE pepsi.workqueue', '0A000');
SELECT pg_temp.fails('INSERT INTO pepsi.config_override VALUES (''global'', ''Listener-mx'', ''BIND'', ''*'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.config_override VALUES (''global'', ''PEPSI-postgres'', ''CONFIG'', ''x'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.config_override VALUES (''domain:'', ''pepsi'', ''X'', ''x'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.config_override VALUES (''everything'', ''pepsi'', ''X'', ''x'')', '23514');

-- Plain SQL keeps the books, too: any number of rows per statement, none, and in a transaction that is given up.
DO $$
DECLARE f record; g record;
BEGIN
    SELECT * INTO f FROM pg_temp.flow();
    INSERT INTO pepsi.workqueue_body SELECT -i, '' FROM generate_series(1, 10) i;
    INSERT INTO pepsi.workqueue (id, body_id, stage, mail_from, rcpt_to, headers) SELECT -i, -i, 's', '', '{}', '' FROM generate_series(1, 10) i;
    DELETE FROM pepsi.workqueue WHERE id = 12345678;
    DELETE FROM pepsi.workqueue WHERE id > -4;
    PERFORM pg_temp.books();
    SELECT * INTO g FROM pg_temp.flow();
    ASSERT g.a = f.a + 10 AND g.x = f.x + 3 AND g.n = f.n + 7 AND g.r = f.r;
    BEGIN
        DELETE FROM pepsi.workqueue;
        RAISE EXCEPTION 'no';
    EXCEPTION WHEN raise_exception THEN
    END;
    PERFORM pg_temp.books();
    ASSERT (SELECT count(*) FROM pepsi.workqueue) = 7 AND (SELECT count(*) FROM pepsi.workqueue_body) = 7;
    DELETE FROM pepsi.workqueue;
    PERFORM pg_temp.books();
END $$;

-- The outcome of one delete does not stick to the next one of the transaction.
SET ROLE pepsi;
DO $$
DECLARE f record; g record;
BEGIN
    SELECT sum(delivered) d, sum(discarded) x INTO f FROM pepsi.flow_stats;
    PERFORM pepsi.workqueue_inject('s', '', '{a@b}', '', '') FROM generate_series(1, 2);
    UPDATE pepsi.workqueue SET status = 'running';
    PERFORM pepsi.workqueue_finish(ARRAY(SELECT min(id) FROM pepsi.workqueue), 'delivered');
    DELETE FROM pepsi.workqueue;
    SELECT sum(delivered) d, sum(discarded) x INTO g FROM pepsi.flow_stats;
    ASSERT g.d = f.d + 1 AND g.x = f.x + 1;
END $$;
RESET ROLE;
SELECT pg_temp.books();
SET ROLE pepsi;

-- inject, resume.
DO $$
DECLARE i bigint; j bigint;
BEGIN
    i := pepsi.workqueue_inject('s', 'x@y', '{a@b}', 'h', 'b', '{"k":1}');
    ASSERT (SELECT status = 'pending' AND body_id = id AND state = '{"k":1}' FROM pepsi.workqueue WHERE id = i);
    ASSERT pepsi.workqueue_inject('s', '', '{a@b}', '', '', '{}', i) IS NULL, 'parent is not running';
    UPDATE pepsi.workqueue SET status = 'running' WHERE id = i;
    j := pepsi.workqueue_inject('s', '', '{a@b}', '', '', '{}', i);
    ASSERT j > i;
    ASSERT pepsi.workqueue_pause(i, 100) = 0;
    ASSERT pepsi.workqueue_pause(i, 100) IS NULL, 'not running any more';
    ASSERT pepsi.workqueue_resume(i, '{"k":null,"answer":2}');
    ASSERT NOT pepsi.workqueue_resume(i);
    ASSERT (SELECT status = 'pending' AND timeout IS NULL AND state = '{"answer":2}' FROM pepsi.workqueue WHERE id = i);
    DELETE FROM pepsi.workqueue;
END $$;
RESET ROLE;
SELECT pg_temp.fails('SELECT pepsi.workqueue_inject(''s'', '''', ''{}'', '''', '''')', '22023');
SELECT pg_temp.fails('SELECT pepsi.workqueue_finish(''{1}'', ''lost'')', '22023');
SELECT pg_temp.fails('SELECT pepsi.workqueue_pause(1, 1, NULL, ''{}'')', '22023');

-- Pure helpers.
DO $$
BEGIN
    ASSERT pepsi.state_merge('{"a":1,"b":{"c":2}}', '{"b":{"d":3},"a":null,"e":null}') = '{"b":{"d":3}}';
    ASSERT pepsi.state_merge('{"a":1}', NULL) = '{"a":1}';
    ASSERT pepsi.rcpt_subset('{a,b,c}', '{2,0,2}') = '{c,a,c}' AND pepsi.rcpt_subset('{a}', '{}') = '{}';
    ASSERT pepsi.state_subset('{"dsn":{"rcpt":[{"n":0}]}}', '{1,0}') = '{"dsn":{"rcpt":[{},{"n":0}]}}', 'shorter than rcpt_to';
    ASSERT pepsi.state_subset('{"dsn":"odd"}', '{0}') = '{"dsn":"odd"}';
    ASSERT pepsi.last_error('{"dispatch_error":{"kind":"crash","stage":"s"}}') = 'worker crash at stage s';
    ASSERT pepsi.last_error('{}') IS NULL;
END $$;
SELECT pg_temp.fails('SELECT pepsi.rcpt_subset(''{a}'', ''{1}'')', '2202E');
SELECT pg_temp.fails('SELECT pepsi.rcpt_subset(''{a}'', ''{-1}'')', '2202E');

-- Rewrites and shared bodies: whoever drops the last reference frees the body, in every order.
DO $$
DECLARE i bigint; o text; ids bigint[];
BEGIN
    FOREACH o IN ARRAY ARRAY['parent first', 'clone first', 'both at once', 'rewrite both'] LOOP
        i := pepsi.workqueue_inject('s', '', '{a@b,c@d}', '', 'shared');
        UPDATE pepsi.workqueue SET status = 'running' WHERE id = i;
        ASSERT pepsi.workqueue_split(i, '{0}', '[{"stage":"s","indices":[1],"token":"x"}]') = 1;
        ASSERT (SELECT count(*) FROM pepsi.workqueue_body) = 1;
        ids := ARRAY(SELECT id FROM pepsi.workqueue ORDER BY id);
        IF o = 'both at once' THEN
            DELETE FROM pepsi.workqueue;
        ELSIF o = 'rewrite both' THEN
            UPDATE pepsi.workqueue SET status = 'running';
            ASSERT pepsi.workqueue_move(ids[1], 't', 'pending', 0, NULL, false, NULL, NULL, NULL, 'one');
            ASSERT (SELECT count(*) FROM pepsi.workqueue_body) = 2;
            ASSERT pepsi.workqueue_move(ids[2], 't', 'pending', 0, NULL, false, NULL, NULL, NULL, 'two');
            ASSERT (SELECT string_agg(convert_from(body, 'UTF8'), ',' ORDER BY id) FROM pepsi.workqueue_body) = 'one,two';
            ASSERT NOT pepsi.workqueue_move(ids[2], 't', 'pending', 0, NULL, false, NULL, NULL, NULL, 'not running');
            PERFORM pg_temp.books();
            DELETE FROM pepsi.workqueue;
        ELSE
            DELETE FROM pepsi.workqueue WHERE id = ids[CASE o WHEN 'parent first' THEN 1 ELSE 2 END];
            ASSERT (SELECT count(*) FROM pepsi.workqueue_body) = 1;
            PERFORM pg_temp.books();
            DELETE FROM pepsi.workqueue;
        END IF;
        ASSERT (SELECT count(*) FROM pepsi.workqueue_body) = 0, o;
        PERFORM pg_temp.books();
    END LOOP;
END $$;

-- Aliases: order, the alias that goes nowhere, and what the table refuses.
INSERT INTO pepsi.alias_map VALUES ('b@x', '{two@x,one@x}'), ('nobody', '{}'), ('@y', '{"q\"uo,te@x"}');
DO $$
BEGIN
    ASSERT (SELECT string_agg(name || '=' || coalesce(target, '-'), ' ') FROM pepsi.alias_lookup('{nobody,b@x,absent@x,@y}'))
        = '@y=q"uo,te@x b@x=two@x b@x=one@x nobody=-';
    ASSERT NOT EXISTS (SELECT FROM pepsi.alias_lookup('{}'));
END $$;
SELECT pg_temp.fails('INSERT INTO pepsi.alias_map VALUES (''Upper@x'', ''{}'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.alias_map VALUES (''u@x'', ''{NULL}'')', '23514');

-- No index is entered on the straight way; the plans of the hot statements use the indices they are meant to.
SET enable_seqscan = off;
DO $$
DECLARE line text; plan text;
BEGIN
    FOR line IN EXPLAIN SELECT id FROM pepsi.workqueue WHERE stage = 's' AND status = 'pending' ORDER BY id LIMIT 5 LOOP
        plan := concat(plan, line);
    END LOOP;
    ASSERT plan LIKE '%workqueue_pending%', plan;
    plan := '';
    FOR line IN EXPLAIN SELECT id FROM pepsi.workqueue WHERE status = 'paused' AND timeout <= now() ORDER BY timeout LIMIT 5 LOOP
        plan := concat(plan, line);
    END LOOP;
    ASSERT plan LIKE '%workqueue_paused%', plan;
END $$;

-- ---- accounts: no name is one that a user of this machine has in origin.account
INSERT INTO pepsi.mail_account (name) VALUES ('uid'), ('uid.1000'), ('auid:1000');
SELECT pg_temp.fails('INSERT INTO pepsi.mail_account (name) VALUES (''uid:1000'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.mail_account (name) VALUES (''UID:x'')', '23514');
SELECT pg_temp.fails('UPDATE pepsi.mail_account SET name = ''uid:'' WHERE name = ''uid''', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.mail_account_use VALUES (''uid:1000'', now(), now(), 0, 0, 0, 0, now())', '23514');
DELETE FROM pepsi.mail_account;

-- ---- recipients
INSERT INTO pepsi.recipient (address) VALUES ('alice@x'), ('@open.x');
DO $$ BEGIN
    ASSERT (SELECT string_agg(name || CASE WHEN alias THEN '+' ELSE '' END, ' ' ORDER BY name) FROM
        pepsi.recipient_lookup('{alice@x,bob@x,@open.x,@x}', '{b@x,alice@x,bob}')) = '@open.x alice@x b@x+';
    ASSERT NOT EXISTS (SELECT FROM pepsi.recipient_lookup('{}', '{}'));
    ASSERT pepsi.queue_rows() = (SELECT count(*) FROM pepsi.workqueue);
END $$;
SELECT pg_temp.fails('INSERT INTO pepsi.recipient (address) VALUES (''Upper@x'')', '23514');
SELECT pg_temp.fails('INSERT INTO pepsi.recipient (address) VALUES (''nobody'')', '23514');

-- ---- greylist: keys of 16 octets; the clock is moved by moving the rows
CREATE FUNCTION pg_temp.k(c text) RETURNS bytea LANGUAGE sql AS $$ SELECT decode(repeat(c, 16), 'hex') $$;
CREATE FUNCTION pg_temp.ask(VARIADIC c text[]) RETURNS integer[] LANGUAGE sql AS $$
    SELECT pepsi.greylist_ask(ARRAY(SELECT pg_temp.k(u) FROM unnest(c) u), ARRAY(SELECT pg_temp.k('ff') FROM unnest(c)), 300, 3600, 86400, 2) $$;
CREATE FUNCTION pg_temp.later(s integer) RETURNS void LANGUAGE sql AS $$
    UPDATE pepsi.greylist SET first_at = first_at - s * interval '1 second', expires_at = expires_at - s * interval '1 second' $$;
DO $$ BEGIN
    ASSERT pepsi.greylist_ask('{}', '{}', 300, 3600, 86400, 2) = '{}';
    ASSERT pg_temp.ask('02', '01') = '{300,300}';
    PERFORM pg_temp.later(100);
    ASSERT (pg_temp.ask('01'))[1] BETWEEN 150 AND 200, 'from the first time on';
    PERFORM pg_temp.later(201);
    ASSERT pg_temp.ask('03', '01') = '{300,0}', 'in the order asked';
    ASSERT pg_temp.ask('01') = '{0}';
    ASSERT (SELECT passes FROM pepsi.greylist WHERE key = pg_temp.k('ff')) = 1, 'a triplet counts once for its network';
    PERFORM pg_temp.later(3600);
    ASSERT pg_temp.ask('02') = '{300}', 'too late: it begins anew';
    ASSERT pg_temp.ask('01') = '{0}', 'what passed lives longer';
    PERFORM pg_temp.later(301);
    ASSERT pg_temp.ask('02', '04') = '{0,0}', 'the second one proves the network, for whoever comes behind it';
    ASSERT pg_temp.ask('05') = '{0}';
    PERFORM pg_temp.later(90000); -- not just 86401: sweep looks at the beginning of this transaction
    ASSERT pg_temp.ask('05') = '{300}', 'the network is forgotten';
    ASSERT pepsi.greylist_sweep(1) = 1;
    ASSERT pepsi.greylist_sweep(100) >= 2;
    ASSERT (SELECT count(*) FROM pepsi.greylist) = 1;
    INSERT INTO pepsi.greylist (key, first_at, passes, expires_at)
        SELECT decode(lpad(to_hex(i), 32, '0'), 'hex'), now(), i % 2, now() + i * interval '1 minute' FROM generate_series(4096, 4395) i;
END $$;
ANALYZE pepsi.greylist;
DO $$ BEGIN
    ASSERT pepsi.greylist_sweep(10) = 0, 'no more than ten times a hundred: all stay';
    ASSERT pepsi.greylist_sweep(2) = 2, 'more than a hundred times two';
    ASSERT (SELECT count(*) FROM pepsi.greylist WHERE passes = 0) = 149, 'of those that wait';
    ASSERT (SELECT count(*) FROM pepsi.greylist WHERE passes > 0) = 150, 'what has passed stays';
    DELETE FROM pepsi.greylist WHERE key < decode(lpad('ffff', 32, '0'), 'hex');
END $$;

-- What else waits for a destination is put off with the row given back, and what is not to wait is not.
DO $$
DECLARE
    n integer;
    t record;
BEGIN
    DELETE FROM pepsi.workqueue;
    INSERT INTO pepsi.workqueue_body VALUES (-1, '');
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, received_at, mail_from, rcpt_to, headers, state) VALUES
        (-1, -1, 's', 'pending', NULL, now(), 'a@b', '{x@dead.test}', '', '{"k":1}'),                           -- put off
        (-2, -1, 's', 'pending', NULL, now(), 'a@b', '{x@DEAD.test,"\"q@q\"@dead.Test"}', '', '{}'),             -- put off: one domain
        (-3, -1, 's', 'pending', NULL, now(), 'a@b', '{x@dead.test,y@other.test}', '', '{}'),                   -- two
        (-4, -1, 's', 'pending', NULL, now(), 'a@b', '{x@alive.test}', '', '{}'),
        (-5, -1, 't', 'pending', NULL, now(), 'a@b', '{x@dead.test}', '', '{}'),                                -- elsewhere
        (-6, -1, 's', 'running', NULL, now(), 'a@b', '{x@dead.test}', '', '{}'),                                -- a worker has it
        (-7, -1, 's', 'paused', now() + interval '1 day', now(), 'a@b', '{x@dead.test}', '', '{}'),
        (-8, -1, 's', 'pending', NULL, now(), 'a@b', '{x@dead.test}', '', '{"deliver_by":{"at":9,"mode":"R"}}'), -- has a deadline
        (-9, -1, 's', 'pending', NULL, now() - interval '6 days', 'a@b', '{x@dead.test}', '', '{}'),            -- its time is over
        (-10, -1, 's', 'pending', NULL, now() - interval '5 days' + interval '20 s', 'a@b', '{x@dead.test}', '', '{}'), -- nearly
        (-11, -1, 's', 'failed', NULL, now(), 'a@b', '{x@dead.test}', '', '{}'),
        (-12, -1, 's', 'pending', NULL, now(), 'a@b', '{dead.test}', '', '{}'),                                 -- no domain, but the same text
        (-13, -1, 's', 'pending', NULL, now(), 'held@b', '{x@dead.test}', '', '{}'),                            -- a rule wants it held
        (-14, -1, 's', 'pending', NULL, now(), 'a@b', ARRAY['x@' || repeat('long.', 2000)], '', '{}');          -- no key that refuses a row
    ASSERT pepsi.workqueue_retry('{-11}') = 1;
    PERFORM pepsi.queue_rule_add('{"action":"hold","sender":"held@b","made_by":"uid:0"}');
    n := pepsi.workqueue_put_off('{s,s}', '{dead.Test,nobody.test}', '{60,60}', '{1000,1000}', '{"dead.test: \"not\" now",-}', '{432000,432000}', 3600, 1000);
    ASSERT n = 4, n;
    FOR t IN SELECT * FROM pepsi.workqueue WHERE id >= -14 LOOP
        ASSERT (t.status = 'paused') = (t.id IN (-1, -2, -7, -10, -12)), format('%s %s', t.id, t.status);
        CONTINUE WHEN t.id NOT IN (-1, -2, -10, -12);
        ASSERT t.state ->> 'last_error' = 'dead.test: "not" now', t.state;
        ASSERT t.timeout BETWEEN now() + interval '20 s' AND now() + interval '64 s', t.timeout - now();
    END LOOP;
    ASSERT (SELECT timeout FROM pepsi.workqueue WHERE id = -10) = now() + interval '21 s', 'for one attempt more, at its end';
    ASSERT (SELECT (state ->> 'k')::integer FROM pepsi.workqueue WHERE id = -1) = 1;
    ASSERT (SELECT timeout FROM pepsi.workqueue WHERE id = -11) = '-infinity' AND (SELECT status FROM pepsi.workqueue WHERE id = -11) = 'pending', 'an operator wants it tried';
    UPDATE pepsi.workqueue SET status = 'running' WHERE id = -11;
    ASSERT pepsi.workqueue_pause(-11, 7) = 0;
    ASSERT (SELECT timeout FROM pepsi.workqueue WHERE id = -11) = now() + interval '7 s', 'and was';
    ASSERT pepsi.workqueue_put_off('{}', '{}', '{}', '{}', '{}', '{}', 3600, 1000) = 0;
    DELETE FROM pepsi.queue_rule;
    DELETE FROM pepsi.workqueue;
    -- many: the oldest first, at the pace, no further than an hour, and so many at once
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers)
        SELECT -i, -1, 's', 'pending', 'a@b', '{x@dead.test}', '' FROM generate_series(1, 3000) i;
    ASSERT pepsi.workqueue_put_off('{s}', '{dead.test}', '{100}', '{2000}', '{x}', '{432000}', 3600, 2500) = 2500;
    FOR t IN SELECT id, timeout, row_number() OVER (ORDER BY id) AS k FROM pepsi.workqueue WHERE status = 'paused' ORDER BY id LOOP
        IF t.k <= 1750 THEN
            ASSERT t.id = t.k - 3001 AND t.timeout BETWEEN now() + (98 + 2 * t.k) * interval '1 s' AND now() + (100 + 2 * t.k) * interval '1 s', t;
        ELSE
            ASSERT t.timeout BETWEEN now() + interval '1850 s' AND now() + interval '1 h', t;
        END IF;
    END LOOP;
    ASSERT pepsi.workqueue_put_off('{s}', '{dead.test}', '{100}', '{2000}', '{x}', '{432000}', 3600, 2500) = 500;
    ASSERT pepsi.workqueue_put_off('{s}', '{dead.test}', '{5000}', '{1}', '{x}', '{432000}', 3600, 2500) = 0;
    DELETE FROM pepsi.workqueue;
    -- not what is due and was left behind, is due later, waits for nobody's time, is held or has a deadline; nor what was put off the last time, too
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, mail_from, rcpt_to, headers, state) VALUES
        (-20, -1, 's', 'paused', now() - interval '11 s', 'a@b', '{x@Dead.test}', '', '{"hold":{"until":9}}'),
        (-19, -1, 's', 'pending', NULL, 'a@b', '{x@dead.test}', '', '{}'),
        (-18, -1, 's', 'paused', now() - interval '12 s', 'a@b', '{x@dead.test}', '', '{}'),
        (-17, -1, 's', 'paused', now() + interval '2 s', 'a@b', '{x@dead.test}', '', '{}'),
        (-16, -1, 's', 'paused', NULL, 'a@b', '{x@dead.test}', '', '{}'),
        (-15, -1, 's', 'paused', now() - interval '12 s', 'a@b', '{x@dead.test}', '', '{"held":{"rule":0}}'),
        (-14, -1, 's', 'paused', NULL, 'a@b', '{x@dead.test}', '', '{"held":{"rule":0}}'),
        (-13, -1, 's', 'paused', now() - interval '12 s', 'a@b', '{x@dead.test}', '', '{"deliver_by":{"at":9,"mode":"R"}}'),
        (-12, -1, 's', 'pending', '-infinity', 'a@b', '{x@dead.test}', '', '{}'),
        (-11, -1, 't', 'paused', now() - interval '12 s', 'a@b', '{x@dead.test}', '', '{}'),
        (-10, -1, 's', 'pending', NULL, 'a@b', '{x@dead.test}', '', '{"put_off":"2026-12-01T00:00:00.000Z"}');
    ASSERT pepsi.workqueue_put_off('{s}', '{dead.test}', '{100}', '{2000}', '{why}', '{432000}', 3600, 100) = 1;
    ASSERT (SELECT array_agg(id ORDER BY timeout) FROM pepsi.workqueue WHERE state ->> 'last_error' = 'why') = '{-19}';
    ASSERT (SELECT timeout BETWEEN now() + interval '99 s' AND now() + interval '103 s' AND state ->> 'put_off' = pepsi.iso(timeout) FROM pepsi.workqueue WHERE id = -19);
    -- what was put off is known when it is due, what a worker paused since then is not
    DELETE FROM pepsi.workqueue WHERE id <> -19;
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, mail_from, rcpt_to, headers, state) VALUES
        (-9, -1, 's', 'paused', now() - interval '8 s', 'a@b', '{x@dead.test}', '', '{"put_off":"2026-12-01T00:00:00.000Z"}');
    UPDATE pepsi.workqueue SET timeout = now() - interval '9 s', state = jsonb_build_object('put_off', pepsi.iso(now() - interval '9 s')) WHERE id = -19;
    ASSERT (SELECT d.n FROM pepsi.workqueue_due('{}', '{}', NULL, NULL, '{}', '{}', '{}', 100) d) = 2;
    ASSERT (SELECT count(*) = 2 AND bool_and((id = -19) = (state ? 'put_off')) FROM pepsi.workqueue WHERE status = 'pending');
    ASSERT pepsi.workqueue_put_off('{s}', '{dead.test}', '{100}', '{2000}', '{why}', '{432000}', 3600, 100) = 1;
    ASSERT (SELECT id FROM pepsi.workqueue WHERE status = 'paused') = -9;
    DELETE FROM pepsi.workqueue;
    -- a module out of its mind puts off others' mail for that hour, too, and no longer
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers)
        SELECT -i, -1, 's', 'pending', 'a@b', ARRAY['x@d' || i || '.test'], '' FROM generate_series(1, 4) i;
    ASSERT pepsi.workqueue_put_off('{s,s,s,s}', '{d1.test,d2.test,d3.test,d4.test}', '{2147483647,2147483647,0,3601}', '{1,2147483647,2147483647,1}', '{x,x,x,x}',
        '{432000,9223372036,432000,432000}', 3600, 10) = 4;
    ASSERT (SELECT max(timeout) FROM pepsi.workqueue) <= now() + interval '3601 s', (SELECT max(timeout) - now() FROM pepsi.workqueue);
    DELETE FROM pepsi.workqueue;
    DELETE FROM pepsi.workqueue_body;
END $$;

-- What is claimed, becomes due or is put off is found by what it is, not by reading all that waits: also where the planner believes that nothing does.
ANALYZE pepsi.workqueue;
CREATE FUNCTION pg_temp.fetched() RETURNS bigint LANGUAGE sql AS
    $$ SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables WHERE relname = 'workqueue' AND schemaname = 'pepsi' $$;
DO $$
DECLARE
    before bigint;
    n integer;
BEGIN
    INSERT INTO pepsi.workqueue_body VALUES (-1, '');
    FOR i IN 1 .. 2 LOOP -- plans are made with an empty table, too
        before := pg_temp.fetched();
        SELECT count(*) INTO n FROM pepsi.workqueue_claim('{s}', '{100}', '{10}', '{0}', '{1000}', '{}', '{}', '{}', '{1}');
        ASSERT n = CASE i WHEN 1 THEN 0 ELSE 100 END, n;
        ASSERT pg_temp.fetched() - before < 1000, format('a claim of %s read %s rows', n, pg_temp.fetched() - before);
        before := pg_temp.fetched();
        n := pepsi.workqueue_put_off('{s}', '{d7.test}', '{100}', '{2000}', '{x}', '{432000}', 3600, 100);
        ASSERT n = CASE i WHEN 1 THEN 0 ELSE 100 END, n;
        ASSERT pg_temp.fetched() - before < 1000, format('%s were put off by reading %s rows', n, pg_temp.fetched() - before);
        before := pg_temp.fetched();
        SELECT sum(d.n) FILTER (WHERE d.stage = 0) INTO n FROM pepsi.workqueue_due('{s}', '{1000}', NULL, NULL, '{1,1}', '{d8.test,d9.test}', '{10,0}', 100) d;
        ASSERT n = CASE i WHEN 1 THEN 0 ELSE 28 END, n; -- ten, and one each of eighteen
        ASSERT pg_temp.fetched() - before < 500, format('%s were due by reading %s rows', n, pg_temp.fetched() - before);
        INSERT INTO pepsi.workqueue (body_id, stage, status, mail_from, rcpt_to, headers)
            SELECT -1, 's', 'pending', 'a@b', ARRAY['x@d' || k % 20 || '.test'], '' FROM generate_series(1, 6000) k;
        INSERT INTO pepsi.workqueue (body_id, stage, status, timeout, mail_from, rcpt_to, headers)
            SELECT -1, 's', 'paused', now() - k * interval '1 ms', 'a@b', ARRAY['x@d' || k % 20 || '.test'], '' FROM generate_series(1, 6000) k;
    END LOOP;
    DELETE FROM pepsi.workqueue;
    DELETE FROM pepsi.workqueue_body;
END $$;

-- MAX_LIFETIME where no worker has the message: what is paused without a time, what is pending at a stage that is down or gone; never what is
-- held, runs, waits in a queue that moves, or has an end of its own to wait for.
DO $$
DECLARE
    r record;
    n integer := 0;
    long interval := interval '10 days';
BEGIN
    DELETE FROM pepsi.workqueue;
    INSERT INTO pepsi.workqueue_body VALUES (-1, '');
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, timeout, received_at, mail_from, rcpt_to, headers, state) VALUES
        (-1, -1, 'up', 'paused', NULL, now() - long, 'a@b', '{c@d}', '', '{"last_error":"450 later"}'),     -- by hand: bounced
        (-2, -1, 'up', 'paused', NULL, now(), 'a@b', '{c@d}', '', '{}'),                                   -- young
        (-3, -1, 'up', 'paused', NULL, now() - long, 'a@b', '{c@d}', '', '{"held":{"rule":4,"since":1}}'), -- held
        (-4, -1, 'up', 'paused', NULL, now() - long, 'a@b', '{c@d}', '', '{"held":{"s":1000000}}'),        -- was held for long
        (-5, -1, 'up', 'pending', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),                           -- waits its turn
        (-6, -1, 'down', 'pending', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),                         -- nobody will come
        (-7, -1, 'down', 'pending', NULL, now(), 'a@b', '{c@d}', '', '{}'),
        (-8, -1, 'down', 'running', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),
        (-9, -1, 'gone', 'pending', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),                         -- no such stage: failed
        (-10, -1, 'gone', 'pending', NULL, now() - interval '1 day', 'a@b', '{c@d}', '', '{}'),
        (-11, -1, 'bounce', 'paused', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),                       -- at the bounce stage itself: failed
        (-12, -1, 'up', 'paused', now() + interval '90 days', now() - long, 'a@b', '{c@d}', '', '{}'),     -- due at once
        (-13, -1, 'up', 'paused', now() + interval '90 days', now(), 'a@b', '{c@d}', '', '{}'),            -- due at its end
        (-14, -1, 'up', 'paused', now() + interval '1 day', now(), 'a@b', '{c@d}', '', '{}'),              -- early enough
        (-15, -1, 'up', 'paused', now() + interval '90 days', now() - long, 'a@b', '{c@d}', '', jsonb_build_object('hold',
            jsonb_build_object('until', extract(epoch FROM now() + interval '90 days')::bigint))),         -- as its sender asked
        (-16, -1, 'down', 'failed', NULL, now() - long, 'a@b', '{c@d}', '', '{}'),
        (-17, -1, 'up', 'paused', NULL, now() - long, 'a@b', '{c@d}', '', '{"hold":{"until":"x"},"held":{"s":[]}}');  -- nonsense is none
    FOR r IN SELECT * FROM pepsi.workqueue_expire('{up,down,bounce}', '{432000,432000,432000}', '{bounce,bounce,""}', '{f,t,f}', 432000, 100) LOOP
        n := n + 1;
        ASSERT r.id IN (-1, -6, -9, -11, -17), r.id;
        ASSERT r.went_to = CASE WHEN r.id IN (-9, -11) THEN '' ELSE 'bounce' END, r::text;
    END LOOP;
    ASSERT n = 5, n;
    ASSERT (SELECT (stage, status::text, state #>> '{bounce,kind}', state #>> '{bounce,enhanced_status}', state ->> 'last_error')
        = ('bounce', 'pending', 'permanent', '4.4.7', 'delivery time expired; last attempt: 450 later') FROM pepsi.workqueue WHERE id = -1);
    ASSERT (SELECT stage = 'bounce' AND state ->> 'last_error' LIKE '%stage down has no worker' FROM pepsi.workqueue WHERE id = -6);
    ASSERT (SELECT stage = 'gone' AND status = 'failed' AND state ->> 'last_error' LIKE '%there is no stage gone any more' FROM pepsi.workqueue WHERE id = -9);
    ASSERT (SELECT status = 'failed' FROM pepsi.workqueue WHERE id = -11);
    ASSERT (SELECT status = 'paused' AND timeout <= now() FROM pepsi.workqueue WHERE id = -12);
    ASSERT (SELECT timeout BETWEEN now() + interval '4 days 23 hours' AND now() + interval '5 days 1 hour' FROM pepsi.workqueue WHERE id = -13);
    ASSERT (SELECT count(*) = 2 FROM pepsi.workqueue WHERE id IN (-14, -15) AND status = 'paused' AND timeout > now() + interval '23 hours');
    ASSERT (SELECT count(*) = 8 FROM pepsi.workqueue WHERE (id, status::text) IN ((-2, 'paused'), (-3, 'paused'), (-4, 'paused'), (-5, 'pending'), (-7, 'pending'),
        (-8, 'running'), (-10, 'pending'), (-16, 'failed')));
    ASSERT NOT EXISTS (SELECT FROM pepsi.workqueue_expire('{up,down,bounce}', '{432000,432000,432000}', '{bounce,bounce,""}', '{f,t,f}', 432000, 100));
    DELETE FROM pepsi.workqueue;
END $$;

-- Held mail: how long it was held is kept, released ones go past older rules; the sweep lets go what no rule holds any more, and what is
-- due by the end of its rule goes on.
DO $$
DECLARE
    rule bigint;
    c record;
    st jsonb;
BEGIN
    INSERT INTO pepsi.workqueue_body VALUES (-1, '');
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers, state) VALUES
        (1000001, -1, 's', 'pending', 'Ann@Example.org', '{c@one.test}', '', '{"held":{"s":7}}'),
        (1000002, -1, 's', 'pending', 'ann@other.org', '{c@one.test}', '', '{}'), (1000003, -1, 's', 'running', 'ann@example.org', '{c@one.test}', '', '{}'),
        (1000004, -1, 's', 'paused', 'ann@example.org', '{c@one.test,c@two.test}', '', '{}'), (1000005, -1, 's', 'pending', '', '{c@two.test}', '', '{}');
    rule := pepsi.queue_rule_add('{"action":"hold","sender":"@EXAMPLE.org","recipient":"@one.test","reason":"r"}');
    c := pepsi.queue_rule_apply(rule, '{}', false, 0, 100);
    ASSERT c.matched = 1 AND c.changed = 1 AND c.last = 1000001, c;   -- not the running one, not the one with another recipient
    ASSERT (pepsi.queue_rule_apply(rule, '{}', false, 0, 100)).matched = 0;
    SELECT state INTO st FROM pepsi.workqueue WHERE id = 1000001;
    ASSERT st #>> '{held,s}' = '7' AND st #>> '{held,rule}' = rule::text, st;
    UPDATE pepsi.workqueue SET state = jsonb_set(state, '{held,since}', to_jsonb(extract(epoch FROM now())::bigint - 100)) WHERE id = 1000001;
    ASSERT (pepsi.workqueue_change('retry', NULL, false, NULL, NULL, 'held', NULL, NULL, NULL, 100)).changed = 0;
    ASSERT pepsi.queue_rule_sweep() = 0;
    ASSERT pepsi.queue_rule_remove(rule);
    ASSERT pepsi.queue_rule_sweep() = 1;
    SELECT state INTO st FROM pepsi.workqueue WHERE id = 1000001 AND status = 'pending';
    ASSERT (st #>> '{held,s}')::integer BETWEEN 106 AND 110 AND st #> '{held,rule}' IS NULL AND st #> '{held,released}' IS NULL, st;
    -- the null sender; released by hand: past that rule, not past newer ones
    rule := pepsi.queue_rule_add('{"action":"hold","sender":"<>","for":60}');
    ASSERT (pepsi.queue_rule_apply(rule, '{}', false, 0, 100)).changed = 1;
    ASSERT (SELECT timeout > now() FROM pepsi.workqueue WHERE id = 1000005);
    ASSERT (pepsi.workqueue_change('release', NULL, false, '{1000005}', NULL, NULL, NULL, NULL, NULL, 100)).changed = 1;
    ASSERT (pepsi.queue_rule_apply(rule, '{}', false, 0, 100)).changed = 0;
    UPDATE pepsi.queue_rule SET expires_at = now() - interval '1 second' WHERE id = rule;
    PERFORM pepsi.queue_rule_sweep();
    ASSERT NOT EXISTS (SELECT FROM pepsi.queue_rule);
    -- domains in U-labels and A-labels, whoever wrote which
    FOR st IN SELECT * FROM jsonb_array_elements('[["x@bücher.example","x@xn--bcher-kva.example"],["X@XN--BCHER-KVA.Example","x@xn--bcher-kva.example"],
        ["a@例え.テスト","a@xn--r8jz45g.xn--zckzah"],["a@пример.испытание","a@xn--e1afmkfd.xn--80akhbyknj4f"],["@faß.de","@xn--fa-hia.de"],["a@mail.bücher.example","a@mail.xn--bcher-kva.example"],
        ["grün@Example.ORG","grün@example.org"],["\"a@b\"@ü.test","\"a@b\"@xn--tda.test"],["postmaster","postmaster"],["",""]]') LOOP
        ASSERT pepsi.address_fold(st ->> 0) = st ->> 1, (st, pepsi.address_fold(st ->> 0));
        ASSERT pepsi.address_means(st ->> 0, st ->> 1) AND pepsi.address_means(st ->> 1, st ->> 0), st;
    END LOOP;
    ASSERT pepsi.address_means('@bücher.example', 'x@XN--bcher-kva.example') AND pepsi.address_means('@xn--bcher-kva.example', 'x@bücher.example');
    ASSERT NOT pepsi.address_means('@bücher.example', 'x@bucher.example') AND NOT pepsi.address_means('@cher.example', 'x@bücher.example');
    INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers, state) VALUES
        (1000011, -1, 'i', 'paused', 's@Bücher.example', '{c@bücher.example,d@XN--BCHER-KVA.example}', '', '{}');
    rule := pepsi.queue_rule_add('{"action":"hold","recipient":"@bücher.example","sender":"@xn--bcher-kva.example"}');
    ASSERT (SELECT recipient FROM pepsi.queue_rule WHERE id = rule) = '@xn--bcher-kva.example';
    ASSERT (pepsi.queue_rule_apply(rule, '{}', false, 0, 100)).changed = 1;
    PERFORM pepsi.queue_rule_remove(rule);
    PERFORM pepsi.queue_rule_sweep();
    DELETE FROM pepsi.workqueue WHERE id = 1000011;
    -- a rule that reroutes what is at one stage
    rule := pepsi.queue_rule_add('{"action":"reroute","stage":"s","recipient":"@one.test","to_stage":"t"}');
    ASSERT (pepsi.queue_rule_apply(rule, '{}', false, 0, 100)).changed = 2;
    ASSERT (SELECT count(*) FROM pepsi.workqueue WHERE stage = 't' AND status = 'pending' AND state #>> '{rerouted,rule}' = rule::text) = 2;
    PERFORM pepsi.queue_rule_remove(rule);
    INSERT INTO pepsi.queue_rule (action, stage, made_by) SELECT 'hold', 's', '' FROM generate_series(1, 1000);
    DELETE FROM pepsi.workqueue;
END $$;
SELECT pg_temp.fails('SELECT pepsi.queue_rule_add(''{"action":"hold","stage":"s"}'')', '54000');
SELECT pg_temp.fails('SELECT pepsi.queue_rule_add(''{"action":"hold","client":"x"}'')', '22023');
DELETE FROM pepsi.queue_rule;
SELECT pg_temp.fails('SELECT pepsi.queue_rule_add(''{"action":"hold"}'')', '23514');
SELECT pg_temp.fails('SELECT pepsi.queue_rule_add(''{"action":"hold","stage":"s","to_stage":"t"}'')', '23514');
SELECT pg_temp.fails('SELECT pepsi.queue_rule_add(''{"action":"reroute","stage":"s"}'')', '23514');
SELECT pg_temp.fails('SELECT pepsi.workqueue_change(''burn'', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, 1)', '22023');

-- Suppression: what is learnt ends, is renewed, and never touches what an operator put there; a lookup counts.
DO $$
DECLARE r record;
BEGIN
    ASSERT pepsi.suppression_learn('{a@b.test,a@b.test,c@d.test}', '{5.1.1,5.1.1,""}', '{no,no,"user \"unknown\""}', 7, 100, 10) = 2;
    ASSERT pepsi.suppression_learn('{a@b.test}', '{5.1.6}', '{moved}', 8, 200, 10) = 0;
    ASSERT (SELECT status = '5.1.6' AND source_id = 8 AND expires_at > now() + interval '150 s' FROM pepsi.suppression WHERE recipient = 'a@b.test');
    ASSERT pepsi.suppression_add('{"recipient":"E@F.test","class":"allow"}') = 'true' AND pepsi.suppression_add('{"recipient":"e@f.test","class":"allow"}') = 'false';
    ASSERT pepsi.suppression_learn('{e@f.test}', '{5.1.1}', '{no}', 9, 100, 10) = 0;
    ASSERT pepsi.suppression_add('{"recipient":"c@d.test","class":"manual","reason":"x","for":60}') = 'false';
    SELECT count(*) AS n, string_agg(l.nth || ':' || l.class, ',' ORDER BY l.nth) AS what INTO r
        FROM pepsi.suppression_lookup('{nobody@b.test,c@d.test,e@f.test,a@b.test}') l;
    ASSERT r.n = 2 AND r.what = '2:manual,4:hard', r.what;
    ASSERT (SELECT hits = 1 AND hit_at IS NOT NULL FROM pepsi.suppression WHERE recipient = 'a@b.test');
    UPDATE pepsi.suppression SET expires_at = now() - interval '1 s' WHERE recipient IN ('a@b.test', 'c@d.test');
    ASSERT NOT EXISTS (SELECT FROM pepsi.suppression_lookup('{a@b.test,c@d.test}'));
    ASSERT jsonb_array_length(pepsi.suppression_list('{"limit":10}')) = 1;
    PERFORM pepsi.suppression_learn('{}', '{}', '{}', 1, 1, 10);
    ASSERT (SELECT count(*) FROM pepsi.suppression) = 1;
    ASSERT pepsi.suppression_remove('{"recipient":"E@f.test"}') = 'true' AND pepsi.suppression_remove('{"recipient":"E@f.test"}') = 'false';
END $$;
