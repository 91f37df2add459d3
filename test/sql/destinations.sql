-- What is known of other domains and their hosts, each rule an ASSERT: policies of MTA-STS that are put, fail, are due and go; health of addresses; protection.
-- As role pepsi, which calls the functions and reads no table.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.now_s() RETURNS bigint LANGUAGE sql AS $$ SELECT extract(epoch FROM now())::bigint $$;
GRANT EXECUTE ON FUNCTION pg_temp.now_s() TO "pepsi";

SET ROLE "pepsi";
DO $$
DECLARE
    t bigint := pg_temp.now_s();
    g record;
    d text[];
BEGIN
    BEGIN
        PERFORM 1 FROM pepsi.sts_policy;
        ASSERT false, 'role pepsi reads sts_policy';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
    ASSERT NOT EXISTS (SELECT FROM pepsi.sts_policy_get('a.test', true));
    PERFORM pepsi.sts_policy_put('a.test', 'one', 'enforce', 'body one', t, t + 604800, t + 86400);
    SELECT * INTO g FROM pepsi.sts_policy_get('a.test', true);
    ASSERT g.id = 'one' AND g.body = 'body one' AND g.fetched = t AND g.failed = 0 AND g.failures = 0;
    -- what was fetched before that does not take its place; a failure of before neither
    PERFORM pepsi.sts_policy_put('a.test', 'old', 'none', 'body old', t - 10, t + 1, t);
    PERFORM pepsi.sts_policy_failed('a.test', 'sts-policy-fetch-error', 'late', t - 5, t, 0);
    SELECT * INTO g FROM pepsi.sts_policy_get('a.test', false);
    ASSERT g.id = 'one' AND g.failures = 0;
    -- two workers tell one failure: one; the next is two; the policy stays
    PERFORM pepsi.sts_policy_failed('a.test', 'sts-policy-fetch-error', 'away', t + 1, t + 301, 0);
    PERFORM pepsi.sts_policy_failed('a.test', 'sts-policy-fetch-error', 'away', t + 2, t + 302, 0);
    SELECT * INTO g FROM pepsi.sts_policy_get('a.test', false);
    ASSERT g.failures = 1 AND g.id = 'one' AND g.result = 'sts-policy-fetch-error' AND g.why = 'away';
    PERFORM pepsi.sts_policy_failed('a.test', 'sts-webpki-invalid', 'expired', t + 400, t + 1000, 1);
    ASSERT (SELECT failures FROM pepsi.sts_policy_get('a.test', false)) = 2;
    PERFORM pepsi.sts_policy_put('a.test', 'two', 'testing', 'body two', t + 500, t + 500 + 604800, t + 500 + 86400);
    SELECT * INTO g FROM pepsi.sts_policy_get('a.test', false);
    ASSERT g.id = 'two' AND g.failures = 0 AND g.failed = 0 AND g.why IS NULL;
    -- of a domain without policy only failures are known
    PERFORM pepsi.sts_policy_failed('f.test', 'sts-policy-invalid', 'noise', t, t + 300, 0);
    SELECT * INTO g FROM pepsi.sts_policy_get('f.test', false);
    ASSERT g.id IS NULL AND g.body IS NULL AND g.fetched = 0 AND g.failures = 1;
    -- due: in time, once for all callers, never what is over or has no policy
    PERFORM pepsi.sts_policy_put('due.test', 'x', 'enforce', 'b', t - 90000, t + 1000, t - 1);
    PERFORM pepsi.sts_policy_put('over.test', 'x', 'enforce', 'b', t - 90000, t - 1, t - 2);
    SELECT array_agg(s ORDER BY s) INTO d FROM pepsi.sts_policy_due(10, 2592000) s;
    ASSERT d = '{due.test}', d::text;
    ASSERT NOT EXISTS (SELECT FROM pepsi.sts_policy_due(10, 2592000));
    ASSERT (pepsi.delivery_counts())[1:3] = '{2,1,1}', pepsi.delivery_counts()::text;
    ASSERT jsonb_array_length(pepsi.sts_policy_list('{"limit": 10}')) = 4 AND pepsi.sts_policy_list('{"limit": 10}') -> 0 ->> 'domain' = 'f.test';
    ASSERT pepsi.sts_policy_list('{"limit": 1, "domain": "a.test"}') -> 0 ->> 'policy' = 'body two';
    ASSERT NOT pepsi.sts_policy_list('{"limit": 10}') -> 1 ? 'policy';
    ASSERT pepsi.sts_policy_forget('a.test') AND NOT pepsi.sts_policy_forget('a.test');
END $$;
RESET ROLE;

-- what nobody used for so long, and holds no longer, goes; what holds stays, and is left to end
UPDATE pepsi.sts_policy SET used_at = now() - interval '40 days', due_at = now() - interval '1 minute', failed_at = failed_at - interval '2 days';
DO $$ BEGIN
    ASSERT NOT EXISTS (SELECT FROM pepsi.sts_policy_due(10, 2592000));
    ASSERT (SELECT array_agg(domain) FROM pepsi.sts_policy) = '{due.test}';
    -- mail asks for it: it counts as used again
    PERFORM pepsi.sts_policy_get('due.test', false);
    ASSERT NOT EXISTS (SELECT FROM pepsi.sts_policy_due(10, 2592000));
    PERFORM pepsi.sts_policy_get('due.test', true);
    ASSERT (SELECT array_agg(s) FROM pepsi.sts_policy_due(10, 2592000) s) = '{due.test}';
END $$;

SET ROLE "pepsi";
DO $$
DECLARE
    t bigint := pg_temp.now_s();
    a jsonb;
    g record;
BEGIN
    PERFORM pepsi.dns_address_put('{192.0.2.1,2001:db8::1}', '{mx.a.test,mx.a.test}', ARRAY[t + 300, 0], ARRAY[t - 50, 0], ARRAY[0, t - 10], '{0,1}', ARRAY[0, t + 20],
        '{"","timed \"out\""}');
    -- older news than what is known do not count; newer do
    PERFORM pepsi.dns_address_put('{2001:db8::1}', '{mx.a.test}', '{0}', ARRAY[t - 500], '{0}', '{0}', '{0}', '{""}');
    a := pepsi.dns_address_list('{"limit": 10}');
    ASSERT jsonb_array_length(a) = 2 AND a -> 0 ->> 'address' = '2001:db8::1' AND a -> 0 ->> 'why' = 'timed "out"' AND (a -> 0 ->> 'failures')::integer = 1, a::text;
    PERFORM pepsi.dns_address_put('{2001:db8::1}', '{mx.b.test}', '{0}', ARRAY[t + 1], ARRAY[t - 10], '{0}', '{0}', '{""}');
    a := pepsi.dns_address_list('{"limit": 10, "host": "MX.b.test"}');
    ASSERT jsonb_array_length(a) = 1 AND (a -> 0 ->> 'failures')::integer = 0 AND a -> 0 ->> 'until' IS NULL, a::text;
    SELECT * INTO g FROM pepsi.dns_address_load(10) WHERE host = 'mx.a.test';
    ASSERT g.address = '192.0.2.1' AND g.ok = t - 50 AND g.failed = 0 AND g.until = 0 AND g.why = '';

    ASSERT NOT EXISTS (SELECT FROM pepsi.destination_security_get('w.test'));
    PERFORM pepsi.destination_security_put('{w.test,v.test}', '{dane,tls}', ARRAY[t - 100, t], '{plain,tls}', ARRAY[t, t], '{plain,unknown}', ARRAY[t, 0]);
    SELECT * INTO g FROM pepsi.destination_security_get('w.test');
    ASSERT g.best = 'dane' AND g.best_at = t - 100 AND g.last = 'plain' AND g.told = 'plain' AND g.told_at = t;
    ASSERT (SELECT told = 'unknown' AND told_at = 0 FROM pepsi.destination_security_get('v.test'));
    ASSERT (pepsi.delivery_counts())[4] = 1 AND jsonb_array_length(pepsi.destination_security_list('{"limit": 10, "weaker": true}')) = 1;
    -- a sight of before does not count
    PERFORM pepsi.destination_security_put('{w.test}', '{dane}', ARRAY[t], '{dane}', ARRAY[t - 1], '{unknown}', '{0}');
    ASSERT (pepsi.delivery_counts())[4] = 1;
    PERFORM pepsi.destination_security_put('{w.test}', '{dane}', ARRAY[t + 1], '{dane}', ARRAY[t + 1], '{unknown}', '{0}');
    ASSERT (pepsi.delivery_counts())[4] = 0;
    -- no more than so many: what was of no use for longest goes, policies that hold last
    PERFORM pepsi.sts_policy_put('hold' || i || '.test', 'x', 'enforce', 'b', t, t + 604800, t + 86400) FROM generate_series(1, 3) i;
    PERFORM pepsi.sts_policy_failed('fail' || i || '.test', 'sts-policy-fetch-error', 'away', t, t + 300, 0) FROM generate_series(1, 20) i;
    PERFORM pepsi.known_trim(3, 0, 1000);
    ASSERT (SELECT array_agg(v ->> 'domain' ORDER BY v ->> 'domain') FROM jsonb_array_elements(pepsi.sts_policy_list('{"limit": 100}')) v)
        = '{hold1.test,hold2.test,hold3.test}', 'policies that hold went first';
    ASSERT jsonb_array_length(pepsi.dns_address_list('{"limit": 100}')) = 0 AND (SELECT told FROM pepsi.destination_security_get('v.test')) IS NOT NULL;
    PERFORM pepsi.destination_security_put('{y.test}', '{tls}', ARRAY[t + 9], '{tls}', ARRAY[t + 9], '{unknown}', '{0}');
    PERFORM pepsi.destination_security_put('{w.test}', '{dane}', ARRAY[t + 8], '{dane}', ARRAY[t + 8], '{unknown}', '{0}');
    ASSERT pepsi.known_trim(3, 1000, 2) = 1 AND pepsi.known_trim(3, 1000, 2) = 0;
    ASSERT NOT EXISTS (SELECT FROM pepsi.destination_security_get('v.test'));
    ASSERT pepsi.destination_security_forget('w.test') AND NOT pepsi.destination_security_forget('w.test');
    BEGIN
        PERFORM pepsi.destination_security_put('{x.test}', '{best}', '{1}', '{tls}', '{1}', '{unknown}', '{0}');
        ASSERT false, 'a word that is none was kept';
    EXCEPTION WHEN check_violation THEN
    END;
END $$;

-- warm-up: never more than the allowance, whoever asks; what is given back is there again; another day, address or destination is another matter
DO $$ BEGIN
    ASSERT pepsi.warmup_take('192.0.2.11', 'google', 20788, 50, 20) = 20 AND pepsi.warmup_take('192.0.2.11', 'google', 20788, 50, 20) = 20
        AND pepsi.warmup_take('192.0.2.11', 'google', 20788, 50, 20) = 10 AND pepsi.warmup_take('192.0.2.11', 'google', 20788, 50, 20) = 0;
    ASSERT pepsi.warmup_take('192.0.2.11', 'google', 20789, 100, 1) = 1 AND pepsi.warmup_take('2001:db8::11', 'google', 20788, 50, 1) = 1
        AND pepsi.warmup_take('192.0.2.11', 'mx.a.test', 20788, 50, 1) = 1;
    PERFORM pepsi.warmup_give('{192.0.2.11,192.0.2.11,192.0.2.99}', '{google,mx.a.test,google}', '{20788,20788,20788}', '{5,99,1}');
    ASSERT pepsi.warmup_take('192.0.2.11', 'google', 20788, 50, 20) = 5 AND pepsi.warmup_take('192.0.2.11', 'mx.a.test', 20788, 50, 50) = 50;
    -- a plan that was changed to less: what is over is not asked back
    ASSERT pepsi.warmup_take('192.0.2.11', 'google', 20788, 10, 20) = 0;
    BEGIN
        PERFORM 1 FROM pepsi.warmup;
        ASSERT false, 'role pepsi reads warmup';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;
RESET ROLE;
DO $$ BEGIN
    INSERT INTO pepsi.warmup SELECT date '2026-12-01', '192.0.2.12', 'd' || n, 1 FROM generate_series(1, 20000) n;
    INSERT INTO pepsi.warmup VALUES (date '2000-01-01', '192.0.2.12', 'old', 1);
    ASSERT pepsi.warmup_take('192.0.2.12', 'one more', 20788, 50, 1) = 0 AND pepsi.warmup_take('192.0.2.12', 'd1', 20788, 50, 1) = 1;
    ASSERT NOT EXISTS (SELECT FROM pepsi.warmup WHERE destination IN ('old', 'one more'));
END $$;
