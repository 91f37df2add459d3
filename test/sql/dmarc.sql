-- The functions behind DMARC reports, each rule an ASSERT: what is counted, what is due, what is sent once, what comes in once. Run as
-- superuser; what a role of its own calls is called as that role.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.put(seq bigint, domains text[], data text, n bigint[], age interval DEFAULT '2 days', rows integer DEFAULT 3) RETURNS bigint
LANGUAGE sql AS $$
    SELECT pepsi.dmarc_tally_put('life', seq, rows, 3, array_fill(date_trunc('day', now()) - age, ARRAY[cardinality(n)]),
        array_fill(date_trunc('day', now()) - age + interval '1 day', ARRAY[cardinality(n)]), domains, (SELECT array_agg(regexp_replace(x, '^.*\.([^.]+\.[^.]+)$', '\1') ORDER BY o) FROM unnest(domains) WITH ORDINALITY u(x, o)), array_fill('p=none'::text, ARRAY[cardinality(n)]), string_to_array(data, ';'), n)
$$;

SET ROLE "pepsi-ingress";
DO $$
BEGIN
    ASSERT pg_temp.put(1, '{a.test,a.test,b.test}', '{"x":1};{"x":2};{"x":1}', '{5,1,2}') = 0;
    ASSERT pg_temp.put(1, '{a.test}', '{"x":1}', '{100}') = 0;   -- the same batch again: counted once
    ASSERT pg_temp.put(2, '{a.test,a.test}', '{"x":1};{"x":3}', '{4,1}') = 0;
    ASSERT pg_temp.put(3, '{a.test,a.test}', '{"x":4};', '{7,6}') = 0; -- a fourth row, and what has none
    ASSERT pg_temp.put(4, '{c.test,d.test}', '{"x":1};{"x":1}', '{1,9}') = 9; -- a fourth period
    BEGIN
        PERFORM 1 FROM pepsi.dmarc_period;
        ASSERT false, 'the ingress reads dmarc_period';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
    BEGIN
        PERFORM pepsi.dmarc_list('{"limit":1}');
        ASSERT false, 'the ingress lists reports';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;
RESET ROLE;

SET ROLE pepsi;
DO $$
DECLARE
    d jsonb := pepsi.dmarc_due('{"grace":60,"limit":10}');
    a jsonb := (SELECT e FROM jsonb_array_elements(d) e WHERE e ->> 'domain' = 'a.test');
    w jsonb;
    ids bigint[];
BEGIN
    ASSERT jsonb_array_length(d) = 3, d;
    ASSERT (a ->> 'rows')::int = 3 AND (a ->> 'messages')::int = 24 AND (a ->> 'overflow')::int = 13 AND a ->> 'outcome' = 'waiting', a;
    w := pepsi.dmarc_rows(jsonb_build_object('id', a -> 'id', 'limit', 2));
    ASSERT jsonb_array_length(w) = 2 AND (w -> 0 ->> 'messages')::int = 9 AND w -> 0 -> 'data' = '{"x":1}', w;
    ASSERT jsonb_array_length(pepsi.dmarc_due('{"grace":999999,"limit":10}')) = 0;
    ASSERT jsonb_array_length(pepsi.dmarc_due('{"grace":0,"limit":1}')) = 1;
    ASSERT jsonb_array_length(pepsi.dmarc_due('{"grace":0,"limit":9,"day":"2020-01-01"}')) = 0;
    -- not now
    ASSERT pepsi.dmarc_done(jsonb_build_object('id', a -> 'id', 'why', 'no answer')) = 'true';
    ASSERT jsonb_array_length(pepsi.dmarc_due('{"grace":0,"limit":9}')) = 3;
    -- sent once
    ids := pepsi.dmarc_enqueue((a ->> 'id')::bigint, repeat('a', 32), 'init', 'dmarc@here.test', '{R@a.test,s@a.test}',
        ARRAY['Subject: 1'::bytea, 'Subject: 2'], 'body', '{"origin":{}}', false);
    ASSERT cardinality(ids) = 2, ids;
    ASSERT pepsi.dmarc_enqueue((a ->> 'id')::bigint, repeat('b', 32), 'init', 'd@here.test', '{R@a.test}', ARRAY['x'::bytea], 'body', '{}', false) IS NULL;
    ASSERT (SELECT count(*) FROM pepsi.workqueue WHERE id = ANY (ids) AND mail_from = 'dmarc@here.test' AND stage = 'init' AND status = 'pending') = 2;
    ASSERT (SELECT array_agg(convert_from(headers, 'UTF8') ORDER BY id) FROM pepsi.workqueue WHERE id = ANY (ids)) = '{Subject: 1,Subject: 2}';
    ASSERT (SELECT rcpt_to FROM pepsi.workqueue WHERE id = ids[2]) = '{s@a.test}';
    ASSERT pepsi.dmarc_done(jsonb_build_object('id', a -> 'id', 'outcome', 'nowhere')) = 'false';
    ASSERT jsonb_array_length(pepsi.dmarc_due('{"grace":0,"limit":9}')) = 2;
    -- who got it is muted by its id alone
    ASSERT pepsi.dmarc_mute(repeat('c', 32), 1, 30, 'x') IS NULL;
    ASSERT pepsi.dmarc_mute(repeat('a', 32), 3, 30, 'x') IS NULL;
    ASSERT pepsi.dmarc_mute(repeat('a', 32), 1, 30, 'x') = 'r@a.test';
    ASSERT pepsi.dmarc_mute(repeat('a', 32), 2, 0, 'x') = 's@a.test';
    ASSERT pepsi.dmarc_list('{"limit":1}') -> 'muted' @> '[{"address":"r@a.test","why":"x"}]';
    ASSERT jsonb_array_length(pepsi.dmarc_list('{"limit":9}') -> 'muted') = 1;
    ASSERT pepsi.dmarc_unmute('{"address":"R@A.test"}') = 'true' AND pepsi.dmarc_unmute('{"address":"r@a.test"}') = 'false';
    ASSERT pepsi.dmarc_list('{"limit":9,"domain":"A.test"}') #>> '{reports,0,outcome}' = 'sent';
    ASSERT pepsi.dmarc_list('{"limit":9,"domain":"A.test"}') #>> '{reports,0,destinations,1}' = 's@a.test';
END $$;
RESET ROLE;

-- Late counts of a report that has gone find no place; a period of another policy is another report.
DO $$
BEGIN
    ASSERT pg_temp.put(5, '{a.test}', '{"x":1}', '{3}') = 3;
    ASSERT pepsi.dmarc_tally_put('life', 6, 3, 9, ARRAY[date_trunc('day', now()) - interval '2 days'], ARRAY[now()], '{a.test}', '{a.test}', '{p=reject}', ARRAY['{"x":1}'], '{3}') = 0;
    ASSERT (SELECT count(*) FROM pepsi.dmarc_period WHERE domain = 'a.test') = 2;
END $$;

-- What is old goes, with its rows; what waits for too long is given up.
DO $$
BEGIN
    ASSERT pg_temp.put(7, '{old.test}', '{"x":1}', '{3}', '40 days') = 3; -- three wait already
    UPDATE pepsi.dmarc_period SET outcome = 'nowhere' WHERE domain = 'c.test';
    ASSERT pepsi.dmarc_tally_put('life', 8, 3, 9, ARRAY[now() - interval '40 days'], ARRAY[now() - interval '39 days'], '{old.test}', '{old.test}', '{p=none}', ARRAY['{"x":1}'], '{3}') = 0;
    ASSERT pepsi.dmarc_sweep('{"keep":1209600,"expire":60}') @> '{"gone":1,"expired":1}';
    ASSERT NOT EXISTS (SELECT FROM pepsi.dmarc_period WHERE domain = 'old.test');
    ASSERT (SELECT outcome FROM pepsi.dmarc_period WHERE domain = 'b.test') = 'expired';
    ASSERT (SELECT count(*) FROM pepsi.dmarc_row r WHERE NOT EXISTS (SELECT FROM pepsi.dmarc_period p WHERE p.id = r.period_id)) = 0;
END $$;

-- What comes in: once, summed up, bounded.
SET ROLE pepsi;
DO $$
DECLARE
    r jsonb := '{"domain":"a.test","org":"o","report_id":"1","begin":1796000000,"end":1796086400,"mail_domain":"o.test","verified":true,"policy":{"p":"none"},"info":{},
        "keep":86400,"most":3,"rows":[{"ip":"192.0.2.1","messages":5,"disposition":"none","dkim":true,"spf":false,"header_from":"a.test","detail":{}},
        {"ip":"2001:db8::1","messages":2,"disposition":"reject","dkim":false,"spf":false,"header_from":"a.test","detail":{}}]}';
    s jsonb;
BEGIN
    ASSERT pepsi.dmarc_received_add(r) = 'stored';
    ASSERT pepsi.dmarc_received_add(r) = 'duplicate';
    ASSERT pepsi.dmarc_received_add(r || '{"report_id":"2","rows":[]}') = 'stored';
    ASSERT pepsi.dmarc_received_add(r || '{"domain":"b.test"}') = 'stored';
    ASSERT pepsi.dmarc_received_add(r || '{"report_id":"3"}') = 'full';
    s := pepsi.dmarc_received_summary('{"domain":"A.TEST","limit":10}');
    ASSERT s #> '{domains}' @> '[{"domain":"a.test","reports":2,"organisations":1,"messages":7,"passed":5,"rejected":2,"quarantined":0}]', s;
    ASSERT jsonb_array_length(s -> 'domains') = 1 AND jsonb_array_length(s -> 'reports') = 2;
    ASSERT s #> '{sources,0}' @> '{"ip":"2001:db8::1","messages":2,"failed":2,"dkim":0,"never_passed":true}', s;
    ASSERT s #> '{sources,1}' @> '{"ip":"192.0.2.1","failed":0,"dkim":5,"never_passed":false}', s;
    ASSERT jsonb_array_length(pepsi.dmarc_received_summary('{"since":"2999-01-01","limit":10}') -> 'reports') = 0;
    BEGIN
        DELETE FROM pepsi.dmarc_received;
        ASSERT false, 'role pepsi deletes reports';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;
RESET ROLE;

-- One organisation with names without end takes ten places, and gives them up where others need them.
SET ROLE "pepsi-ingress";
DO $$
BEGIN
    ASSERT pepsi.dmarc_tally_put('crowd', 1, 9, 40, array_fill(now(), ARRAY[50]), array_fill(now() + interval '1 day', ARRAY[50]),
        (SELECT array_agg('n' || i || '.evil.test' ORDER BY i) FROM generate_series(1, 50) i), array_fill('evil.test'::text, ARRAY[50]), array_fill('p=none'::text, ARRAY[50]),
        array_fill('{"x":1}'::text, ARRAY[50]), array_fill(1::bigint, ARRAY[50])) = 40;
END $$;
RESET ROLE;
DO $$
DECLARE before integer := (SELECT count(*) FROM pepsi.dmarc_period WHERE outcome IS NULL);
BEGIN
    ASSERT (SELECT count(*) FROM pepsi.dmarc_period WHERE org = 'evil.test' AND outcome IS NULL) = 10;
    -- all places taken: a new one displaces the crowd, and what it had is counted as lost
    ASSERT pepsi.dmarc_tally_put('crowd', 2, 9, before, ARRAY[now()], ARRAY[now() + interval '1 day'], '{honest.test}', '{honest.test}', '{p=none}', '{"{\"x\":1}"}', '{7}') = 10;
    ASSERT (SELECT messages FROM pepsi.dmarc_period WHERE domain = 'honest.test') = 7;
    ASSERT NOT EXISTS (SELECT FROM pepsi.dmarc_period WHERE org = 'evil.test');
END $$;

-- Single messages that failed: bounded by organisation and in all, sent once, forgotten.
SET ROLE "pepsi-ingress";
DO $$
BEGIN
    ASSERT pepsi.dmarc_failure_put('life/f', 1, 2, 4, array_fill(now(), ARRAY[5]), '{a.test,b.a.test,a.test,c.test,d.test}', '{a.test,a.test,a.test,c.test,d.test}',
        array_fill('{"ip":"192.0.2.1"}'::text, ARRAY[5]), array_fill('From: x'::bytea, ARRAY[5])) = 1;
    ASSERT pepsi.dmarc_failure_put('life/f', 1, 2, 4, ARRAY[now()], '{e.test}', '{e.test}', '{"{}"}', '{x}') = 0; -- again
    ASSERT pepsi.dmarc_failure_put('life/f', 2, 2, 4, ARRAY[now()], '{e.test}', '{e.test}', '{"{}"}', '{x}') = 1; -- four a day
    BEGIN
        PERFORM pepsi.dmarc_failures('{"limit":1}');
        ASSERT false, 'the ingress lists failures';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;
RESET ROLE;
SET ROLE pepsi;
DO $$
DECLARE
    d jsonb := pepsi.dmarc_failures('{"limit":10,"due":true}');
    a bigint := (d #>> '{0,id}')::bigint;
    f jsonb := '{"domain":"a.test","arrival":1796000000,"mail_domain":"o.test","verified":true,"source_ip":"192.0.2.9","failure":"dmarc","result":"reject",
        "incidents":3,"detail":{"alignment":"none"},"keep":86400,"most":20}';
    s jsonb;
BEGIN
    ASSERT jsonb_array_length(d) = 4 AND d #>> '{0,domain}' = 'a.test' AND decode(d #>> '{0,headers}', 'base64') = 'From: x', d;
    ASSERT pepsi.dmarc_done(jsonb_build_object('id', a, 'failure', true, 'why', 'not now')) = 'true';
    ASSERT (pepsi.dmarc_failures('{"limit":10,"due":true}')) #>> '{0,headers}' IS NOT NULL;
    ASSERT cardinality(pepsi.dmarc_enqueue(a, repeat('f', 32), 'init', 'd@here.test', '{R@a.test}', ARRAY['x'::bytea], 'body', '{}', true)) = 1;
    ASSERT pepsi.dmarc_enqueue(a, repeat('g', 32), 'init', 'd@here.test', '{R@a.test}', ARRAY['x'::bytea], 'body', '{}', true) IS NULL;
    ASSERT pepsi.dmarc_mute(repeat('f', 32), 1, 30, 'x') = 'r@a.test';
    ASSERT pepsi.dmarc_done(jsonb_build_object('id', (d #>> '{1,id}')::bigint, 'failure', true, 'outcome', 'nowhere')) = 'true';
    ASSERT jsonb_array_length(pepsi.dmarc_failures('{"limit":10,"due":true}')) = 2;
    ASSERT (SELECT count(*) FROM jsonb_array_elements(pepsi.dmarc_failures('{"limit":10,"domain":"A.test"}')) e WHERE e ? 'headers') = 0;
    -- those of others
    ASSERT pepsi.dmarc_failure_received_add(f) = 'stored' AND pepsi.dmarc_failure_received_add(f) = 'duplicate';
    FOR i IN 1 .. 9 LOOP
        ASSERT pepsi.dmarc_failure_received_add(f || jsonb_build_object('arrival', i)) = 'stored';
    END LOOP;
    ASSERT pepsi.dmarc_failure_received_add(f || '{"arrival":77}') = 'full'; -- ten of one sender
    FOR i IN 1 .. 10 LOOP
        ASSERT pepsi.dmarc_failure_received_add(f || jsonb_build_object('mail_domain', 'd' || i)) = 'stored', i;
    END LOOP;
    ASSERT pepsi.dmarc_failure_received_add(f || '{"mail_domain":"e"}') = 'full'; -- twenty of all
    s := pepsi.dmarc_failure_summary('{"domain":"A.test","limit":3}');
    ASSERT s #> '{domains}' @> '[{"domain":"a.test","failure":"dmarc","reports":20,"incidents":60,"rejected":60,"sources":1}]', s;
    ASSERT jsonb_array_length(s -> 'reports') = 3 AND s #>> '{sources,0,ip}' = '192.0.2.9', s;
    ASSERT jsonb_array_length(pepsi.dmarc_failure_summary('{"domain":"b.test","limit":3}') -> 'reports') = 0;
    BEGIN
        PERFORM 1 FROM pepsi.dmarc_failure;
        ASSERT false, 'role pepsi reads dmarc_failure';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;
RESET ROLE;
DO $$
BEGIN
    UPDATE pepsi.dmarc_failure SET at = now() - interval '4 days' WHERE domain = 'c.test';
    UPDATE pepsi.dmarc_failure SET at = now() - interval '15 days' WHERE domain = 'd.test';
    PERFORM pepsi.dmarc_sweep('{"keep":1209600,"expire":259200}');
    ASSERT (SELECT outcome = 'expired' AND headers IS NULL FROM pepsi.dmarc_failure WHERE domain = 'c.test');
    ASSERT NOT EXISTS (SELECT FROM pepsi.dmarc_failure WHERE domain = 'd.test');
END $$;
