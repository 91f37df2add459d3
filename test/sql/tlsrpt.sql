-- The functions behind TLS reports, each rule an ASSERT: what is counted, what is due, what is sent once, what comes in once. Run as superuser; what a
-- role of its own calls is called as that role.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

CREATE FUNCTION pg_temp.put(seq bigint, domains text[], failures text[], n bigint[], age integer DEFAULT 2, rows integer DEFAULT 3, reports integer DEFAULT 3) RETURNS bigint
LANGUAGE sql AS $$
    SELECT pepsi.tlsrpt_put('life', seq, rows, reports, array_fill((now() AT TIME ZONE 'UTC')::date - date '1970-01-01' - age, ARRAY[cardinality(n)]), domains,
        array_fill('{"type":"no-policy-found"}'::text, ARRAY[cardinality(n)]), failures, n)
$$;

SET ROLE pepsi;
DO $$
BEGIN
    ASSERT pg_temp.put(1, '{a.test,a.test,b.test}', ARRAY['', '{"result":"validation-failure"}', ''], '{5,1,2}') = 0;
    ASSERT pg_temp.put(1, '{a.test}', '{""}', '{100}') = 0;   -- the same batch again: counted once
    ASSERT pg_temp.put(2, '{a.test,a.test}', ARRAY['', '{"result":"starttls-not-supported"}'], '{4,1}') = 0;
    ASSERT pg_temp.put(3, '{a.test,a.test}', ARRAY['{"result":"certificate-expired"}', ''], '{7,6}') = 0; -- a fourth row: without one of its own
    ASSERT pg_temp.put(4, '{c.test,d.test}', ARRAY['', ''], '{1,9}') = 9; -- a fourth report
    ASSERT pg_temp.put(5, '{a.test}', '{""}', '{1}', 0, 3, 9) = 0;    -- today
    BEGIN
        PERFORM 1 FROM pepsi.tlsrpt_report;
        ASSERT false, 'role pepsi reads tlsrpt_report';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
END $$;

DO $$
DECLARE
    d jsonb := pepsi.tlsrpt_due('{"grace":60,"limit":10}');
    a jsonb := (SELECT e FROM jsonb_array_elements(d) e WHERE e ->> 'domain' = 'a.test');
    id bigint := (a ->> 'id')::bigint;
    w jsonb;
    ids bigint[];
BEGIN
    ASSERT jsonb_array_length(d) = 3 AND (SELECT bool_and(e ->> 'outcome' = 'waiting') FROM jsonb_array_elements(d) e), d;
    ASSERT (a ->> 'rows')::int = 3 AND (a ->> 'sessions')::int = 24 AND (a ->> 'failures')::int = 9 AND (a ->> 'overflow')::int = 7, a;
    ASSERT jsonb_array_length(pepsi.tlsrpt_due('{"grace":999999,"limit":10}')) = 0 AND jsonb_array_length(pepsi.tlsrpt_due('{"grace":0,"limit":1}')) = 1;
    ASSERT jsonb_array_length(pepsi.tlsrpt_due('{"grace":0,"limit":9,"day":"2020-01-01"}')) = 0;
    w := pepsi.tlsrpt_rows(jsonb_build_object('id', id, 'limit', 9));
    ASSERT jsonb_array_length(w) = 3 AND w -> 0 ->> 'sessions' = '15' AND w #>> '{0,failure}' IS NULL AND w #>> '{0,policy,type}' = 'no-policy-found', w;
    -- one attempt at a time, with one id for all of them
    ASSERT pepsi.tlsrpt_begin(jsonb_build_object('id', id, 'report_id', repeat('a', 32))) ->> 'report_id' = repeat('a', 32);
    ASSERT pepsi.tlsrpt_begin(jsonb_build_object('id', id, 'report_id', repeat('b', 32))) = 'null';
    ASSERT jsonb_array_length(pepsi.tlsrpt_due('{"grace":0,"limit":9}')) = 2;
    ASSERT pg_temp.put(6, '{a.test}', '{""}', '{3}') = 3; -- nothing is counted behind it
    ids := pepsi.tlsrpt_enqueue(id, repeat('a', 32), 'init', 'tls@here.test', '{R@a.test,s@a.test}', ARRAY['Subject: 1'::bytea, 'Subject: 2'], 'body', '{"origin":{}}');
    ASSERT cardinality(ids) = 2, ids;
    ASSERT pepsi.tlsrpt_enqueue(id, repeat('a', 32), 'init', 'tls@here.test', '{R@a.test}', ARRAY['x'::bytea], 'body', '{}') IS NULL;
    ASSERT (SELECT count(*) FROM pepsi.workqueue q WHERE q.id = ANY (ids) AND mail_from = 'tls@here.test' AND status = 'pending') = 2;
    ASSERT pepsi.tlsrpt_posted(jsonb_build_object('id', id, 'posted', 'https://a.test/R')) = 'true'
        AND pepsi.tlsrpt_posted(jsonb_build_object('id', id, 'posted', 'https://a.test/R')) = 'false';
    ASSERT pepsi.tlsrpt_done(jsonb_build_object('id', id, 'why', 'no answer')) = 'true';
    ASSERT pepsi.tlsrpt_list(jsonb_build_object('limit', 9, 'id', id)) #> '{reports,0}' @> '{"outcome":"waiting","why":"no answer","posted":["https://a.test/R"],"mailed":["R@a.test","s@a.test"],"tries":1}';
    ASSERT pepsi.tlsrpt_done(jsonb_build_object('id', id, 'outcome', 'sent')) = 'true' AND pepsi.tlsrpt_done(jsonb_build_object('id', id, 'outcome', 'nowhere')) = 'false';
    -- one comes back
    ASSERT pepsi.tlsrpt_came_back(repeat('c', 32), 1, 30, 'x') IS NULL AND pepsi.tlsrpt_came_back(repeat('a', 32), 3, 30, 'x') IS NULL;
    ASSERT pepsi.tlsrpt_came_back(repeat('a', 32), 1, 30, 'x') = 'r@a.test' AND pepsi.tlsrpt_came_back(repeat('a', 32), 2, 0, 'x') = 's@a.test';
    ASSERT pepsi.tlsrpt_mute('{"address":"https://a.test/R","days":7,"why":"dead"}') = 'true';
    ASSERT pepsi.tlsrpt_list('{"limit":1}') -> 'muted' @> '[{"address":"r@a.test","why":"x"},{"address":"https://a.test/R","why":"dead"}]';
    ASSERT pepsi.tlsrpt_unmute('{"address":"R@A.test"}') = 'true' AND pepsi.tlsrpt_unmute('{"address":"r@a.test"}') = 'false';
    ASSERT pepsi.tlsrpt_unmute('{"address":"https://a.test/R"}') = 'true';
    ASSERT jsonb_array_length(pepsi.tlsrpt_list('{"limit":1}') -> 'muted') = 0;
    ASSERT (SELECT e ->> 'outcome' FROM jsonb_array_elements(pepsi.tlsrpt_list('{"limit":9}') -> 'reports') e ORDER BY e ->> 'day' DESC LIMIT 1) = 'counting';
    ASSERT (pepsi.delivery_counts())[6] = 3;
END $$;
RESET ROLE;

-- what is old goes, or is given up; also where nobody sends
DO $$
BEGIN
    INSERT INTO pepsi.tlsrpt_report (domain, day) VALUES ('never.test', current_date - 40);
    ASSERT pg_temp.put(7, '{a.test}', '{""}', '{1}', 0, 3, 9) = 0;
    ASSERT NOT EXISTS (SELECT FROM pepsi.tlsrpt_report WHERE domain = 'never.test');
    UPDATE pepsi.tlsrpt_report SET day = day - 30 WHERE domain = 'b.test';
    UPDATE pepsi.tlsrpt_report SET day = day - 4 WHERE domain = 'c.test';
    ASSERT pepsi.tlsrpt_sweep('{"keep":1209600,"expire":259200}') @> '{"gone":1,"expired":1}';
    ASSERT (SELECT outcome FROM pepsi.tlsrpt_report WHERE domain = 'c.test') = 'expired';
    ASSERT NOT EXISTS (SELECT FROM pepsi.tlsrpt_result r WHERE NOT EXISTS (SELECT FROM pepsi.tlsrpt_report p WHERE p.id = r.report_id));
END $$;

SET ROLE pepsi;
DO $$
DECLARE
    r jsonb := '{"domain":"a.test","org":"Far","report_id":"1","begin":1796000000,"end":1796086399,"mail_domain":"far.test","verified":true,"keep":8640000,"most":30,
        "policies":[{"type":"sts","domain":"a.test","successes":40,"failures":3},{"type":"tlsa","domain":"mx.a.test","successes":5,"failures":0}],
        "failures":[{"type":"sts","result":"certificate-expired","mx":"mx.a.test","receiving_ip":"192.0.2.1","sending_ip":"no address","sessions":3}]}';
    s jsonb;
BEGIN
    ASSERT pepsi.tlsrpt_received_add(r) = 'stored' AND pepsi.tlsrpt_received_add(r) = 'duplicate';
    ASSERT pepsi.tlsrpt_received_add(r || '{"domain":"b.test"}') = 'stored' AND pepsi.tlsrpt_received_add(r || '{"report_id":"2"}') = 'stored';
    FOR i IN 3 .. 9 LOOP
        ASSERT pepsi.tlsrpt_received_add(r || jsonb_build_object('report_id', i)) = 'stored';
    END LOOP;
    ASSERT pepsi.tlsrpt_received_add(r || '{"report_id":"x"}') = 'full'; -- ten of one sender
    ASSERT pepsi.tlsrpt_received_add(r || '{"report_id":"x","mail_domain":"other.test"}') = 'stored';
    s := pepsi.tlsrpt_received_summary('{"domain":"A.TEST","limit":10}');
    ASSERT s -> 'domains' @> '[{"domain":"a.test","type":"sts","reports":10,"successes":400,"failures":30},{"type":"tlsa","successes":50}]', s;
    ASSERT s -> 'failures' @> '[{"mx":"mx.a.test","result":"certificate-expired","ip":"192.0.2.1","sessions":30,"organisations":1}]', s;
    ASSERT jsonb_array_length(s -> 'reports') = 10 AND (pepsi.delivery_counts())[7] = 11 AND (pepsi.delivery_counts())[8] = 33, s;
    ASSERT jsonb_array_length(pepsi.tlsrpt_received_summary('{"since":"2999-01-01","limit":10}') -> 'reports') = 0;
END $$;
RESET ROLE;
