-- roles.sql: the roles of the system, made where they are missing. Run at each migration, first. A server that does not let
-- us make roles is told in a warning, and whoever connects there works with the rights of the schema's owner.
DO $$
DECLARE
    r text;
    missing text[] := '{}';
BEGIN
    FOREACH r IN ARRAY ARRAY['pepsi', 'pepsi-ingress', 'pepsi-httpd', 'pepsi-config', 'pepsi-crypto', 'pepsi-telemetry'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
            missing := missing || r;
        END IF;
    END LOOP;
    IF missing = '{}' THEN
        RETURN;
    END IF;
    IF NOT (SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE WARNING 'roles not made (% may not create roles): %; parts of the system are not separated in the database',
            current_user, array_to_string(missing, ', ');
        RETURN;
    END IF;
    FOREACH r IN ARRAY missing LOOP
        EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION', r);
    END LOOP;
END $$;
