-- grants.sql: what each role may do, and nothing else: taken away and given anew at each migration, then compared with
-- what the server has. A role that owns the schema (a server where we could not make others) is left alone.

-- The whole list. Rows: role, kind (t table, c columns of a table, s sequence, f function), object, privileges.
CREATE TEMPORARY TABLE pepsi_grant (role text, kind "char", object text, privileges text) ON COMMIT DROP;
INSERT INTO pepsi_grant VALUES
    ('pepsi', 't', 'workqueue', 'SELECT,INSERT,UPDATE,DELETE'),
    ('pepsi', 't', 'workqueue_body', 'SELECT,INSERT,DELETE'),
    ('pepsi', 't', 'stage_stats', 'SELECT,INSERT,UPDATE'),
    ('pepsi', 't', 'dispatch_stats', 'SELECT,UPDATE'),
    ('pepsi', 't', 'flow_stats', 'SELECT'),
    ('pepsi', 't', 'config_override', 'SELECT'),
    ('pepsi', 't', 'schema_version', 'SELECT'),
    ('pepsi', 't', 'alias_map', 'SELECT'),
    ('pepsi', 't', 'queue_rule', 'SELECT'),
    ('pepsi', 's', 'workqueue_id_seq', 'USAGE'),
    ('pepsi', 'f', '*', 'EXECUTE'),
    ('pepsi-ingress', 's', 'workqueue_id_seq', 'USAGE'),
    ('pepsi-ingress', 'f', 'workqueue_add', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'workqueue_add_once', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'workqueue_body_piece', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'account_use_put', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'account_use_get', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'recipient_lookup', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'greylist_ask', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'greylist_sweep', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'queue_rows', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'dmarc_tally_put', 'EXECUTE'),
    ('pepsi-ingress', 'f', 'dmarc_failure_put', 'EXECUTE'),
    ('pepsi-httpd', 'c', 'workqueue', 'SELECT (id, stage, status, timeout, received_at)'),
    ('pepsi-httpd', 't', 'stage_stats', 'SELECT'),
    ('pepsi-httpd', 't', 'dispatch_stats', 'SELECT'),
    ('pepsi-httpd', 't', 'flow_stats', 'SELECT'),
    ('pepsi-httpd', 't', 'config_override', 'SELECT'),
    ('pepsi-httpd', 't', 'schema_version', 'SELECT'),
    ('pepsi-config', 't', 'config_override', 'SELECT,INSERT,UPDATE,DELETE'),
    ('pepsi-config', 't', 'schema_version', 'SELECT'),
    ('pepsi-config', 't', 'mail_account', 'SELECT,DELETE'),
    ('pepsi-config', 'c', 'mail_account', 'INSERT (name, password, scram, enabled, senders, certificates, messages_hour, messages_day, recipients_hour, recipients_day), UPDATE (password, scram, enabled, senders, certificates, messages_hour, messages_day, recipients_hour, recipients_day, changed_at, signed_in_at)'),
    ('pepsi-config', 't', 'alias_map', 'SELECT,INSERT,UPDATE,DELETE'),
    ('pepsi-config', 't', 'recipient', 'SELECT,INSERT,DELETE'),
    ('pepsi-crypto', 't', 'workqueue', 'SELECT,INSERT,UPDATE,DELETE'),
    ('pepsi-crypto', 't', 'workqueue_body', 'SELECT,INSERT,DELETE'),
    ('pepsi-crypto', 't', 'config_override', 'SELECT'),
    ('pepsi-crypto', 's', 'workqueue_id_seq', 'USAGE'),
    ('pepsi-crypto', 'f', '*', 'EXECUTE'),
    ('pepsi-telemetry', 't', 'stage_stats', 'SELECT'),
    ('pepsi-telemetry', 't', 'dispatch_stats', 'SELECT'),
    ('pepsi-telemetry', 't', 'flow_stats', 'SELECT');

DO $$
DECLARE
    r text;
    g record;
    f record;
BEGIN
    REVOKE ALL ON SCHEMA pepsi FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA pepsi FROM PUBLIC;
    REVOKE ALL ON ALL SEQUENCES IN SCHEMA pepsi FROM PUBLIC;
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pepsi FROM PUBLIC;
    -- A generated column calls it with the rights of whoever writes the row.
    GRANT EXECUTE ON FUNCTION pepsi.sender_net(text) TO PUBLIC;
    DELETE FROM pepsi_grant p WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p.role)
        OR p.role = (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'pepsi');
    FOR r IN SELECT DISTINCT role FROM pepsi_grant LOOP
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA pepsi FROM %I', r);
        EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA pepsi FROM %I', r);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA pepsi FROM %I', r);
        EXECUTE format('REVOKE ALL ON SCHEMA pepsi FROM %I', r);
        EXECUTE format('GRANT USAGE ON SCHEMA pepsi TO %I', r);
    END LOOP;
    FOR g IN SELECT * FROM pepsi_grant LOOP
        IF g.kind IN ('t', 'c') THEN
            EXECUTE format('GRANT %s ON pepsi.%I TO %I', g.privileges, g.object, g.role);
        ELSIF g.kind = 's' THEN
            EXECUTE format('GRANT %s ON SEQUENCE pepsi.%I TO %I', g.privileges, g.object, g.role);
        ELSE
            FOR f IN SELECT oid::regprocedure AS p FROM pg_proc WHERE pronamespace = 'pepsi'::regnamespace
                     AND prorettype <> 'trigger'::regtype AND (g.object = '*' OR proname = g.object) LOOP
                EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', f.p, g.role);
            END LOOP;
        END IF;
    END LOOP;
END $$;

-- The check: every privilege on a table, sequence or function that our roles or PUBLIC hold must be in the list, and the other
-- way round; and no role of ours may be more than a plain role.
DO $$
DECLARE
    d text;
BEGIN
    WITH want AS (
        SELECT role, object, upper(trim(p)) AS privilege FROM pepsi_grant, unnest(string_to_array(privileges, ',')) p
        WHERE kind IN ('t', 's')
        UNION SELECT g.role, p.oid::regprocedure::text, 'EXECUTE' FROM pepsi_grant g JOIN pg_proc p ON g.object IN ('*', p.proname)
        WHERE g.kind = 'f' AND p.pronamespace = 'pepsi'::regnamespace AND p.prorettype <> 'trigger'::regtype
        UNION SELECT 'PUBLIC', 'pepsi.sender_net(text)'::regprocedure::text, 'EXECUTE'),
    have AS (
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END AS role, c.relname::text AS object, a.privilege_type AS privilege
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.relnamespace = 'pepsi'::regnamespace AND a.grantee <> c.relowner AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        UNION ALL
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END, p.oid::regprocedure::text, a.privilege_type
        FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE p.pronamespace = 'pepsi'::regnamespace AND a.grantee <> p.proowner),
    diff AS (
        SELECT 'missing' AS what, * FROM (SELECT * FROM want EXCEPT SELECT role, object, privilege FROM have) m
        UNION ALL
        SELECT 'too much', * FROM (SELECT role, object, privilege FROM have EXCEPT SELECT * FROM want) t
        WHERE role = 'PUBLIC' OR role IN (SELECT role FROM pepsi_grant))
    SELECT string_agg(format('%s: %s on %s for %s', what, privilege, object, role), '; ') INTO d FROM diff;
    IF d IS NOT NULL THEN
        RAISE EXCEPTION 'the grants on schema pepsi are not what they must be: %', d;
    END IF;
    SELECT string_agg(rolname, ', ') INTO d FROM pg_roles
    WHERE rolname IN (SELECT role FROM pepsi_grant) AND (rolsuper OR rolcreaterole OR rolbypassrls OR rolreplication OR rolcreatedb);
    IF d IS NOT NULL THEN
        RAISE WARNING 'these roles have more than a plain role should (superuser, createrole, createdb, replication or bypassrls): %', d;
    END IF;
    SELECT string_agg(format('%s has the rights of %s', m.rolname, g.rolname), ', ') INTO d
    FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
    WHERE m.rolname IN (SELECT role FROM pepsi_grant) AND (g.rolname IN (SELECT role FROM pepsi_grant) OR g.rolsuper);
    IF d IS NOT NULL THEN
        RAISE WARNING 'roles that should be apart are members of each other: %', d;
    END IF;
END $$;
