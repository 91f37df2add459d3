-- What pepsi-stage-srs keeps, each rule an ASSERT: senders under a reference, within a number; bounces counted by the hour. As role pepsi, which calls the
-- functions and reads no table.
\set ON_ERROR_STOP on
\set QUIET on
\o /dev/null
SET client_min_messages = warning;

SET ROLE "pepsi";
DO $$
DECLARE
    w integer;
BEGIN
    BEGIN
        PERFORM 1 FROM pepsi.srs_sender;
        ASSERT false, 'role pepsi reads srs_sender';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
    BEGIN
        PERFORM 1 FROM pepsi.srs_use;
        ASSERT false, 'role pepsi reads srs_use';
    EXCEPTION WHEN insufficient_privilege THEN
    END;
    ASSERT pepsi.srs_kept('abc') IS NULL;
    ASSERT pepsi.srs_keep('abc', 'Long.Sender@far.test', 1000000, 2);
    ASSERT pepsi.srs_kept('abc') = 'Long.Sender@far.test';
    ASSERT pepsi.srs_keep('def', 'b@far.test', 1000000, 2);
    -- the bound; who is there already stays welcome
    ASSERT NOT pepsi.srs_keep('ghi', 'c@far.test', 1000000, 2);
    ASSERT pepsi.srs_kept('ghi') IS NULL;
    ASSERT pepsi.srs_keep('abc', 'Long.Sender@far.test', 2000000, 2);
    -- a reference never leads to somebody else
    PERFORM pepsi.srs_keep('abc', 'other@far.test', 1000000, 100);
    ASSERT pepsi.srs_kept('abc') = 'Long.Sender@far.test';
    BEGIN
        PERFORM pepsi.srs_keep('A b', 'c@far.test', 1000000, 100);
        ASSERT false, 'no reference';
    EXCEPTION WHEN check_violation THEN
    END;
    BEGIN
        PERFORM pepsi.srs_keep('x', repeat('x', 321), 1000000, 100);
        ASSERT false, 'longer than an address';
    EXCEPTION WHEN check_violation THEN
    END;

    -- two an hour to each, five to all
    ASSERT pepsi.srs_take('{a@x}', 2, 5, false) = 0 AND pepsi.srs_take('{a@x}', 2, 5, false) = 0; -- asking counts nothing
    ASSERT pepsi.srs_take('{a@x}', 2, 5, true) = 0 AND pepsi.srs_take('{a@x,b@x}', 2, 5, true) = 0;
    w := pepsi.srs_take('{a@x}', 2, 5, true);
    ASSERT w BETWEEN 1 AND 3600, w::text;
    ASSERT pepsi.srs_take('{b@x,a@x}', 2, 5, true) > 0 AND pepsi.srs_take('{b@x}', 2, 5, false) = 0; -- all or none
    ASSERT pepsi.srs_take('{c@x,d@x,e@x}', 2, 5, true) > 0; -- six in all
    ASSERT pepsi.srs_take('{c@x,d@x}', 2, 5, true) = 0 AND pepsi.srs_take('{e@x}', 2, 5, true) > 0;
    ASSERT pepsi.srs_take('{a,b,c}', 2, 2, false) > 0;
    ASSERT pepsi.srs_take('{}', 2, 5, true) = 0;
END $$;
RESET ROLE;

DO $$
BEGIN
    ASSERT (SELECT count(*) FROM pepsi.srs_sender) = 2 AND (SELECT expires_at > now() + interval '23 days' FROM pepsi.srs_sender WHERE reference = 'abc');
    ASSERT (SELECT n FROM pepsi.srs_use WHERE target = '') = 5 AND (SELECT count(*) FROM pepsi.srs_use) = 5;
    -- the next hour: all begins anew, what is over goes
    UPDATE pepsi.srs_use SET hour = hour - interval '1 hour';
    ASSERT pepsi.srs_take('{a@x}', 2, 5, true) = 0;
    ASSERT (SELECT array_agg(target || n ORDER BY target) FROM pepsi.srs_use) = '{1,a@x1}', (SELECT array_agg(target || n ORDER BY target) FROM pepsi.srs_use)::text;
    -- what has expired is nobody's, and makes room
    UPDATE pepsi.srs_sender SET expires_at = now() - interval '1 second';
    ASSERT pepsi.srs_kept('abc') IS NULL;
    ASSERT pepsi.srs_keep('ghi', 'c@far.test', 1000000, 2);
    ASSERT (SELECT count(*) FROM pepsi.srs_sender) = 1;
    -- and one that had expired is kept again
    ASSERT pepsi.srs_keep('abc', 'Long.Sender@far.test', 1000000, 2);
    ASSERT pepsi.srs_kept('abc') = 'Long.Sender@far.test';
END $$;
