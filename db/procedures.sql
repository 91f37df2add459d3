-- procedures.sql: every function and trigger of the schema that can be made anew; run at each migration, after the patches.
--
-- THE NOTIFY CONTRACT
--
-- Channel `workqueue` (payload empty): rows became pending. PostgreSQL holds a database-wide lock from the moment a
-- notifying transaction begins to commit until it is done, so a notification inside admission would make all sessions commit
-- one by one. Therefore:
--   * workqueue_add does not notify. The ingress wakes the dispatcher out of band, after the commit, once per
--     DISPATCH_WAKE_INTERVAL.
--   * Writers inside the dispatcher's loop stay silent: workqueue_pause, workqueue_put_off, workqueue_finish, workqueue_finish_with_clones,
--     workqueue_split, workqueue_move, workqueue_blame, and every plain UPDATE of a worker. The worker's status line brings
--     the dispatcher back to the same claim.
--   * Writers outside it notify, in their own transaction: workqueue_inject, workqueue_resume, workqueue_retry,
--     workqueue_set_stage, workqueue_release, queue_rule_apply, failure_bounce (of pepsi-failure-bouncer), and later keydisc_release.
--   * No trigger of pepsi.workqueue notifies this channel.
-- Channel `workqueue_failed` (payload: the id): trigger workqueue_failed_notify, when a row becomes failed or timeout,
--     whoever writes it. The same trigger stamps state.failed_at.
-- Channel `config_changed` (payload empty): trigger config_changed_notify, once per statement that changes config_override or queue_rule:
--     workers are retired, and their successors read what is there.
-- Channel `recipient_changed` (payload empty): trigger recipient_changed_notify, once per statement that changes recipient or alias_map.
--
-- All names are qualified and nothing depends on the caller's search_path. Functions that run with the owner's rights
-- (SECURITY DEFINER) have a fixed one.

DO $$
DECLARE t record;
BEGIN
    FOR t IN SELECT tgname, tgrelid::regclass AS rel FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
             WHERE c.relnamespace = 'pepsi'::regnamespace AND NOT tgisinternal LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.rel);
    END LOOP;
    FOR t IN SELECT oid::regprocedure AS f FROM pg_proc
             WHERE pronamespace = 'pepsi'::regnamespace AND proname <> 'sender_net' LOOP
        EXECUTE format('DROP FUNCTION %s', t.f);
    END LOOP;
END $$;

-- ---------------------------------------------------------------------------------------------- bodies

-- Frees those of the bodies that no row refers to any more. Two transactions that drop the last two references at once each
-- see the other's and leave the body to workqueue_body_gc. Planner settings: the cached plan may be older than the
-- queue's growth; it must never scan.
CREATE FUNCTION pepsi.workqueue_body_free(p_bodies bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    DELETE FROM pepsi.workqueue_body b
    WHERE b.id = ANY (p_bodies)
      AND NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.id = b.id AND w.body_id = b.id)
      AND NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.body_id = b.id AND w.body_id <> w.id);
END $$;

-- Sweeps bodies without a row, at most p_limit; returns how many. Safe beside any writer, because a reference to a
-- body is only ever made in the transaction that makes the body, or copied from a row which that transaction holds locked: so
-- every snapshot that sees a body in use also sees a row that uses it, and this is one statement with one snapshot.
-- Reads both tables' keys as a whole, so the planner is free again here.
CREATE FUNCTION pepsi.workqueue_body_gc(p_limit integer DEFAULT 10000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $$
DECLARE n integer;
BEGIN
    DELETE FROM pepsi.workqueue_body WHERE id = ANY (ARRAY(
        SELECT b.id FROM pepsi.workqueue_body b
        WHERE NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.id = b.id AND w.body_id = b.id)
          AND NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.body_id = b.id AND w.body_id <> w.id)
        LIMIT p_limit));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- ---------------------------------------------------------------------------------------------- large bodies

-- Larger bodies are cut. (core/store has the same number, to send those in statements of their own.)
CREATE FUNCTION pepsi.workqueue_body_inline() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 65536';

-- The statements on workqueue_chunk_N, one for each N: planned once, and locking no other of those tables.
DO $gen$
BEGIN
    EXECUTE format($f$
CREATE FUNCTION pepsi.workqueue_chunks_put(p_part integer, p_id bigint, p_seq integer, p_data bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    CASE p_part %s
    END CASE;
END $$ $f$, (SELECT string_agg(format('WHEN %1$s THEN INSERT INTO pepsi.workqueue_chunk_%1$s (body_id, seq, data)
        SELECT p_id, p_seq + s, substr(p_data, s * 8120 + 1, 8120) FROM generate_series(0, (octet_length(p_data) - 1) / 8120) s;', i),
        E'\n    ' ORDER BY i) FROM generate_series(0, 7) i));
    -- Chunks p_lo to p_hi; NULL when there are none.
    EXECUTE format($f$
CREATE FUNCTION pepsi.workqueue_chunks_get(p_part integer, p_id bigint, p_lo integer, p_hi integer) RETURNS bytea
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    CASE p_part %s
    END CASE;
END $$ $f$, (SELECT string_agg(format('WHEN %1$s THEN RETURN (SELECT string_agg(data, NULL::bytea ORDER BY seq)
        FROM pepsi.workqueue_chunk_%1$s WHERE body_id = p_id AND seq BETWEEN p_lo AND p_hi);', i), E'\n    ' ORDER BY i)
        FROM generate_series(0, 7) i));
    EXECUTE format($f$
CREATE FUNCTION pepsi.workqueue_chunks_octets(p_part integer, p_id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    CASE p_part %s
    END CASE;
END $$ $f$, (SELECT string_agg(format('WHEN %1$s THEN RETURN (SELECT coalesce(sum(octet_length(data)), 0)
        FROM pepsi.workqueue_chunk_%1$s WHERE body_id = p_id);', i), E'\n    ' ORDER BY i) FROM generate_series(0, 7) i));
END $gen$;

-- A new body, here or cut.
CREATE FUNCTION pepsi.workqueue_body_put(p_id bigint, p_body bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint;
BEGIN
    IF octet_length(p_body) > pepsi.workqueue_body_inline() THEN
        SELECT part INTO STRICT p FROM pepsi.workqueue_fill;
        INSERT INTO pepsi.workqueue_body (id, part, size) VALUES (p_id, p, octet_length(p_body));
        PERFORM pepsi.workqueue_chunks_put(p, p_id, 0, p_body);
    ELSE
        INSERT INTO pepsi.workqueue_body (id, body) VALUES (p_id, p_body);
    END IF;
END $$;

-- The same for a body that is too large for one parameter: its pieces in order, in one transaction. p_size: of the whole;
-- p_seq: the number of the piece's first chunk, so each piece but the last is a multiple of 8120 octets.
CREATE FUNCTION pepsi.workqueue_body_piece(p_id bigint, p_size bigint, p_seq integer, p_data bytea) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p smallint;
BEGIN
    IF p_seq = 0 THEN
        SELECT part INTO STRICT p FROM pepsi.workqueue_fill;
        INSERT INTO pepsi.workqueue_body (id, part, size) VALUES (p_id, p, p_size);
    ELSE
        -- Of this transaction: nobody adds to what is there already.
        SELECT part INTO p FROM pepsi.workqueue_body WHERE id = p_id AND xmin = pg_current_xact_id()::xid;
        IF p IS NULL THEN
            RAISE EXCEPTION 'body % was not begun in this transaction', p_id USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    END IF;
    PERFORM pepsi.workqueue_chunks_put(p, p_id, p_seq, p_data);
END $$;

-- p_len octets (NULL: all) of a body from p_from (0 is the first); NULL when the body is gone. Between the look at its row and
-- that at its chunks it may be moved and what it was moved from be truncated, which no snapshot prevents: then the chunks are
-- not all there, and the next look, with a new snapshot, finds them.
CREATE FUNCTION pepsi.workqueue_body_get(p_id bigint, p_from bigint DEFAULT 0, p_len integer DEFAULT NULL) RETURNS bytea
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b record;
    lo bigint := p_from / 8120;     -- chunks lo to hi
    hi bigint;
    n bigint;
    data bytea;
BEGIN
    FOR tries IN 1..100 LOOP
        SELECT body, part, size, coalesce(size, octet_length(body)) AS octets INTO b FROM pepsi.workqueue_body WHERE id = p_id;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        n := least(coalesce(p_len, b.octets), b.octets - p_from);
        IF n <= 0 THEN
            RETURN '';
        ELSIF b.part IS NULL THEN
            RETURN substring(b.body FROM p_from::integer + 1 FOR n::integer);
        END IF;
        hi := (p_from + n - 1) / 8120;
        data := pepsi.workqueue_chunks_get(b.part, p_id, lo::integer, hi::integer);
        IF octet_length(data) = least((hi + 1) * 8120, b.size) - lo * 8120 THEN
            RETURN CASE WHEN n = octet_length(data) THEN data
                ELSE substring(data FROM (p_from - lo * 8120)::integer + 1 FOR n::integer) END;
        END IF;
    END LOOP;
    -- In a transaction with one snapshot for all it never comes right.
    RAISE EXCEPTION 'body % is not whole, or was moved while it was read', p_id USING ERRCODE = 'serialization_failure';
END $$;

-- Truncates workqueue_chunk_N when no body is in it. Never waits: whoever is at work in it is left alone. With the lock held,
-- whoever put chunks there has ended; and the statement that looks for bodies takes its snapshot after that, so it sees
-- theirs. Who comes later puts its chunks into the empty table, where they are as good as anywhere.
CREATE FUNCTION pepsi.workqueue_chunks_truncate(p_part integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE pepsi.workqueue_chunk_%s IN ACCESS EXCLUSIVE MODE NOWAIT', p_part);
    IF EXISTS (SELECT FROM pepsi.workqueue_body WHERE part = p_part) THEN
        RETURN false;
    END IF;
    EXECUTE format('TRUNCATE pepsi.workqueue_chunk_%s', p_part);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Copies bodies out of a table into the one being filled, up to p_octets but at least one. Bodies that somebody is about to
-- delete are skipped; who wants to delete one that is being moved waits for the end of this transaction.
CREATE FUNCTION pepsi.workqueue_chunks_move(p_from integer, p_to integer, p_octets bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    r record;
    moved bigint := 0;
BEGIN
    FOR r IN SELECT id, size FROM pepsi.workqueue_body WHERE part = p_from ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED LOOP
        EXIT WHEN moved > 0 AND moved + r.size > p_octets;
        IF pepsi.workqueue_chunks_octets(p_from, r.id) <> r.size THEN
            RAISE WARNING 'body % in chunk table % is damaged and stays where it is', r.id, p_from;
            CONTINUE;
        END IF;
        EXECUTE format('INSERT INTO pepsi.workqueue_chunk_%s (body_id, seq, data) SELECT body_id, seq, data
            FROM pepsi.workqueue_chunk_%s WHERE body_id = $1 ORDER BY seq', p_to, p_from) USING r.id;
        UPDATE pepsi.workqueue_body SET part = p_to WHERE id = r.id;
        moved := moved + r.size;
    END LOOP;
    RETURN moved;
END $$;

-- Keeps the chunk tables going; to be called for every few MiB of mail, by anybody (one at a time works, the others do nothing).
-- Moves what is left in an old table (left p_age ago and mostly dead; sooner when no empty one is there), truncates those
-- without bodies, and lets another be filled once p_fill octets are in the present one. Without an empty one the present one
-- grows. Returns how many it truncated.
CREATE FUNCTION pepsi.workqueue_body_rotate(p_fill bigint DEFAULT 67108864, p_move bigint DEFAULT 16777216,
    p_age interval DEFAULT '1 minute') RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    cur smallint;
    ages timestamptz[];
    sizes bigint[];
    used boolean[];
    live bigint;
    best integer;
    best_live bigint;
    other integer;                  -- an empty one, or one that can be emptied
    cut integer := 0;
BEGIN
    IF NOT pg_try_advisory_xact_lock('pepsi.workqueue_fill'::regclass::oid::bigint) THEN
        RETURN 0;
    END IF;
    SELECT part, left_at INTO STRICT cur, ages FROM pepsi.workqueue_fill;
    FOR i IN 0..7 LOOP
        sizes[i] := pg_relation_size(format('pepsi.workqueue_chunk_%s', i)::regclass);
        used[i] := i = cur OR EXISTS (SELECT FROM pepsi.workqueue_body WHERE part = i);
        IF NOT used[i] THEN
            other := i;
        END IF;
    END LOOP;

    FOR i IN 0..7 LOOP
        CONTINUE WHEN i = cur OR NOT used[i] OR (ages[i] > now() - p_age AND (other IS NOT NULL OR sizes[cur] < p_fill));
        SELECT coalesce(sum(size), 0) INTO live FROM pepsi.workqueue_body WHERE part = i;
        IF live <= sizes[i] / 4 AND (best IS NULL OR live < best_live) THEN
            best := i;
            best_live := live;
        END IF;
    END LOOP;
    IF best IS NOT NULL THEN
        PERFORM pepsi.workqueue_chunks_move(best, cur, p_move);
    END IF;

    FOR i IN 0..7 LOOP
        IF i <> cur AND sizes[i] > 0 AND (NOT used[i] OR i = best) AND pepsi.workqueue_chunks_truncate(i) THEN
            sizes[i] := 0;
            cut := cut + 1;
        END IF;
    END LOOP;

    IF sizes[cur] >= p_fill THEN
        SELECT (cur + k) % 8 INTO other FROM generate_series(1, 7) k WHERE sizes[(cur + k) % 8] = 0 ORDER BY k LIMIT 1;
        IF FOUND THEN
            ages[cur] := now();
            UPDATE pepsi.workqueue_fill SET part = other, left_at = ages;
        END IF;
    END IF;
    RETURN cut;
END $$;

-- ---------------------------------------------------------------------------------------------- accounting

-- The slot of flow_stats to count in: the first, from this backend's own on, in which no other transaction counts. To wait for the
-- row that another one has changed would be to wait for its commit, whatever it is doing meanwhile; two backends whose pids
-- are equal modulo 64 are not rare. The lock is taken before the row is, by all, and goes with the transaction.
CREATE FUNCTION pepsi.flow_slot() RETURNS smallint
LANGUAGE plpgsql AS $$
DECLARE own integer := pg_backend_pid() % 64;
BEGIN
    FOR i IN own .. own + 63 LOOP
        IF pg_try_advisory_xact_lock(hashtext('pepsi.flow_stats'), i % 64) THEN
            RETURN i % 64;
        END IF;
    END LOOP;
    RETURN own; -- 64 others are counting: now it is waited for
END $$;

CREATE FUNCTION pepsi.workqueue_count_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n bigint;
BEGIN
    SELECT count(*) INTO n FROM made;
    IF n > 0 THEN
        UPDATE pepsi.flow_stats SET accepted = accepted + n WHERE slot = (SELECT pepsi.flow_slot());
    END IF;
    RETURN NULL;
END $$;

-- Books rows that go, by the outcome which the deleting function has set, and frees their bodies.
CREATE FUNCTION pepsi.workqueue_count_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    n bigint;
    bodies bigint[];
    outcome text := coalesce(current_setting('pepsi.outcome', true), '');
BEGIN
    SELECT count(*), array_agg(body_id) INTO n, bodies FROM gone;
    IF n = 0 THEN
        RETURN NULL;
    END IF;
    UPDATE pepsi.flow_stats SET
        delivered = delivered + CASE WHEN outcome = 'delivered' THEN n ELSE 0 END,
        bounced = bounced + CASE WHEN outcome = 'bounced' THEN n ELSE 0 END,
        discarded = discarded + CASE WHEN outcome IN ('delivered', 'bounced') THEN 0 ELSE n END
    WHERE slot = (SELECT pepsi.flow_slot());
    DELETE FROM pepsi.workqueue_body b
    WHERE b.id = ANY (bodies)
      AND NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.id = b.id AND w.body_id = b.id)
      AND NOT EXISTS (SELECT FROM pepsi.workqueue w WHERE w.body_id = b.id AND w.body_id <> w.id);
    RETURN NULL;
END $$;

-- p_n messages were turned into reports in place: those are bounced, these are new.
CREATE FUNCTION pepsi.flow_bounced(p_n bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE pepsi.flow_stats SET bounced = bounced + p_n, accepted = accepted + p_n WHERE slot = (SELECT pepsi.flow_slot());
$$;

CREATE FUNCTION pepsi.workqueue_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of pepsi.workqueue is not possible', TG_OP USING
        ERRCODE = 'feature_not_supported', HINT = 'DELETE keeps the accounting and the bodies right.';
END $$;

CREATE TRIGGER workqueue_count_insert AFTER INSERT ON pepsi.workqueue REFERENCING NEW TABLE AS made
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.workqueue_count_insert();
CREATE TRIGGER workqueue_count_delete AFTER DELETE ON pepsi.workqueue REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.workqueue_count_delete();
CREATE TRIGGER workqueue_refuse BEFORE TRUNCATE ON pepsi.workqueue
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.workqueue_refuse();

-- ---------------------------------------------------------------------------------------------- failures, configuration

-- AFTER with a WHEN clause, for its price where nothing failed is one comparison; a BEFORE trigger would lock every row
-- of every UPDATE a second time.
CREATE FUNCTION pepsi.workqueue_failed_notify() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pepsi.workqueue SET state = state || jsonb_build_object('failed_at',
        to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
    WHERE id = NEW.id;
    PERFORM pg_notify('workqueue_failed', NEW.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER workqueue_failed_notify AFTER UPDATE OF status ON pepsi.workqueue FOR EACH ROW
    WHEN (NEW.status IN ('failed', 'timeout') AND OLD.status NOT IN ('failed', 'timeout'))
    EXECUTE FUNCTION pepsi.workqueue_failed_notify();
CREATE TRIGGER workqueue_failed_notify_insert AFTER INSERT ON pepsi.workqueue FOR EACH ROW
    WHEN (NEW.status IN ('failed', 'timeout')) EXECUTE FUNCTION pepsi.workqueue_failed_notify();

CREATE FUNCTION pepsi.config_changed_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('config_changed', '');
    RETURN NULL;
END $$;
CREATE TRIGGER config_changed_notify AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pepsi.config_override
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.config_changed_notify();

-- ---------------------------------------------------------------------------------------------- helpers

-- p_old || p_new; keys that p_new gives as null are removed.
CREATE FUNCTION pepsi.state_merge(p_old jsonb, p_new jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_new IS NULL THEN p_old
        ELSE (p_old || p_new) - ARRAY(SELECT key FROM jsonb_each(p_new) WHERE value = 'null') END
$$;

-- For people and JSON: RFC 3339 in UTC.
CREATE FUNCTION pepsi.iso(p timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_char(p AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Why a message is not on its way: what a stage or the dispatcher noted last, or NULL.
CREATE FUNCTION pepsi.last_error(p_state jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT left(coalesce(p_state ->> 'last_error',
        'worker ' || (p_state #>> '{dispatch_error,kind}') || ' at stage ' || (p_state #>> '{dispatch_error,stage}')
            || coalesce(': ' || (p_state #>> '{dispatch_error,report,what}'), ''),
        p_state #>> '{bounce,diagnostic}'), 500)
$$;

-- Is the row held by an operator (pepsi queue hold), by a rule or by hand?
CREATE FUNCTION pepsi.is_held(p_status pepsi.workqueue_status, p_state jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT p_status = 'paused' AND (p_state #>> '{held,rule}') IS NOT NULL
$$;

-- The state of a row whose hold ends now: of state.held stays how long it was held in all (its lifetime stood still) and, p_released,
-- since when no older rule holds it any more.
CREATE FUNCTION pepsi.held_over(p_state jsonb, p_released boolean DEFAULT false) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_state #> '{held,rule}' IS NULL THEN p_state ELSE jsonb_set(p_state, '{held}', jsonb_strip_nulls(jsonb_build_object(
        's', CASE WHEN jsonb_typeof(p_state #> '{held,s}') = 'number' THEN least((p_state #>> '{held,s}')::numeric, 1e10)::bigint ELSE 0 END
           + CASE WHEN jsonb_typeof(p_state #> '{held,since}') = 'number' THEN greatest(0, least(1e10,
                extract(epoch FROM now()) - (p_state #>> '{held,since}')::numeric))::bigint ELSE 0 END,
        'released', CASE WHEN p_released THEN (extract(epoch FROM now()) * 1000000)::bigint
            WHEN jsonb_typeof(p_state #> '{held,released}') = 'number' THEN least((p_state #>> '{held,released}')::numeric, 9e18)::bigint END))) END
$$;

-- Recipients by index (from 0), in the order of the indices.
CREATE FUNCTION pepsi.rcpt_subset(p_rcpt text[], p_keep integer[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_keep) k WHERE k IS NULL OR k < 0 OR k >= cardinality(p_rcpt)) THEN
        RAISE EXCEPTION 'recipient index out of range: % of % recipients', p_keep, cardinality(p_rcpt)
            USING ERRCODE = 'array_subscript_error';
    END IF;
    RETURN ARRAY(SELECT p_rcpt[k + 1] FROM unnest(p_keep) WITH ORDINALITY u(k, o) ORDER BY o);
END $$;

-- The state that goes with these recipients: dsn.rcpt runs parallel to rcpt_to.
CREATE FUNCTION pepsi.state_subset(p_state jsonb, p_keep integer[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(p_state #> '{dsn,rcpt}') = 'array' THEN
        jsonb_set(p_state, '{dsn,rcpt}', coalesce((SELECT jsonb_agg(coalesce(p_state #> '{dsn,rcpt}' -> k, '{}') ORDER BY o)
            FROM unnest(p_keep) WITH ORDINALITY u(k, o)), '[]'))
        ELSE p_state END
$$;

CREATE FUNCTION pepsi.json_integers(p jsonb) RETURNS integer[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT v::integer FROM jsonb_array_elements_text(p) WITH ORDINALITY u(v, o) ORDER BY o)
$$;
CREATE FUNCTION pepsi.json_texts(p jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY(SELECT v FROM jsonb_array_elements_text(p) WITH ORDINALITY u(v, o) ORDER BY o)
$$;

-- Rows made out of row p_id on the server, sharing its body. Each clone is an object:
--   stage, status ("pending", "retry", "failed"), retry_s, token (required);
--   indices: [0, 2] of the row's recipients, or rcpts: ["a@b"]; state: {} to merge; mail_from.
-- Pending ones begin a life of their own (received_at is now), the others keep received_at. A token that exists
-- already makes nothing. With indices the entries of dsn.rcpt go along; fresh addresses have none unless state says.
-- The caller holds the row locked.
CREATE FUNCTION pepsi.workqueue_clone(p_id bigint, p_clones jsonb) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    IF p_clones IS NULL OR p_clones = '[]' THEN
        RETURN 0;
    END IF;
    IF EXISTS (SELECT FROM jsonb_array_elements(p_clones) c WHERE coalesce(c ->> 'token', '') = ''
            OR coalesce(c ->> 'stage', '') = '' OR coalesce(c ->> 'status', 'pending') NOT IN ('pending', 'retry', 'failed')
            OR (jsonb_typeof(c -> 'indices') IS DISTINCT FROM 'array') = (jsonb_typeof(c -> 'rcpts') IS DISTINCT FROM 'array')
            OR coalesce(c -> 'indices', c -> 'rcpts') = '[]'
            OR coalesce(jsonb_typeof(c -> 'state'), 'object') <> 'object') THEN
        RAISE EXCEPTION 'a clone of row % has no stage, token or recipients, or an unknown status, or a state that is no object', p_id
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO pepsi.workqueue (id, mail_from, rcpt_to, headers, body_id, stage, status, state, timeout, received_at, token)
    SELECT nextval('pepsi.workqueue_id_seq'), coalesce(c ->> 'mail_from', w.mail_from),
        CASE WHEN c ? 'indices' THEN pepsi.rcpt_subset(w.rcpt_to, pepsi.json_integers(c -> 'indices'))
            ELSE pepsi.json_texts(c -> 'rcpts') END,
        w.headers, w.body_id, c ->> 'stage',
        (CASE coalesce(c ->> 'status', 'pending') WHEN 'retry' THEN 'paused' ELSE coalesce(c ->> 'status', 'pending')
            END)::pepsi.workqueue_status,
        pepsi.state_merge(CASE WHEN c ? 'indices' THEN pepsi.state_subset(w.state, pepsi.json_integers(c -> 'indices'))
            ELSE w.state #- '{dsn,rcpt}' END - 'dispatch_error', c -> 'state'),
        CASE c ->> 'status' WHEN 'retry' THEN now() + coalesce((c ->> 'retry_s')::integer, 0) * interval '1 second' END,
        CASE WHEN c ->> 'status' IN ('retry', 'failed') THEN w.received_at ELSE now() END, c ->> 'token'
    FROM pepsi.workqueue w CROSS JOIN LATERAL jsonb_array_elements(p_clones) WITH ORDINALITY e(c, o)
    WHERE w.id = p_id ORDER BY o
    ON CONFLICT (token) WHERE token IS NOT NULL DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- ---------------------------------------------------------------------------------------------- admission

-- When a message that is held (state.hold, FUTURERELEASE and over-cap mail) is to go on; NULL: it is not held, or not any more. The ingress's
-- clock said until when and it said p_received_at: what counts is the difference, on the server's clock.
CREATE FUNCTION pepsi.hold_end(p_state jsonb, p_received_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN jsonb_typeof(p_state #> '{hold,until}') = 'number'
            AND (p_state #> '{hold,until}')::numeric BETWEEN extract(epoch FROM p_received_at) AND 253402300799
        THEN now() + (to_timestamp((p_state #> '{hold,until}')::double precision) - p_received_at) END
$$;

-- One message; paused when it is held. Does not notify. p_running: handed to a worker right after the commit. p_body NULL: it came by
-- workqueue_body_piece, and must be there as a whole.
CREATE FUNCTION pepsi.workqueue_add(p_id bigint, p_stage text, p_running boolean, p_received_at timestamptz,
    p_mail_from text, p_rcpt_to text[], p_state jsonb, p_headers bytea, p_body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b record;
    due timestamptz;
BEGIN
    IF p_body IS NULL THEN
        SELECT part, size INTO b FROM pepsi.workqueue_body WHERE id = p_id AND xmin = pg_current_xact_id()::xid;
        IF b.part IS NULL OR pepsi.workqueue_chunks_octets(b.part, p_id) <> b.size THEN
            RAISE EXCEPTION 'body % is not there as a whole', p_id USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
    ELSIF octet_length(p_body) > pepsi.workqueue_body_inline() THEN
        PERFORM pepsi.workqueue_body_put(p_id, p_body);
    ELSE
        INSERT INTO pepsi.workqueue_body (id, body) VALUES (p_id, p_body);
    END IF;
    due := CASE WHEN NOT p_running THEN pepsi.hold_end(p_state, p_received_at) END;
    INSERT INTO pepsi.workqueue (id, mail_from, rcpt_to, headers, body_id, stage, status, state, received_at, timeout)
    VALUES (p_id, p_mail_from, p_rcpt_to, p_headers, p_id, p_stage,
        CASE WHEN p_running THEN 'running' WHEN due IS NOT NULL THEN 'paused' ELSE 'pending' END::pepsi.workqueue_status, p_state,
        p_received_at, due);
    UPDATE pepsi.flow_stats SET received = received + 1 WHERE slot = (SELECT pepsi.flow_slot());
    RETURN p_id;
END $$;

-- One message that may come again: made once for each p_once, whatever became of it since. NULL: it was taken before, nothing was made
-- (a body that came in pieces is swept like any that no row refers to). Forgets a few of the keys that are a week old.
CREATE FUNCTION pepsi.workqueue_add_once(p_once text, p_id bigint, p_stage text, p_running boolean, p_received_at timestamptz,
    p_mail_from text, p_rcpt_to text[], p_state jsonb, p_headers bytea, p_body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.submission WHERE token IN (SELECT s.token FROM pepsi.submission s
        WHERE s.taken_at < now() - interval '7 days' ORDER BY s.taken_at LIMIT 10 FOR UPDATE SKIP LOCKED);
    INSERT INTO pepsi.submission (token) VALUES (p_once) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN pepsi.workqueue_add(p_id, p_stage, p_running, p_received_at, p_mail_from, p_rcpt_to, p_state, p_headers, p_body);
END $$;

-- Many messages (workqueue_add() of one above) as parallel arrays: one statement per table instead of one per message. The recipients of all are
-- in p_rcpts; those of message i are p_rcpts[p_rcpt_lo[i]:p_rcpt_hi[i]].
CREATE FUNCTION pepsi.workqueue_add(p_id bigint[], p_stage text[], p_running boolean[], p_received_at timestamptz[],
    p_mail_from text[], p_rcpts text[], p_rcpt_lo integer[], p_rcpt_hi integer[], p_state text[], p_headers bytea[],
    p_body bytea[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n integer;
BEGIN
    INSERT INTO pepsi.workqueue_body (id, body) SELECT u.id, u.body FROM unnest(p_id, p_body) u(id, body);
    INSERT INTO pepsi.workqueue (id, mail_from, rcpt_to, headers, body_id, stage, status, state, received_at, timeout)
    SELECT u.id, u.mail_from, p_rcpts[u.lo:u.hi], u.headers, u.id, u.stage,
        CASE WHEN u.running THEN 'running' WHEN h.due IS NOT NULL THEN 'paused' ELSE 'pending' END::pepsi.workqueue_status,
        u.state::jsonb, u.received_at, h.due
    FROM unnest(p_id, p_stage, p_running, p_received_at, p_mail_from, p_rcpt_lo, p_rcpt_hi, p_state, p_headers)
        u(id, stage, running, received_at, mail_from, lo, hi, state, headers)
    CROSS JOIN LATERAL (SELECT CASE WHEN NOT u.running AND strpos(u.state, '"hold"') > 0
        THEN pepsi.hold_end(u.state::jsonb, u.received_at) END AS due) h;
    GET DIAGNOSTICS n = ROW_COUNT;
    UPDATE pepsi.flow_stats SET received = received + n WHERE slot = (SELECT pepsi.flow_slot());
    RETURN n;
END $$;

-- A side message of its own; notifies. p_parent: only while that row is running, at stage p_from (so that a pass whose answer was lost
-- and which is committed again injects once). Returns the new id, or NULL when nothing was made.
CREATE FUNCTION pepsi.workqueue_inject(p_stage text, p_mail_from text, p_rcpt_to text[], p_headers bytea, p_body bytea,
    p_state jsonb DEFAULT '{}', p_parent bigint DEFAULT NULL, p_from text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE new_id bigint;
BEGIN
    IF cardinality(p_rcpt_to) = 0 THEN
        RAISE EXCEPTION 'a side message needs a recipient' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF p_parent IS NOT NULL THEN
        PERFORM 1 FROM pepsi.workqueue WHERE id = p_parent AND status = 'running'
            AND (p_from IS NULL OR lower(stage) = lower(p_from)) FOR UPDATE;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
    END IF;
    new_id := nextval('pepsi.workqueue_id_seq');
    PERFORM pepsi.workqueue_body_put(new_id, p_body);
    INSERT INTO pepsi.workqueue (id, mail_from, rcpt_to, headers, body_id, stage, status, state)
    VALUES (new_id, p_mail_from, p_rcpt_to, p_headers, new_id, p_stage, 'pending', coalesce(p_state, '{}'));
    PERFORM pg_notify('workqueue', '');
    RETURN new_id;
END $$;

-- ---------------------------------------------------------------------------------------------- a worker's terminals
-- Each acts on a row only while it is running, and at stage p_from unless that is NULL; on any other (gone, taken away by an
-- operator, gone on to the next stage because this is a commit tried again after its answer was lost) it does nothing.

-- New stage and status and exactly the columns that are not NULL; a new body is a new row of workqueue_body, so that
-- siblings never see it. p_replace: the row becomes another message (a report): the old one counts as bounced.
CREATE FUNCTION pepsi.workqueue_move(p_id bigint, p_stage text, p_status pepsi.workqueue_status, p_secs integer,
    p_state jsonb, p_replace boolean, p_headers bytea, p_mail_from text, p_rcpt_to text[], p_body bytea,
    p_from text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    old_body bigint;
    new_body bigint;
BEGIN
    IF p_body IS NOT NULL THEN
        SELECT body_id INTO old_body FROM pepsi.workqueue WHERE id = p_id AND status = 'running'
            AND (p_from IS NULL OR lower(stage) = lower(p_from)) FOR UPDATE;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        new_body := nextval('pepsi.workqueue_id_seq');
        PERFORM pepsi.workqueue_body_put(new_body, p_body);
    END IF;
    UPDATE pepsi.workqueue SET stage = coalesce(p_stage, stage), status = p_status,
        timeout = CASE WHEN p_status = 'paused' THEN now() + p_secs * interval '1 second' END,
        state = CASE WHEN p_replace THEN coalesce(p_state, '{}') ELSE pepsi.state_merge(state, p_state) END,
        received_at = CASE WHEN p_replace THEN now() ELSE received_at END,
        headers = coalesce(p_headers, headers), mail_from = coalesce(p_mail_from, mail_from),
        rcpt_to = coalesce(p_rcpt_to, rcpt_to), body_id = coalesce(new_body, body_id)
    WHERE id = p_id AND status = 'running' AND (p_from IS NULL OR lower(stage) = lower(p_from));
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF old_body IS NOT NULL THEN
        PERFORM pepsi.workqueue_body_free(ARRAY[old_body]);
    END IF;
    IF p_replace THEN
        PERFORM pepsi.flow_bounced(1);
    END IF;
    RETURN true;
END $$;

-- Deletes running rows: delivered, bounced or discarded. Returns how many.
CREATE FUNCTION pepsi.workqueue_finish(p_ids bigint[], p_outcome text, p_from text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    IF p_outcome IS NULL OR p_outcome NOT IN ('delivered', 'bounced', 'discarded') THEN
        RAISE EXCEPTION 'unknown outcome %', p_outcome USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config('pepsi.outcome', p_outcome, true);
    DELETE FROM pepsi.workqueue WHERE id = ANY (p_ids) AND status = 'running' AND (p_from IS NULL OR lower(stage) = lower(p_from));
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('pepsi.outcome', '', true);
    RETURN n;
END $$;

-- Deletes the row and makes clones of it, in one. Returns the number of clones, or NULL when the row was not running.
CREATE FUNCTION pepsi.workqueue_finish_with_clones(p_id bigint, p_outcome text, p_clones jsonb, p_from text DEFAULT NULL)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    PERFORM 1 FROM pepsi.workqueue WHERE id = p_id AND status = 'running' AND (p_from IS NULL OR lower(stage) = lower(p_from)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    n := pepsi.workqueue_clone(p_id, p_clones);
    PERFORM pepsi.workqueue_finish(ARRAY[p_id], p_outcome);
    RETURN n;
END $$;

-- Pauses the row for p_secs, merges p_state, keeps only the recipients p_keep (NULL: all), makes clones (whose indices count
-- before the keeping). Returns the number of clones, or NULL when the row was not running.
CREATE FUNCTION pepsi.workqueue_pause(p_id bigint, p_secs integer, p_state jsonb DEFAULT NULL, p_keep integer[] DEFAULT NULL,
    p_clones jsonb DEFAULT NULL, p_from text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    IF p_keep = '{}' THEN
        RAISE EXCEPTION 'a paused row needs a recipient' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM 1 FROM pepsi.workqueue WHERE id = p_id AND status = 'running' AND (p_from IS NULL OR lower(stage) = lower(p_from)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    n := pepsi.workqueue_clone(p_id, p_clones);
    UPDATE pepsi.workqueue SET status = 'paused', timeout = now() + p_secs * interval '1 second',
        rcpt_to = CASE WHEN p_keep IS NULL THEN rcpt_to ELSE pepsi.rcpt_subset(rcpt_to, p_keep) END,
        state = pepsi.state_merge(CASE WHEN p_keep IS NULL THEN state ELSE pepsi.state_subset(state, p_keep) END, p_state)
    WHERE id = p_id;
    RETURN n;
END $$;

-- Siblings for groups of recipients; the row stays running and keeps p_keep (NULL: all; empty: none, when it is to be finished
-- next). Returns the number of siblings, or NULL when the row was not running.
CREATE FUNCTION pepsi.workqueue_split(p_id bigint, p_keep integer[], p_groups jsonb, p_from text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    PERFORM 1 FROM pepsi.workqueue WHERE id = p_id AND status = 'running' AND (p_from IS NULL OR lower(stage) = lower(p_from)) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    n := pepsi.workqueue_clone(p_id, p_groups);
    IF p_keep IS NOT NULL THEN
        UPDATE pepsi.workqueue SET rcpt_to = pepsi.rcpt_subset(rcpt_to, p_keep), state = pepsi.state_subset(state, p_keep)
        WHERE id = p_id;
    END IF;
    RETURN n;
END $$;

-- ---------------------------------------------------------------------------------------------- the dispatcher

-- The claim: up to p_limit[s] pending rows of p_stage[s] become running, for all stages in one statement. Of these p_fifo[s]
-- are the oldest of all, so that no row starves; the others go by fair share: each sender who waits has an account of worker
-- time (the dispatcher's book: p_book_*, else p_floor[s]); its n-th row counts n times p_cost[s] on top; the rows that come
-- out least are taken. Senders are found by stepping through an index from one to the next, so the price depends on how
-- many senders wait, not on how many rows. With more than 2000 of them the later ones (by key) wait for the FIFO share.
-- Among its own rows a sender's come by priority (MT-PRIORITY, RFC 6710), then by age: whoever asks for haste takes it from his own
-- other mail and from nobody else's, and none of that starves, for the FIFO share does not look at priorities.
-- Where p_domain[s] is 1, the domain of the first recipient comes along in lower case, for stages that bring messages to one place together.
-- The planner settings keep to the indexes whatever the statistics say of a queue that was empty a moment ago; what they forbid it counts as very
-- dear, and would be compiled for that. For the same reason the rows are
-- updated by a list of ids, and their status is compared as text: with a join, or with a comparison that implies the predicate of a partial
-- index, all that is pending may be read for each row of the list, when there was nothing pending at the last ANALYZE.
CREATE FUNCTION pepsi.workqueue_claim(p_stage text[], p_limit integer[], p_fifo integer[], p_floor bigint[], p_cost bigint[],
    p_book_stage integer[], p_book_key text[], p_book_time bigint[], p_domain integer[] DEFAULT NULL)
RETURNS TABLE (id bigint, stage integer, sender_key text, domain text)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    s integer;
    senders text[];
    who text;
    per integer;
BEGIN
    FOR s IN 1 .. cardinality(p_stage) LOOP
        senders := '{}';
        SELECT w.sender_key INTO who FROM pepsi.workqueue w
        WHERE w.status = 'pending' AND w.stage = p_stage[s] ORDER BY w.sender_key LIMIT 1;
        WHILE FOUND AND cardinality(senders) < 2000 LOOP
            senders := senders || who;
            SELECT w.sender_key INTO who FROM pepsi.workqueue w
            WHERE w.status = 'pending' AND w.stage = p_stage[s] AND w.sender_key > who ORDER BY w.sender_key LIMIT 1;
        END LOOP;
        CONTINUE WHEN cardinality(senders) = 0;
        -- twice an equal part each: enough for the least served to catch up, without reading every row of all
        per := CASE WHEN cardinality(senders) = 1 THEN p_limit[s] ELSE 1 + 2 * p_limit[s] / cardinality(senders) END;
        RETURN QUERY
        WITH aged AS MATERIALIZED (
            SELECT w.id FROM pepsi.workqueue w WHERE w.status = 'pending' AND w.stage = p_stage[s]
            ORDER BY w.received_at LIMIT least(p_fifo[s], p_limit[s])
        ), fair AS MATERIALIZED (
            SELECT c.id, coalesce(b.t, p_floor[s]) + c.n * p_cost[s] AS due FROM unnest(senders) u(key)
            LEFT JOIN unnest(p_book_stage, p_book_key, p_book_time) b(st, key, t) ON b.st = s AND b.key = u.key
            CROSS JOIN LATERAL (SELECT r.id, row_number() OVER (ORDER BY r.urgency, r.id) AS n FROM (SELECT w.id,
                    CASE WHEN jsonb_typeof(w.state -> 'priority') = 'number' THEN -(w.state -> 'priority')::numeric ELSE 0 END AS urgency
                FROM pepsi.workqueue w WHERE w.status = 'pending' AND w.stage = p_stage[s] AND w.sender_key = u.key
                ORDER BY urgency, w.id LIMIT per) r) c
        ), pick AS MATERIALIZED (
            SELECT a.id FROM aged a
            UNION ALL
            (SELECT f.id FROM fair f WHERE f.id NOT IN (SELECT a.id FROM aged a) ORDER BY f.due, f.id
             LIMIT p_limit[s] - (SELECT count(*) FROM aged))
        )
        UPDATE pepsi.workqueue w SET status = 'running' WHERE w.id = ANY (ARRAY(SELECT p.id FROM pick p)) AND w.status::text = 'pending'
        RETURNING w.id, s, w.sender_key, CASE WHEN p_domain[s] = 1 THEN lower(left(split_part(w.rcpt_to[1], '@', -1), 255)) END;
    END LOOP;
END $$;

-- Paused rows whose time has come become pending: of the p_limit that are due first, behind (p_after, p_after_id) unless that is NULL. At p_stage[s] a
-- domain gets one, as long as p_firsts[s] domains did not (less than 0: all go); the others stay as they are until their domain is named by the
-- dispatcher, which does so when one of the first was answered, or takes too long. So where thousands become due at once, what waits for a destination
-- that takes nothing costs nothing: it is neither changed nor claimed, and can be put off as it lies. Named are p_domain[i] at
-- p_stage[p_domain_stage[i]], of which p_domain_n[i] rows become pending, those that are due first; with 0 it is passed by. Never waiting for another
-- one of their domain: rows with a deadline of the sender's (DELIVERBY), and those that an operator's hold ends for.
-- Rows: for each domain of which some were left behind, or may be where there is more to look at (n -1; -2: it got none); for each that was named with
-- more than 0: how many became pending; the last one has stage 0: how many did in all, how long until the next is due (0: never, 1: there are more
-- now), the clock, and the last row that was looked at.
-- A list of ids, and the status as text: see workqueue_claim. Without sorting: what is due is in order but for equal times, and is not to be read as a
-- whole.
CREATE FUNCTION pepsi.workqueue_due(p_stage text[], p_firsts integer[], p_after timestamptz, p_after_id bigint, p_domain_stage integer[],
    p_domain text[], p_domain_n integer[], p_limit integer)
RETURNS TABLE (stage integer, domain text, n integer, wait_us bigint, clock timestamptz, upto timestamptz, upto_id bigint)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    k record;
    r record;
    ids bigint[] := '{}';
    more bigint[];
    looked integer := 0;
BEGIN
    FOR k IN SELECT u.s, u.d, u.n FROM unnest(p_domain_stage, p_domain, p_domain_n) u(s, d, n) WHERE u.n > 0 LOOP
        EXIT WHEN cardinality(ids) >= 1000; -- of the others nothing is said
        -- BETWEEN: see workqueue_put_off
        more := ARRAY(SELECT w.id FROM pepsi.workqueue w
            WHERE w.status = 'paused' AND w.stage = p_stage[k.s] AND lower(left(split_part(w.rcpt_to[1], '@', -1), 255)) BETWEEN k.d AND k.d AND w.timeout <= now()
            ORDER BY lower(left(split_part(w.rcpt_to[1], '@', -1), 255)), w.timeout, w.id LIMIT k.n);
        ids := ids || more;
        stage := k.s;
        domain := k.d;
        n := cardinality(more);
        RETURN NEXT;
    END LOOP;
    upto := p_after;
    upto_id := p_after_id;
    FOR r IN
        WITH due AS MATERIALIZED (
            SELECT w.id, w.timeout, array_position(p_stage, w.stage) AS s, lower(left(split_part(w.rcpt_to[1], '@', -1), 255)) AS d,
                w.state ? 'deliver_by' OR pepsi.is_held(w.status, w.state) OR array_position(p_stage, w.stage) IS NULL AS apart
            FROM pepsi.workqueue w
            WHERE w.status = 'paused' AND w.timeout <= now() AND w.timeout >= coalesce(p_after, '-infinity')
              AND (p_after IS NULL OR w.timeout > p_after OR w.id > p_after_id)
            ORDER BY w.timeout, w.id LIMIT p_limit
        )
        SELECT d.*, count(*) OVER () = p_limit AS goes_on, row_number() OVER (PARTITION BY d.s, d.d, d.apart ORDER BY d.timeout, d.id) AS nth,
            (d.s, d.d) IN (SELECT u.s, u.d FROM unnest(p_domain_stage, p_domain) u(s, d)) AS named
        FROM due d ORDER BY d.timeout, d.id
    LOOP
        looked := looked + 1;
        upto := r.timeout;
        upto_id := r.id;
        IF r.apart OR p_firsts[r.s] < 0 THEN
            ids := ids || r.id;
            CONTINUE;
        END IF;
        CONTINUE WHEN r.named OR r.nth > 2;
        stage := r.s;
        domain := r.d;
        n := NULL;
        IF r.nth = 1 AND p_firsts[r.s] > 0 THEN
            p_firsts[r.s] := p_firsts[r.s] - 1;
            ids := ids || r.id;
            n := CASE WHEN r.goes_on THEN -1 END;
        ELSIF r.nth = 1 THEN
            n := -2;
        ELSIF NOT r.goes_on THEN
            n := -1;
        END IF;
        IF n IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
    -- put_off is of this pause, or of one before: see workqueue_put_off
    UPDATE pepsi.workqueue w SET status = 'pending', timeout = NULL, state = CASE WHEN w.state ? 'held' THEN pepsi.held_over(w.state)
            WHEN w.state ->> 'put_off' <> pepsi.iso(w.timeout) THEN w.state - 'put_off' ELSE w.state END
    WHERE w.id = ANY (ids) AND w.status::text = 'paused' AND w.timeout <= now();
    GET DIAGNOSTICS n = ROW_COUNT;
    stage := 0;
    domain := '';
    wait_us := CASE WHEN looked = p_limit AND looked > 0 THEN 1 ELSE coalesce((SELECT ceil(extract(epoch FROM w.timeout - now()) * 1000000)::bigint
        FROM pepsi.workqueue w WHERE w.status = 'paused' AND w.timeout > now() AND w.timeout < 'infinity' ORDER BY w.timeout LIMIT 1), 0) END;
    clock := clock_timestamp();
    RETURN NEXT;
END $$;

-- A destination takes nothing now, or takes it slowly: what else waits for it at the same stage would be claimed, handed to the worker and given
-- back, one row after the other. So the worker that gives one row back puts the others off with it (host->pause_others()): pending rows of
-- p_stage[i] whose recipients are all at p_domain[i], at most p_limit of each, the oldest first, are due one after the other, one in
-- p_each_ms[i], the first after p_first_s[i] seconds; with chance in it, and p_most_s at most: those beyond come in the second half of
-- that time. Like each of them given back, it is no attempt, and state.last_error tells why. Never beyond a row's lifetime (p_life_s[i]).
-- Left alone, and so claimed as always: rows whose lifetime is over; with a deadline of the sender's (DELIVERBY); whose recipients are at several
-- domains; that a rule of an operator means, who does not want them to wait here; and those that an operator wants tried (timeout is
-- '-infinity', see workqueue_retry). What workqueue_due left behind, too: it is in nobody's way. And no row twice in a row (state.put_off: until when; when that is its last
-- pause): in between it comes to a worker, which tells a sender that his message is late. Rows that somebody else is changing are passed by: this waits for nobody. Returns how many.
CREATE FUNCTION pepsi.workqueue_put_off(p_stage text[], p_domain text[], p_first_s integer[], p_each_ms integer[], p_error text[], p_life_s bigint[],
    p_most_s integer, p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    ids bigint[];
    due timestamptz[];
    rules boolean := EXISTS (SELECT FROM pepsi.queue_rule r WHERE r.expires_at IS NULL OR r.expires_at > now());
    most double precision;
    first integer;
    changed integer;
    n integer := 0;
BEGIN
    FOR i IN 1 .. cardinality(p_domain) LOOP
        -- BETWEEN, for an order that no index but workqueue_domain has: any other would be read from its beginning
        ids := ARRAY(SELECT w.id FROM pepsi.workqueue w
            WHERE w.status = 'pending' AND w.stage = p_stage[i] AND lower(left(split_part(w.rcpt_to[1], '@', -1), 255)) BETWEEN lower(left(p_domain[i], 255)) AND lower(left(p_domain[i], 255))
              AND w.timeout IS NULL AND NOT w.state ?| '{deliver_by,put_off}'
              AND (cardinality(w.rcpt_to) = 1 OR NOT EXISTS (SELECT FROM unnest(w.rcpt_to) r WHERE lower(split_part(r, '@', -1)) <> lower(p_domain[i])))
              AND pepsi.life_began(w.state, w.received_at) + p_life_s[i] * interval '1 second' > now()
              AND NOT (rules AND EXISTS (SELECT FROM pepsi.queue_rule r WHERE (r.expires_at IS NULL OR r.expires_at > now())
                  AND pepsi.queue_rule_means(r, w.stage, w.mail_from, w.rcpt_to, w.state)))
            ORDER BY lower(left(split_part(w.rcpt_to[1], '@', -1), 255)), w.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
        CONTINUE WHEN ids = '{}';
        first := least(p_first_s[i], p_most_s); -- whatever a module says: the rows are others' mail
        most := greatest(p_most_s - first, 1);
        -- by ids alone: see workqueue_claim. They rise, so their place is found by halving.
        due := ARRAY(SELECT least(now() + interval '1 second' * (first + CASE WHEN width_bucket(w.id, ids) * (p_each_ms[i] / 1000.0) <= most
                    THEN (width_bucket(w.id, ids) - random()) * p_each_ms[i] / 1000 ELSE most * (1 + random()) / 2 END),
                pepsi.life_began(w.state, w.received_at) + (p_life_s[i] + 1) * interval '1 second')
            FROM pepsi.workqueue w WHERE w.id = ANY (ids) ORDER BY w.id);
        UPDATE pepsi.workqueue w SET status = 'paused', timeout = due[width_bucket(w.id, ids)],
            state = w.state || jsonb_build_object('last_error', p_error[i], 'put_off', pepsi.iso(due[width_bucket(w.id, ids)]))
        WHERE w.id = ANY (ids);
        GET DIAGNOSTICS changed = ROW_COUNT;
        n := n + changed;
    END LOOP;
    RETURN n;
END $$;

-- A worker died with this row, or overran with it: the p_limit-th time of its kind ends it (failed, timeout), before that it is
-- pending again. Returns whether it ended; NULL when it was not running at that stage any more: whoever runs it elsewhere is not to blame.
CREATE FUNCTION pepsi.workqueue_blame(p_id bigint, p_stage text, p_overrun boolean, p_limit integer, p_report jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    book jsonb;
    crashes integer;
    overruns integer;
    ended boolean;
BEGIN
    SELECT coalesce(state -> 'dispatch_error', '{}') INTO book
    FROM pepsi.workqueue WHERE id = p_id AND status = 'running' AND stage = p_stage FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(book) <> 'object' THEN
        book := '{}';
    END IF;
    crashes := CASE WHEN jsonb_typeof(book -> 'crashes') = 'number' THEN least(greatest((book ->> 'crashes')::numeric, 0), 1000000)::integer ELSE 0 END
        + CASE WHEN p_overrun THEN 0 ELSE 1 END;
    overruns := CASE WHEN jsonb_typeof(book -> 'overruns') = 'number' THEN least(greatest((book ->> 'overruns')::numeric, 0), 1000000)::integer ELSE 0 END
        + CASE WHEN p_overrun THEN 1 ELSE 0 END;
    ended := CASE WHEN p_overrun THEN overruns ELSE crashes END >= p_limit;
    UPDATE pepsi.workqueue SET
        status = CASE WHEN NOT ended THEN 'pending' WHEN p_overrun THEN 'timeout' ELSE 'failed' END::pepsi.workqueue_status,
        state = CASE WHEN ended THEN state - 'last_error' ELSE state END -- why it ended is the report, not an older attempt
            || jsonb_build_object('dispatch_error', jsonb_build_object(
            'kind', CASE WHEN p_overrun THEN 'overrun' ELSE 'crash' END, 'stage', p_stage, 'crashes', crashes,
            'overruns', overruns, 'at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            'report', p_report))
    WHERE id = p_id;
    RETURN ended;
END $$;

-- ---------------------------------------------------------------------------------------------- outside the loop

-- paused → pending; notifies. Returns whether the row was paused.
CREATE FUNCTION pepsi.workqueue_resume(p_id bigint, p_state jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pepsi.workqueue SET status = 'pending', timeout = NULL, state = pepsi.state_merge(pepsi.held_over(state), p_state)
    WHERE id = p_id AND status = 'paused';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM pg_notify('workqueue', '');
    RETURN true;
END $$;

-- The A-label of a label that is not ASCII (RFC 3492). Letters are folded as far as the database's collation goes; where that is not far enough a worker
-- sees the difference (core/worker/steer.c), since it has IDNA's own tables.
CREATE FUNCTION pepsi.label_fold(p_label text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    l text := CASE WHEN getdatabaseencoding() = 'UTF8' THEN lower(normalize(left(p_label, 63), NFKC)) ELSE '' END;
    points integer[] := ARRAY(SELECT ascii(c) FROM regexp_split_to_table(l, '') WITH ORDINALITY t(c, i) ORDER BY i);
    digits constant text := 'abcdefghijklmnopqrstuvwxyz0123456789';
    basic text := coalesce((SELECT string_agg(chr(c), '' ORDER BY i) FROM unnest(points) WITH ORDINALITY t(c, i) WHERE c < 128), '');
    h integer := length(basic);
    b constant integer := length(basic);
    o text := CASE WHEN b > 0 THEN basic || '-' ELSE '' END;
    n integer := 128; delta bigint := 0; bias integer := 72; m integer; c integer; q bigint; k integer; t integer;
BEGIN
    IF l = '' OR b = cardinality(points) THEN
        RETURN lower(p_label COLLATE "C");
    END IF;
    WHILE h < cardinality(points) LOOP
        SELECT min(x) INTO m FROM unnest(points) x WHERE x >= n;
        delta := delta + (m - n)::bigint * (h + 1);
        n := m;
        FOREACH c IN ARRAY points LOOP
            IF c < n THEN
                delta := delta + 1;
            ELSIF c = n THEN
                q := delta;
                k := 36;
                LOOP
                    t := CASE WHEN k <= bias THEN 1 WHEN k >= bias + 26 THEN 26 ELSE k - bias END;
                    EXIT WHEN q < t;
                    o := o || substr(digits, (t + (q - t) % (36 - t))::integer + 1, 1);
                    q := (q - t) / (36 - t);
                    k := k + 36;
                END LOOP;
                o := o || substr(digits, q::integer + 1, 1);
                delta := CASE WHEN h = b THEN delta / 700 ELSE delta / 2 END;
                delta := delta + delta / (h + 1);
                k := 0;
                WHILE delta > 455 LOOP
                    delta := delta / 35;
                    k := k + 36;
                END LOOP;
                bias := (k + 36 * delta / (delta + 38))::integer;
                delta := 0;
                h := h + 1;
            END IF;
        END LOOP;
        delta := delta + 1;
        n := n + 1;
    END LOOP;
    RETURN 'xn--' || o;
END $$;

-- An address, or "@domain", as it is compared: ASCII letters in lower case, the domain's labels as A-labels.
CREATE FUNCTION pepsi.address_fold(p_address text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(p_address) = length(p_address) OR strpos(p_address, '@') = 0 THEN lower(p_address COLLATE "C")
        ELSE lower(left(p_address, length(p_address) - length(split_part(p_address, '@', -1))) COLLATE "C") || (
            SELECT string_agg(CASE WHEN octet_length(l) = length(l) THEN lower(l COLLATE "C") ELSE pepsi.label_fold(l) END, '.' ORDER BY i)
            FROM unnest(string_to_array(split_part(p_address, '@', -1), '.')) WITH ORDINALITY t(l, i)) END
$$;

-- Does a pattern mean this address? "@example.org": everybody there. ASCII letters without case, U-labels as A-labels, as core/worker/steer.c compares.
CREATE FUNCTION pepsi.address_means(p_pattern text, p_address text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT a = p OR (left(p, 1) = '@' AND right(a, length(p)) = p) FROM (SELECT pepsi.address_fold(p_address) AS a, pepsi.address_fold(p_pattern) AS p) x
$$;

-- The rows an operator means: these, or those for which all that is not NULL holds. "@example.org" as sender or recipient means the whole domain, "<>" the null sender.
-- p_limit NULL: all.
CREATE FUNCTION pepsi.workqueue_select(p_ids bigint[], p_stage text, p_status text, p_sender text, p_recipient text,
    p_after bigint, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE sender text := CASE WHEN p_sender = '<>' THEN '' ELSE p_sender END;
BEGIN
    IF p_ids IS NOT NULL THEN -- a statement of its own, for the index
        RETURN ARRAY(SELECT w.id FROM pepsi.workqueue w WHERE w.id = ANY (p_ids) AND w.id > coalesce(p_after, 0) ORDER BY w.id LIMIT p_limit);
    END IF;
    RETURN ARRAY(SELECT w.id FROM pepsi.workqueue w
        WHERE (p_after IS NULL OR w.id > p_after) AND (p_stage IS NULL OR w.stage = p_stage)
          AND (p_status IS NULL OR w.status::text = p_status OR (p_status = 'held' AND pepsi.is_held(w.status, w.state)))
          AND (sender IS NULL OR pepsi.address_means(sender, w.mail_from))
          AND (p_recipient IS NULL OR EXISTS (SELECT FROM unnest(w.rcpt_to) r WHERE pepsi.address_means(p_recipient, r)))
        ORDER BY w.id LIMIT p_limit);
END $$;

-- May an operator do this to such a row? Never to a running one; what is held is only let go on purpose.
CREATE FUNCTION pepsi.workqueue_may(p_what text, p_status pepsi.workqueue_status, p_state jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_what
        WHEN 'delete' THEN p_status <> 'running'
        WHEN 'set-stage' THEN p_status <> 'running'
        WHEN 'retry' THEN p_status IN ('failed', 'timeout') OR (p_status = 'paused' AND NOT pepsi.is_held(p_status, p_state))
        WHEN 'hold' THEN p_status IN ('pending', 'paused') AND NOT pepsi.is_held(p_status, p_state)
        WHEN 'release' THEN pepsi.is_held(p_status, p_state)
        ELSE false END
$$;

-- Each returns how many rows it changed.
CREATE FUNCTION pepsi.workqueue_delete(p_ids bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    PERFORM set_config('pepsi.outcome', 'discarded', true);
    DELETE FROM pepsi.workqueue WHERE id = ANY (p_ids) AND pepsi.workqueue_may('delete', status, state);
    GET DIAGNOSTICS n = ROW_COUNT;
    PERFORM set_config('pepsi.outcome', '', true);
    RETURN n;
END $$;

-- paused, failed, timeout → pending, with a clean record of crashes. To a worker in any case: timeout '-infinity' says so to workqueue_put_off, and
-- goes with the next pause or stage.
CREATE FUNCTION pepsi.workqueue_retry(p_ids bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    UPDATE pepsi.workqueue SET status = 'pending', timeout = '-infinity', state = state - ARRAY['failed_at', 'failed_stage', 'dispatch_error']
    WHERE id = ANY (p_ids) AND pepsi.workqueue_may('retry', status, state);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify('workqueue', '');
    END IF;
    RETURN n;
END $$;

-- What is held stays held, at the other stage.
CREATE FUNCTION pepsi.workqueue_set_stage(p_ids bigint[], p_stage text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    UPDATE pepsi.workqueue SET stage = p_stage,
        status = CASE WHEN pepsi.is_held(status, state) THEN status ELSE 'pending' END,
        timeout = CASE WHEN pepsi.is_held(status, state) THEN timeout END,
        state = (state - ARRAY['failed_at', 'failed_stage', 'dispatch_error'])
            || jsonb_build_object('moved', jsonb_build_object('from', stage, 'to', p_stage, 'at', extract(epoch FROM now())::bigint))
    WHERE id = ANY (p_ids) AND pepsi.workqueue_may('set-stage', status, state);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify('workqueue', '');
    END IF;
    RETURN n;
END $$;

-- One batch of an operator's command: p_what (delete, retry, set-stage, hold, release) with p_arg (stage, reason) to the rows that
-- workqueue_select() finds; p_dry: only counts. matched: rows that it found, changed: those that it was done to, or could be, last:
-- the id to go on behind.
CREATE FUNCTION pepsi.workqueue_change(p_what text, p_arg text, p_dry boolean, p_ids bigint[], p_stage text, p_status text, p_sender text,
    p_recipient text, p_after bigint, p_limit integer, OUT matched integer, OUT changed integer, OUT last bigint)
LANGUAGE plpgsql AS $$
DECLARE ids bigint[] := pepsi.workqueue_select(p_ids, p_stage, p_status, p_sender, p_recipient, p_after, p_limit);
BEGIN
    matched := cardinality(ids);
    last := coalesce(ids[matched], 0);
    IF p_dry THEN
        SELECT count(*) INTO changed FROM pepsi.workqueue WHERE id = ANY (ids) AND pepsi.workqueue_may(p_what, status, state);
        RETURN;
    END IF;
    changed := CASE p_what
        WHEN 'delete' THEN pepsi.workqueue_delete(ids)
        WHEN 'retry' THEN pepsi.workqueue_retry(ids)
        WHEN 'set-stage' THEN pepsi.workqueue_set_stage(ids, p_arg)
        WHEN 'hold' THEN pepsi.workqueue_hold(ids, 0, coalesce(p_arg, ''), NULL)
        WHEN 'release' THEN pepsi.workqueue_release(ids, true) END;
    IF changed IS NULL THEN
        RAISE EXCEPTION 'nothing is called %', p_what USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- ---------------------------------------------------------------------------------------------- caps of accounts

-- What the ingress has in its books of accounts with caps; names without use for a month are forgotten on the way.
CREATE FUNCTION pepsi.account_use_put(p_name text[], p_hour_at timestamptz[], p_day_at timestamptz[], p_messages_hour bigint[],
    p_messages_day bigint[], p_recipients_hour bigint[], p_recipients_day bigint[], p_told_at timestamptz[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM pepsi.mail_account_use WHERE day_at < now() - interval '30 days' AND NOT name = ANY (p_name);
    INSERT INTO pepsi.mail_account_use AS u (name, hour_at, day_at, messages_hour, messages_day, recipients_hour, recipients_day, told_at)
    SELECT * FROM unnest(p_name, p_hour_at, p_day_at, p_messages_hour, p_messages_day, p_recipients_hour, p_recipients_day, p_told_at)
    ON CONFLICT (name) DO UPDATE SET hour_at = excluded.hour_at, day_at = excluded.day_at, messages_hour = excluded.messages_hour,
        messages_day = excluded.messages_day, recipients_hour = excluded.recipients_hour,
        recipients_day = excluded.recipients_day, told_at = excluded.told_at
$$;

-- All that may still count, the latest used first.
CREATE FUNCTION pepsi.account_use_get(p_limit integer) RETURNS TABLE (name text, hour_at timestamptz, day_at timestamptz,
    messages_hour bigint, messages_day bigint, recipients_hour bigint, recipients_day bigint, told_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT u.name, u.hour_at, u.day_at, u.messages_hour, u.messages_day, u.recipients_hour, u.recipients_day, u.told_at
    FROM pepsi.mail_account_use u ORDER BY u.hour_at DESC LIMIT p_limit
$$;

-- ---------------------------------------------------------------------------------------------- aliases

-- What these names (lower case) stand for, one row per target in the order of the list; target NULL: known, goes nowhere.
CREATE FUNCTION pepsi.alias_lookup(p_names text[]) RETURNS TABLE (name text, target text)
LANGUAGE sql STABLE AS $$
    SELECT a.address, t.target FROM pepsi.alias_map a
    LEFT JOIN LATERAL unnest(a.targets) WITH ORDINALITY t(target, o) ON true
    WHERE a.address = ANY (p_names) ORDER BY a.address, t.o
$$;

-- ---------------------------------------------------------------------------------------------- abuse handling

-- Which of these are there: p_names in recipient, p_aliases in alias_map. All in lower case. Runs with the owner's rights: the ingress
-- may ask for names it was told, and read no table.
CREATE FUNCTION pepsi.recipient_lookup(p_names text[], p_aliases text[]) RETURNS TABLE (name text, alias boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.address, false FROM pepsi.recipient r WHERE r.address = ANY (p_names)
    UNION ALL SELECT a.address, true FROM pepsi.alias_map a WHERE a.address = ANY (p_aliases)
$$;

CREATE FUNCTION pepsi.recipient_changed_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('recipient_changed', '');
    RETURN NULL;
END $$;
CREATE TRIGGER recipient_changed_notify AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pepsi.recipient
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.recipient_changed_notify();
CREATE TRIGGER alias_changed_notify AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pepsi.alias_map
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.recipient_changed_notify();

-- Rows in the queue, from the accounting: as good as a count, for the price of 64 rows.
CREATE FUNCTION pepsi.queue_rows() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(accepted - delivered - bounced - discarded), 0)::bigint FROM pepsi.flow_stats
$$;

-- How many seconds each of these triplets still has to wait, 0: it may pass; in the order of p_keys. p_nets: the network of each.
-- A triplet that comes back after p_delay seconds and within p_window (both from its first time) passes, and is remembered for p_life
-- seconds from its last use. A network of which p_auto triplets passed (0: never) waits no more. Keys are taken in order, so that
-- two askers do not wait for each other crosswise.
CREATE FUNCTION pepsi.greylist_ask(p_keys bytea[], p_nets bytea[], p_delay integer, p_window integer, p_life integer, p_auto integer)
RETURNS integer[] LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    g record;
    t timestamptz := clock_timestamp();
    ret integer[] := array_fill(0, ARRAY[cardinality(p_keys)]);
    life interval := p_life * interval '1 second';
BEGIN
    FOR r IN SELECT k.key, n.net, k.ord::integer AS ord FROM unnest(p_keys) WITH ORDINALITY k(key, ord)
             JOIN unnest(p_nets) WITH ORDINALITY n(net, ord) USING (ord) ORDER BY k.key LOOP
        IF p_auto > 0 THEN
            UPDATE pepsi.greylist SET expires_at = t + life WHERE key = r.net AND passes >= p_auto AND expires_at > t;
            CONTINUE WHEN FOUND;
        END IF;
        INSERT INTO pepsi.greylist AS w (key, first_at, expires_at) VALUES (r.key, t, t + p_window * interval '1 second')
        ON CONFLICT (key) DO UPDATE SET
            first_at = CASE WHEN w.expires_at > t THEN w.first_at ELSE t END,
            passes = CASE WHEN w.expires_at > t THEN w.passes ELSE 0 END,
            expires_at = CASE WHEN w.expires_at > t THEN w.expires_at ELSE excluded.expires_at END
        RETURNING w.first_at, w.passes INTO g;
        IF g.passes = 0 AND g.first_at + p_delay * interval '1 second' > t THEN
            ret[r.ord] := greatest(1, ceil(extract(epoch FROM g.first_at - t) + p_delay)::integer);
            CONTINUE;
        END IF;
        UPDATE pepsi.greylist SET passes = 1, expires_at = t + life WHERE key = r.key;
        IF g.passes = 0 AND p_auto > 0 THEN
            INSERT INTO pepsi.greylist AS w (key, first_at, passes, expires_at) VALUES (r.net, t, 1, t + life)
            ON CONFLICT (key) DO UPDATE SET passes = CASE WHEN w.expires_at > t THEN w.passes + 1 ELSE 1 END, expires_at = excluded.expires_at;
        END IF;
    END LOOP;
    RETURN ret;
END $$;

-- Forgets what has expired, at most p_limit rows; how many. Whoever invents senders makes a row each time: where there are more than
-- p_limit * 100 of them (by the last look of autovacuum), those that wait and expire next are forgotten, too. What has passed stays.
CREATE FUNCTION pepsi.greylist_sweep(p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n integer; more integer;
BEGIN
    DELETE FROM pepsi.greylist WHERE key = ANY (ARRAY(SELECT key FROM pepsi.greylist WHERE expires_at <= now() ORDER BY expires_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n < p_limit AND (SELECT reltuples FROM pg_class WHERE oid = 'pepsi.greylist'::regclass) > p_limit::real * 100 THEN
        DELETE FROM pepsi.greylist WHERE key = ANY (ARRAY(SELECT key FROM pepsi.greylist WHERE passes = 0 ORDER BY expires_at LIMIT p_limit - n
            FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS more = ROW_COUNT;
        n := n + more;
    END IF;
    RETURN n;
END $$;

-- ---------------------------------------------------------------------------------------------- DMARC reports
-- All run with the owner's rights: nobody has a privilege on the tables. What pepsi-dmarc asks for comes as one JSON object and goes back
-- as JSON; a member that is absent does not select.

-- Counts of the reactor, as parallel arrays; an empty p_data counts messages that have no row of their own. Each batch of a source once: one with a
-- p_seq that was there does nothing. At most p_max_rows rows of a period, and p_max_periods that wait, of one organisation a fiftieth of these, ten at
-- least; where all places are taken, organisations with more than half of that give up those with the fewest messages. What is beyond the rows is counted
-- as overflow. Returns how many messages could be counted nowhere (too many periods, or a report that has gone out already), and those given up.
CREATE FUNCTION pepsi.dmarc_tally_put(p_source text, p_seq bigint, p_max_rows integer, p_max_periods integer, p_begin timestamptz[],
    p_end timestamptz[], p_domain text[], p_org text[], p_policy text[], p_data text[], p_messages bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    p record;
    waiting integer;
    max_org integer := greatest(10, p_max_periods / 50);
    lost bigint := 0;
    extra integer;
    over bigint;
    d bytea;
BEGIN
    INSERT INTO pepsi.dmarc_source AS o VALUES (p_source, p_seq, now())
        ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE o.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM pepsi.dmarc_source WHERE at < now() - interval '2 days';
    SELECT count(*) INTO waiting FROM (SELECT FROM pepsi.dmarc_period WHERE outcome IS NULL LIMIT p_max_periods) w;
    IF waiting >= p_max_periods THEN
        WITH crowd AS (SELECT org FROM pepsi.dmarc_period WHERE outcome IS NULL GROUP BY org HAVING count(*) > max_org / 2),
            gone AS (DELETE FROM pepsi.dmarc_period WHERE id IN (SELECT q.id FROM pepsi.dmarc_period q JOIN crowd USING (org) WHERE q.outcome IS NULL
                ORDER BY q.messages, q.id LIMIT 500) RETURNING messages)
        SELECT waiting - count(*), lost + coalesce(sum(messages), 0) INTO waiting, lost FROM gone;
    END IF;
    FOR r IN SELECT * FROM unnest(p_begin, p_end, p_domain, p_org, p_policy, p_data, p_messages) t(begin_at, end_at, domain, org, policy, data, n) LOOP
        SELECT id, rows, outcome INTO p FROM pepsi.dmarc_period q
            WHERE q.domain = r.domain AND q.begin_at = r.begin_at AND q.policy = r.policy FOR UPDATE;
        IF NOT FOUND AND waiting < p_max_periods
            AND (SELECT count(*) FROM (SELECT FROM pepsi.dmarc_period q WHERE q.org = r.org AND q.outcome IS NULL LIMIT max_org) w) < max_org THEN
            INSERT INTO pepsi.dmarc_period (domain, begin_at, end_at, policy, org) VALUES (r.domain, r.begin_at, r.end_at, r.policy, r.org)
                RETURNING id, rows, outcome INTO p;
            waiting := waiting + 1;
        END IF;
        IF p.id IS NULL OR p.outcome IS NOT NULL THEN
            lost := lost + r.n;
            CONTINUE;
        END IF;
        extra := 0;
        over := 0;
        IF r.data = '' THEN
            over := r.n;
        ELSE
            d := substring(sha256(convert_to(r.data, 'UTF8')) FOR 16);
            UPDATE pepsi.dmarc_row SET messages = messages + r.n WHERE period_id = p.id AND digest = d;
            IF NOT FOUND AND p.rows < p_max_rows THEN
                INSERT INTO pepsi.dmarc_row VALUES (p.id, d, r.data::jsonb, r.n);
                extra := 1;
            ELSIF NOT FOUND THEN
                over := r.n;
            END IF;
        END IF;
        UPDATE pepsi.dmarc_period SET messages = messages + r.n, rows = rows + extra, overflow = overflow + over WHERE id = p.id;
    END LOOP;
    RETURN lost;
END $$;

-- One line of dmarc_period, as pepsi-dmarc shows it.
CREATE FUNCTION pepsi.dmarc_period_json(p pepsi.dmarc_period) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', p.id, 'domain', p.domain, 'begin', extract(epoch FROM p.begin_at)::bigint,
        'end', extract(epoch FROM p.end_at)::bigint, 'policy', p.policy, 'rows', p.rows, 'messages', p.messages, 'overflow', p.overflow,
        'tries', p.tries, 'outcome', coalesce(p.outcome, CASE WHEN p.end_at > now() THEN 'counting' ELSE 'waiting' END), 'why', p.why,
        'report_id', p.report_id, 'sent', extract(epoch FROM p.sent_at)::bigint, 'destinations', to_jsonb(p.destinations)))
$$;

-- Reports whose period is over: {"grace": seconds, "limit": n, "day": "2026-11-30"}, oldest first.
CREATE FUNCTION pepsi.dmarc_due(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(pepsi.dmarc_period_json(w) ORDER BY w.end_at, w.id), '[]') FROM (
        SELECT * FROM pepsi.dmarc_period d WHERE d.outcome IS NULL AND d.end_at <= now() - make_interval(secs => (p ->> 'grace')::integer)
            AND (p ->> 'day' IS NULL OR (d.begin_at AT TIME ZONE 'UTC')::date = (p ->> 'day')::date)
        ORDER BY d.end_at, d.id LIMIT (p ->> 'limit')::integer) w
$$;

-- {"domain": d, "day": …, "id": n, "limit": n}: the latest first, and addresses that are muted.
CREATE FUNCTION pepsi.dmarc_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('reports', (SELECT coalesce(jsonb_agg(pepsi.dmarc_period_json(w) ORDER BY w.end_at DESC, w.domain, w.id), '[]') FROM (
        SELECT * FROM pepsi.dmarc_period d WHERE (p ->> 'domain' IS NULL OR d.domain = lower(p ->> 'domain')) AND (p ->> 'id' IS NULL OR d.id = (p ->> 'id')::bigint)
            AND (p ->> 'day' IS NULL OR (d.begin_at AT TIME ZONE 'UTC')::date = (p ->> 'day')::date)
        ORDER BY d.end_at DESC, d.domain, d.id LIMIT (p ->> 'limit')::integer) w),
        'muted', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', m.address, 'until', extract(epoch FROM m.until_at)::bigint,
            'why', m.why)) ORDER BY m.address), '[]') FROM (SELECT * FROM pepsi.dmarc_muted WHERE until_at > now() ORDER BY address LIMIT 100000) m))
$$;

-- {"id": n, "limit": n}: [{"messages": n, "data": {…}}], those with most messages first.
CREATE FUNCTION pepsi.dmarc_rows(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('messages', w.messages, 'data', w.data) ORDER BY w.messages DESC, w.digest), '[]') FROM (
        SELECT * FROM pepsi.dmarc_row r WHERE r.period_id = (p ->> 'id')::bigint ORDER BY r.messages DESC, r.digest LIMIT (p ->> 'limit')::integer) w
$$;

-- {"id": n, "outcome": "nowhere", "why": …}; without outcome: not now, it waits on. With "failure": true it is a failure report's id. Says whether it
-- still waited.
CREATE FUNCTION pepsi.dmarc_done(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (p ->> 'failure')::boolean THEN
        UPDATE pepsi.dmarc_failure SET tries = tries + 1, why = p ->> 'why', outcome = p ->> 'outcome',
            headers = CASE WHEN p ->> 'outcome' IS NULL THEN headers END WHERE id = (p ->> 'id')::bigint AND outcome IS NULL;
        RETURN to_jsonb(FOUND);
    END IF;
    UPDATE pepsi.dmarc_period SET tries = tries + 1, why = p ->> 'why', outcome = p ->> 'outcome' WHERE id = (p ->> 'id')::bigint AND outcome IS NULL;
    RETURN to_jsonb(FOUND);
END $$;

-- The report of a period (or, p_failure, of one message that failed), as messages (one for each recipient, with headers of its own): all of them into the
-- queue and the period marked, or nothing: null when another run was faster.
CREATE FUNCTION pepsi.dmarc_enqueue(p_id bigint, p_report_id text, p_stage text, p_mail_from text, p_rcpts text[], p_headers bytea[], p_body bytea,
    p_state jsonb, p_failure boolean) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE ids bigint[] := '{}';
BEGIN
    IF p_failure THEN
        UPDATE pepsi.dmarc_failure SET outcome = 'sent', tries = tries + 1, why = NULL, report_id = p_report_id, sent_at = now(), destinations = p_rcpts,
            headers = NULL WHERE id = p_id AND outcome IS NULL;
    ELSE
        UPDATE pepsi.dmarc_period SET outcome = 'sent', tries = tries + 1, why = NULL, report_id = p_report_id, sent_at = now(), destinations = p_rcpts
            WHERE id = p_id AND outcome IS NULL;
    END IF;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR i IN 1 .. cardinality(p_rcpts) LOOP
        ids := ids || pepsi.workqueue_inject(p_stage, p_mail_from, p_rcpts[i:i], p_headers[i], p_body, p_state);
    END LOOP;
    RETURN ids;
END $$;

-- A notice of failure came for copy p_nth of a report: nothing more goes to that address for p_days. Only who got the report knows its id.
-- Returns the address; null: no such report.
CREATE FUNCTION pepsi.dmarc_mute(p_report_id text, p_nth integer, p_days integer, p_why text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE a text;
BEGIN
    SELECT lower(destinations[p_nth]) INTO a FROM pepsi.dmarc_period WHERE report_id = p_report_id;
    IF NOT FOUND THEN
        SELECT lower(destinations[p_nth]) INTO a FROM pepsi.dmarc_failure WHERE report_id = p_report_id;
    END IF;
    IF a IS NOT NULL AND p_days > 0 THEN
        INSERT INTO pepsi.dmarc_muted VALUES (a, now(), now() + make_interval(days => p_days), p_why)
            ON CONFLICT (address) DO UPDATE SET until_at = excluded.until_at, why = excluded.why;
    END IF;
    RETURN a;
END $$;

-- {"address": a}: says whether it was muted.
CREATE FUNCTION pepsi.dmarc_unmute(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.dmarc_muted WHERE address = lower(p ->> 'address');
    RETURN to_jsonb(FOUND);
END $$;

-- {"keep": seconds, "expire": seconds}: what is older than that goes; what waits for longer than expire will not be sent any more.
CREATE FUNCTION pepsi.dmarc_sweep(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone integer;
    expired integer;
BEGIN
    DELETE FROM pepsi.dmarc_period WHERE end_at < now() - make_interval(secs => (p ->> 'keep')::integer);
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE pepsi.dmarc_period SET outcome = 'expired' WHERE outcome IS NULL AND end_at < now() - make_interval(secs => (p ->> 'expire')::integer);
    GET DIAGNOSTICS expired = ROW_COUNT;
    DELETE FROM pepsi.dmarc_muted WHERE until_at <= now();
    DELETE FROM pepsi.dmarc_failure WHERE at < now() - make_interval(secs => (p ->> 'keep')::integer);
    UPDATE pepsi.dmarc_failure SET outcome = 'expired', headers = NULL
        WHERE outcome IS NULL AND at < now() - make_interval(secs => (p ->> 'expire')::integer);
    RETURN jsonb_build_object('gone', gone, 'expired', expired);
END $$;

-- Messages that failed, for failure reports, as parallel arrays; each batch of a source once. Of an organisation at most p_most_org within a day, of all
-- p_most. Returns how many found no place.
CREATE FUNCTION pepsi.dmarc_failure_put(p_source text, p_seq bigint, p_most_org integer, p_most integer, p_at timestamptz[], p_domain text[], p_org text[],
    p_data text[], p_headers bytea[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    today integer;
    lost bigint := 0;
BEGIN
    INSERT INTO pepsi.dmarc_source AS o VALUES (p_source, p_seq, now())
        ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE o.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT count(*) INTO today FROM (SELECT FROM pepsi.dmarc_failure WHERE at > now() - interval '1 day' LIMIT p_most) w;
    FOR r IN SELECT * FROM unnest(p_at, p_domain, p_org, p_data, p_headers) t(at, domain, org, data, headers) LOOP
        IF today >= p_most OR (SELECT count(*) FROM (SELECT FROM pepsi.dmarc_failure f WHERE f.org = r.org AND f.at > now() - interval '1 day'
            LIMIT p_most_org) w) >= p_most_org THEN
            lost := lost + 1;
            CONTINUE;
        END IF;
        INSERT INTO pepsi.dmarc_failure (domain, org, at, data, headers) VALUES (r.domain, r.org, r.at, r.data::jsonb, r.headers);
        today := today + 1;
    END LOOP;
    RETURN lost;
END $$;

-- {"limit": n, "due": true}: failure reports, the latest first; with "due" those that wait, the oldest first, with the header block in base64. "domain",
-- "day" and "id" select.
CREATE FUNCTION pepsi.dmarc_failures(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', w.id, 'domain', w.domain, 'at', extract(epoch FROM w.at)::bigint, 'data', w.data,
        'headers', CASE WHEN (p ->> 'due')::boolean THEN translate(encode(w.headers, 'base64'), E'\n', '') END, 'tries', w.tries,
        'outcome', coalesce(w.outcome, 'waiting'), 'why', w.why, 'report_id', w.report_id, 'sent', extract(epoch FROM w.sent_at)::bigint,
        'destinations', to_jsonb(w.destinations))) ORDER BY w.nth), '[]') FROM (
        SELECT *, row_number() OVER () AS nth FROM (SELECT * FROM pepsi.dmarc_failure f WHERE ((p ->> 'due') IS NULL OR f.outcome IS NULL)
            AND (p ->> 'domain' IS NULL OR f.domain = lower(p ->> 'domain')) AND (p ->> 'id' IS NULL OR f.id = (p ->> 'id')::bigint)
            AND (p ->> 'day' IS NULL OR (f.at AT TIME ZONE 'UTC')::date = (p ->> 'day')::date)
        ORDER BY CASE WHEN p ->> 'due' IS NULL THEN -extract(epoch FROM f.at) ELSE extract(epoch FROM f.at) END, f.id LIMIT (p ->> 'limit')::integer) x) w
$$;

-- A failure report that came: {"domain", "arrival"?, "mail_domain", "verified", "source_ip"?, "failure", "result", "incidents", "detail": {…}, "keep":
-- seconds, "most": n}. "stored", "duplicate", or "full": so many came within a day, or a tenth of them from this one sender.
CREATE FUNCTION pepsi.dmarc_failure_received_add(p jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE d bytea := substring(sha256(convert_to((p - '{keep,most,verified}'::text[])::text, 'UTF8')) FOR 16);
BEGIN
    DELETE FROM pepsi.dmarc_failure_received WHERE received_at < now() - make_interval(secs => (p ->> 'keep')::integer);
    IF EXISTS (SELECT FROM pepsi.dmarc_failure_received WHERE digest = d) THEN
        RETURN 'duplicate';
    END IF;
    IF (SELECT count(*) >= (p ->> 'most')::integer OR count(*) FILTER (WHERE mail_domain IS NOT DISTINCT FROM nullif(p ->> 'mail_domain', ''))
            >= greatest(10, (p ->> 'most')::integer / 10)
        FROM (SELECT mail_domain FROM pepsi.dmarc_failure_received WHERE received_at > now() - interval '1 day' LIMIT (p ->> 'most')::integer) w) THEN
        RETURN 'full';
    END IF;
    INSERT INTO pepsi.dmarc_failure_received (digest, domain, arrival_at, mail_domain, verified, source_ip, failure, result, incidents, detail)
    VALUES (d, p ->> 'domain', to_timestamp((p ->> 'arrival')::bigint), nullif(p ->> 'mail_domain', ''), (p ->> 'verified')::boolean,
        (p ->> 'source_ip')::inet, p ->> 'failure', p ->> 'result', (p ->> 'incidents')::bigint, p -> 'detail')
    ON CONFLICT DO NOTHING;
    RETURN CASE WHEN FOUND THEN 'stored' ELSE 'duplicate' END;
END $$;

-- {"domain": d, "since": "2026-11-01", "limit": n}: by domain and kind of failure; by source; the reports.
CREATE FUNCTION pepsi.dmarc_failure_summary(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH r AS (SELECT * FROM pepsi.dmarc_failure_received d WHERE (p ->> 'domain' IS NULL OR d.domain = lower(p ->> 'domain'))
            AND (p ->> 'since' IS NULL OR d.received_at >= (p ->> 'since')::date::timestamp AT TIME ZONE 'UTC'))
    SELECT jsonb_build_object(
        'domains', (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.incidents DESC, d.domain, d.failure), '[]') FROM (
            SELECT domain, failure, count(*) AS reports, sum(incidents)::bigint AS incidents, count(DISTINCT source_ip) AS sources,
                coalesce(sum(incidents) FILTER (WHERE result IN ('reject', 'policy')), 0)::bigint AS rejected,
                extract(epoch FROM min(received_at))::bigint AS "begin", extract(epoch FROM max(received_at))::bigint AS "end"
            FROM r GROUP BY domain, failure ORDER BY incidents DESC, domain, failure LIMIT (p ->> 'limit')::integer) d),
        'sources', (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.incidents DESC, s.domain, s.ip), '[]') FROM (
            SELECT domain, host(source_ip) AS ip, sum(incidents)::bigint AS incidents, count(*) AS reports, extract(epoch FROM max(received_at))::bigint AS latest
            FROM r WHERE source_ip IS NOT NULL GROUP BY domain, source_ip ORDER BY incidents DESC, domain, ip LIMIT (p ->> 'limit')::integer) s),
        'reports', (SELECT coalesce(jsonb_agg(to_jsonb(q) ORDER BY q.id DESC), '[]') FROM (
            SELECT id, domain, extract(epoch FROM received_at)::bigint AS received, extract(epoch FROM arrival_at)::bigint AS arrival, mail_domain, verified,
                host(source_ip) AS ip, failure, result, incidents, detail FROM r ORDER BY id DESC LIMIT (p ->> 'limit')::integer) q))
$$;

-- A report that came: {"domain", "org", "report_id", "begin", "end", "mail_domain", "verified", "policy": {…}, "info": {…}, "rows": [{"ip",
-- "messages", "disposition", "dkim", "spf", "header_from", "detail": {…}}], "keep": seconds, "most": n}. "stored"; "duplicate": this domain has one with
-- that id from that organisation; "full": so many came within a day.
CREATE FUNCTION pepsi.dmarc_received_add(p jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE new_id bigint;
BEGIN
    DELETE FROM pepsi.dmarc_received WHERE received_at < now() - make_interval(secs => (p ->> 'keep')::integer);
    IF EXISTS (SELECT FROM pepsi.dmarc_received WHERE domain = p ->> 'domain' AND org = p ->> 'org' AND report_id = p ->> 'report_id') THEN
        RETURN 'duplicate';
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM pepsi.dmarc_received WHERE received_at > now() - interval '1 day' LIMIT (p ->> 'most')::integer) d) >= (p ->> 'most')::integer THEN
        RETURN 'full';
    END IF;
    INSERT INTO pepsi.dmarc_received (domain, org, report_id, begin_at, end_at, mail_domain, verified, policy, info, messages, passed)
    SELECT p ->> 'domain', p ->> 'org', p ->> 'report_id', to_timestamp((p ->> 'begin')::bigint), to_timestamp((p ->> 'end')::bigint),
        nullif(p ->> 'mail_domain', ''), (p ->> 'verified')::boolean, p -> 'policy', p -> 'info', coalesce(sum((r ->> 'messages')::bigint), 0),
        coalesce(sum((r ->> 'messages')::bigint) FILTER (WHERE (r ->> 'dkim')::boolean OR (r ->> 'spf')::boolean), 0)
    FROM jsonb_array_elements(p -> 'rows') r
    ON CONFLICT DO NOTHING RETURNING id INTO new_id;
    IF new_id IS NULL THEN
        RETURN 'duplicate';
    END IF;
    INSERT INTO pepsi.dmarc_received_row
    SELECT new_id, o, (r ->> 'ip')::inet, (r ->> 'messages')::bigint, r ->> 'disposition', (r ->> 'dkim')::boolean, (r ->> 'spf')::boolean,
        r ->> 'header_from', r -> 'detail'
    FROM jsonb_array_elements(p -> 'rows') WITH ORDINALITY t(r, o);
    RETURN 'stored';
END $$;

-- {"domain": d, "since": "2026-11-01", "limit": n}: by domain; by source, those with most failures first; the reports.
CREATE FUNCTION pepsi.dmarc_received_summary(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH r AS (SELECT * FROM pepsi.dmarc_received d WHERE (p ->> 'domain' IS NULL OR d.domain = lower(p ->> 'domain'))
            AND (p ->> 'since' IS NULL OR d.end_at >= (p ->> 'since')::date::timestamp AT TIME ZONE 'UTC')),
        w AS (SELECT r.domain, x.* FROM r JOIN pepsi.dmarc_received_row x ON x.received_id = r.id)
    SELECT jsonb_build_object(
        'domains', (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.messages DESC, d.domain), '[]') FROM (
            SELECT r.domain, count(*) AS reports, count(DISTINCT r.org) AS organisations, sum(r.messages)::bigint AS messages, sum(r.passed)::bigint AS passed,
                (SELECT coalesce(sum(w.messages), 0)::bigint FROM w WHERE w.domain = r.domain AND w.disposition = 'quarantine') AS quarantined,
                (SELECT coalesce(sum(w.messages), 0)::bigint FROM w WHERE w.domain = r.domain AND w.disposition = 'reject') AS rejected,
                extract(epoch FROM min(r.begin_at))::bigint AS "begin", extract(epoch FROM max(r.end_at))::bigint AS "end"
            FROM r GROUP BY r.domain) d),
        'sources', (SELECT coalesce(jsonb_agg(to_jsonb(s) ORDER BY s.failed DESC, s.messages DESC, s.domain, s.ip), '[]') FROM (
            SELECT w.domain, host(w.source_ip) AS ip, sum(w.messages)::bigint AS messages, sum(w.messages) FILTER (WHERE w.dkim OR w.spf) IS NULL AS never_passed,
                coalesce(sum(w.messages) FILTER (WHERE w.dkim), 0)::bigint AS dkim, coalesce(sum(w.messages) FILTER (WHERE w.spf), 0)::bigint AS spf,
                coalesce(sum(w.messages) FILTER (WHERE NOT w.dkim AND NOT w.spf), 0)::bigint AS failed
            FROM w GROUP BY w.domain, w.source_ip ORDER BY failed DESC, messages DESC, w.domain, ip LIMIT (p ->> 'limit')::integer) s),
        'reports', (SELECT coalesce(jsonb_agg(to_jsonb(q) ORDER BY q."end" DESC, q.org, q.report_id), '[]') FROM (
            SELECT r.domain, r.org, r.report_id, r.verified, r.mail_domain, extract(epoch FROM r.begin_at)::bigint AS "begin",
                extract(epoch FROM r.end_at)::bigint AS "end", extract(epoch FROM r.received_at)::bigint AS received, r.messages, r.passed, r.policy, r.info
            FROM r ORDER BY r.end_at DESC, r.org, r.report_id LIMIT (p ->> 'limit')::integer) q))
$$;

-- ---------------------------------------------------------------------------------------------- TLS reports
-- As DMARC reports above: with the owner's rights, one JSON object in, JSON out.

-- What a worker saw, as parallel arrays; days since 1970; an empty p_failure is success. Each batch of a source once. At most p_max_rows rows of a
-- report and p_max_reports that wait. Returns how many sessions could be counted nowhere (too many reports, or one that has gone out already).
CREATE FUNCTION pepsi.tlsrpt_put(p_source text, p_seq bigint, p_max_rows integer, p_max_reports integer, p_day integer[], p_domain text[], p_policy text[],
    p_failure text[], p_sessions bigint[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    p record;
    waiting integer;
    lost bigint := 0;
    extra integer;
    over bigint;
    d bytea;
BEGIN
    INSERT INTO pepsi.tlsrpt_source AS o VALUES (p_source, p_seq, now())
        ON CONFLICT (source) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE o.seq < excluded.seq;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM pepsi.tlsrpt_source WHERE at < now() - interval '2 days';
    -- also where nobody runs pepsi-tlsrpt
    DELETE FROM pepsi.tlsrpt_report WHERE id = ANY (ARRAY(SELECT q.id FROM pepsi.tlsrpt_report q WHERE q.day < (now() AT TIME ZONE 'UTC')::date - 366
        OR (q.day < (now() AT TIME ZONE 'UTC')::date - 31 AND q.outcome IS NULL) LIMIT 200 FOR UPDATE SKIP LOCKED));
    SELECT count(*) INTO waiting FROM (SELECT FROM pepsi.tlsrpt_report WHERE outcome IS NULL LIMIT p_max_reports) w;
    FOR r IN SELECT date '1970-01-01' + t.day AS on_day, t.* FROM unnest(p_day, p_domain, p_policy, p_failure, p_sessions) t(day, domain, policy, failure, n)
        ORDER BY 1, 3 LOOP -- the same order in all workers: none waits for another that waits for it
        IF waiting < p_max_reports THEN
            INSERT INTO pepsi.tlsrpt_report (domain, day) VALUES (r.domain, r.on_day) ON CONFLICT DO NOTHING;
            waiting := waiting + CASE WHEN FOUND THEN 1 ELSE 0 END;
        END IF;
        SELECT q.id, q.rows, q.report_id, q.outcome INTO p FROM pepsi.tlsrpt_report q WHERE q.domain = r.domain AND q.day = r.on_day FOR UPDATE;
        IF p.id IS NULL OR p.outcome IS NOT NULL OR p.report_id IS NOT NULL THEN
            lost := lost + r.n;
            CONTINUE;
        END IF;
        extra := 0;
        over := 0;
        d := substring(sha256(convert_to(r.policy || E'\n' || r.failure, 'UTF8')) FOR 16);
        UPDATE pepsi.tlsrpt_result SET sessions = sessions + r.n WHERE report_id = p.id AND digest = d;
        IF NOT FOUND AND p.rows < p_max_rows THEN
            INSERT INTO pepsi.tlsrpt_result VALUES (p.id, d, r.policy::jsonb, nullif(r.failure, '')::jsonb, r.n);
            extra := 1;
        ELSIF NOT FOUND THEN
            over := r.n;
        END IF;
        UPDATE pepsi.tlsrpt_report SET sessions = sessions + r.n, failures = failures + CASE r.failure WHEN '' THEN 0 ELSE r.n END, rows = rows + extra,
            overflow = overflow + over WHERE id = p.id;
    END LOOP;
    RETURN lost;
END $$;

-- One line of tlsrpt_report, as pepsi-tlsrpt shows it.
CREATE FUNCTION pepsi.tlsrpt_report_json(p pepsi.tlsrpt_report) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object('id', p.id, 'domain', p.domain, 'day', p.day, 'begin', extract(epoch FROM p.day)::bigint, 'rows', p.rows,
        'sessions', p.sessions, 'failures', p.failures, 'overflow', p.overflow, 'tries', p.tries, 'first', extract(epoch FROM p.first_at)::bigint,
        'outcome', coalesce(p.outcome, CASE WHEN p.day >= (now() AT TIME ZONE 'UTC')::date THEN 'counting' ELSE 'waiting' END), 'why', p.why,
        'report_id', p.report_id, 'sent', extract(epoch FROM p.sent_at)::bigint, 'mailed', to_jsonb(p.mailed), 'posted', to_jsonb(p.posted)))
$$;

-- Reports that may be tried: {"grace": seconds behind the day's end, "limit": n, "day": "2026-11-30"}, oldest first.
CREATE FUNCTION pepsi.tlsrpt_due(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(pepsi.tlsrpt_report_json(w) ORDER BY w.day, w.id), '[]') FROM (
        SELECT * FROM pepsi.tlsrpt_report d WHERE d.outcome IS NULL AND d.next_at <= now()
            AND (d.day + 1)::timestamp AT TIME ZONE 'UTC' <= now() - make_interval(secs => (p ->> 'grace')::integer)
            AND (p ->> 'day' IS NULL OR d.day = (p ->> 'day')::date)
        ORDER BY d.day, d.id LIMIT (p ->> 'limit')::integer) w
$$;

-- {"domain": d, "day": …, "id": n, "limit": n}: the latest first, and who is muted.
CREATE FUNCTION pepsi.tlsrpt_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('reports', (SELECT coalesce(jsonb_agg(pepsi.tlsrpt_report_json(w) ORDER BY w.day DESC, w.domain), '[]') FROM (
        SELECT * FROM pepsi.tlsrpt_report d WHERE (p ->> 'domain' IS NULL OR d.domain = lower(p ->> 'domain')) AND (p ->> 'id' IS NULL OR d.id = (p ->> 'id')::bigint)
            AND (p ->> 'day' IS NULL OR d.day = (p ->> 'day')::date)
        ORDER BY d.day DESC, d.domain LIMIT (p ->> 'limit')::integer) w),
        'muted', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', m.uri, 'until', extract(epoch FROM m.until_at)::bigint,
            'why', m.why)) ORDER BY m.uri), '[]') FROM (SELECT * FROM pepsi.tlsrpt_muted WHERE until_at > now() ORDER BY uri LIMIT 100000) m))
$$;

-- {"id": n, "limit": n}: [{"policy": {…}, "failure": {…} or null, "sessions": n}], policy by policy.
CREATE FUNCTION pepsi.tlsrpt_rows(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('policy', w.policy, 'failure', w.failure, 'sessions', w.sessions)
        ORDER BY w.policy ->> 'type', w.policy, w.failure IS NOT NULL, w.sessions DESC, w.digest), '[]') FROM (
        SELECT * FROM pepsi.tlsrpt_result r WHERE r.report_id = (p ->> 'id')::bigint ORDER BY r.sessions DESC, r.digest LIMIT (p ->> 'limit')::integer) w
$$;

-- An attempt begins: {"id": n, "report_id": …}. Its id, the one of the first attempt; null: another run is at it, or it is settled. The next attempt is
-- not before ten minutes, twice as long each time, four hours at most.
CREATE FUNCTION pepsi.tlsrpt_begin(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE r pepsi.tlsrpt_report;
BEGIN
    UPDATE pepsi.tlsrpt_report SET report_id = coalesce(report_id, p ->> 'report_id'), first_at = coalesce(first_at, now()), tries = tries + 1,
        next_at = now() + least(interval '4 hours', interval '10 minutes' * power(2, least(tries, 10)))
        WHERE id = (p ->> 'id')::bigint AND outcome IS NULL AND next_at <= now() RETURNING * INTO r;
    RETURN CASE WHEN FOUND THEN pepsi.tlsrpt_report_json(r) ELSE 'null'::jsonb END;
END $$;

-- The report as messages, one for each recipient with headers of its own: all of them into the queue and noted, or nothing: null when they are there already.
CREATE FUNCTION pepsi.tlsrpt_enqueue(p_id bigint, p_report_id text, p_stage text, p_mail_from text, p_rcpts text[], p_headers bytea[], p_body bytea, p_state jsonb) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE ids bigint[] := '{}';
BEGIN
    UPDATE pepsi.tlsrpt_report SET mailed = p_rcpts, sent_at = now() WHERE id = p_id AND outcome IS NULL AND report_id = p_report_id AND mailed IS NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    FOR i IN 1 .. cardinality(p_rcpts) LOOP
        ids := ids || pepsi.workqueue_inject(p_stage, p_mail_from, p_rcpts[i:i], p_headers[i], p_body, p_state);
    END LOOP;
    RETURN ids;
END $$;

-- {"id": n, "posted": uri}: an https URI has taken it.
CREATE FUNCTION pepsi.tlsrpt_posted(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pepsi.tlsrpt_report SET posted = array_append(posted, p ->> 'posted'), sent_at = now()
        WHERE id = (p ->> 'id')::bigint AND outcome IS NULL AND NOT (p ->> 'posted') = ANY (coalesce(posted, '{}'));
    RETURN to_jsonb(FOUND);
END $$;

-- {"id": n, "outcome": "nowhere", "why": …}; without outcome: not now, it waits on. Says whether it still waited.
CREATE FUNCTION pepsi.tlsrpt_done(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pepsi.tlsrpt_report SET why = p ->> 'why', outcome = p ->> 'outcome' WHERE id = (p ->> 'id')::bigint AND outcome IS NULL;
    RETURN to_jsonb(FOUND);
END $$;

-- {"address": a or URI, "days": n, "why": …}: nothing more goes there.
CREATE FUNCTION pepsi.tlsrpt_mute(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO pepsi.tlsrpt_muted VALUES (CASE WHEN p ->> 'address' ILIKE 'https:%' THEN p ->> 'address' ELSE lower(p ->> 'address') END, now(),
        now() + make_interval(days => (p ->> 'days')::integer), p ->> 'why')
        ON CONFLICT (uri) DO UPDATE SET until_at = excluded.until_at, why = excluded.why;
    RETURN 'true'::jsonb;
END $$;

-- A notice of failure came for copy p_nth of a report. Only who got the report knows its id. Returns the address; null: no such report.
CREATE FUNCTION pepsi.tlsrpt_came_back(p_report_id text, p_nth integer, p_days integer, p_why text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE a text := (SELECT lower(mailed[p_nth]) FROM pepsi.tlsrpt_report WHERE report_id = p_report_id);
BEGIN
    IF a IS NOT NULL AND p_days > 0 THEN
        PERFORM pepsi.tlsrpt_mute(jsonb_build_object('address', a, 'days', p_days, 'why', p_why));
    END IF;
    RETURN a;
END $$;

-- {"address": a}: says whether it was muted.
CREATE FUNCTION pepsi.tlsrpt_unmute(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.tlsrpt_muted WHERE uri IN (p ->> 'address', lower(p ->> 'address'));
    RETURN to_jsonb(FOUND);
END $$;

-- {"keep": seconds, "expire": seconds}: what is older than that goes; what waits for longer than expire will not be sent any more.
CREATE FUNCTION pepsi.tlsrpt_sweep(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone integer;
    expired integer;
BEGIN
    DELETE FROM pepsi.tlsrpt_report WHERE (day + 1)::timestamp AT TIME ZONE 'UTC' < now() - make_interval(secs => (p ->> 'keep')::integer);
    GET DIAGNOSTICS gone = ROW_COUNT;
    UPDATE pepsi.tlsrpt_report SET outcome = CASE WHEN mailed IS NULL AND posted IS NULL THEN 'expired' ELSE 'sent' END
        WHERE outcome IS NULL AND (day + 1)::timestamp AT TIME ZONE 'UTC' < now() - make_interval(secs => (p ->> 'expire')::integer);
    GET DIAGNOSTICS expired = ROW_COUNT;
    DELETE FROM pepsi.tlsrpt_muted WHERE until_at <= now();
    RETURN jsonb_build_object('gone', gone, 'expired', expired);
END $$;

-- A report that came: {"domain", "org", "report_id", "begin", "end", "mail_domain", "verified", "contact"?, "policies": [{"type", "domain", "successes",
-- "failures"}], "failures": [{"type", "result", "mx", "receiving_ip"?, "sending_ip"?, "code"?, "sessions"}], "keep": seconds, "most": n}. "stored",
-- "duplicate" (of organisation and id, about this domain), or "full": so many came within a day, or a tenth of them from this one sender.
CREATE FUNCTION pepsi.tlsrpt_received_add(p jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id bigint;
    d bytea := substring(sha256(convert_to((p ->> 'org') || E'\n' || (p ->> 'report_id'), 'UTF8')) FOR 16);
BEGIN
    DELETE FROM pepsi.tlsrpt_received WHERE received_at < now() - make_interval(secs => (p ->> 'keep')::integer);
    IF EXISTS (SELECT FROM pepsi.tlsrpt_received WHERE domain = p ->> 'domain' AND digest = d) THEN
        RETURN 'duplicate';
    END IF;
    IF (SELECT count(*) >= (p ->> 'most')::integer OR count(*) FILTER (WHERE mail_domain IS NOT DISTINCT FROM nullif(p ->> 'mail_domain', ''))
            >= greatest(10, (p ->> 'most')::integer / 10)
        FROM (SELECT mail_domain FROM pepsi.tlsrpt_received WHERE received_at > now() - interval '1 day' LIMIT (p ->> 'most')::integer) w) THEN
        RETURN 'full';
    END IF;
    INSERT INTO pepsi.tlsrpt_received (domain, org, report_id, begin_at, end_at, mail_domain, verified, contact, digest, successes, failures)
    SELECT p ->> 'domain', p ->> 'org', p ->> 'report_id', to_timestamp((p ->> 'begin')::bigint), to_timestamp((p ->> 'end')::bigint),
        nullif(p ->> 'mail_domain', ''), (p ->> 'verified')::boolean, p ->> 'contact', d, coalesce(sum((r ->> 'successes')::bigint), 0),
        coalesce(sum((r ->> 'failures')::bigint), 0)
    FROM jsonb_array_elements(p -> 'policies') r
    ON CONFLICT DO NOTHING RETURNING id INTO new_id;
    IF new_id IS NULL THEN
        RETURN 'duplicate';
    END IF;
    INSERT INTO pepsi.tlsrpt_received_policy
    SELECT new_id, o, r ->> 'type', r ->> 'domain', (r ->> 'successes')::bigint, (r ->> 'failures')::bigint
    FROM jsonb_array_elements(p -> 'policies') WITH ORDINALITY t(r, o);
    INSERT INTO pepsi.tlsrpt_received_failure
    SELECT new_id, o, r ->> 'type', r ->> 'result', r ->> 'mx', pepsi.inet_or_null(r ->> 'receiving_ip'), pepsi.inet_or_null(r ->> 'sending_ip'), r ->> 'code',
        (r ->> 'sessions')::bigint
    FROM jsonb_array_elements(p -> 'failures') WITH ORDINALITY t(r, o);
    RETURN 'stored';
END $$;

-- {"domain": d, "since": "2026-11-01", "limit": n}: by domain and kind of policy; failures by host and kind, most first; the reports.
CREATE FUNCTION pepsi.tlsrpt_received_summary(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH r AS (SELECT * FROM pepsi.tlsrpt_received d WHERE (p ->> 'domain' IS NULL OR d.domain = lower(p ->> 'domain'))
            AND (p ->> 'since' IS NULL OR d.end_at >= (p ->> 'since')::date::timestamp AT TIME ZONE 'UTC'))
    SELECT jsonb_build_object(
        'domains', (SELECT coalesce(jsonb_agg(to_jsonb(d) ORDER BY d.failures DESC, d.domain, d.type), '[]') FROM (
            SELECT r.domain, x.type, count(DISTINCT r.id) AS reports, count(DISTINCT r.org) AS organisations, sum(x.successes)::bigint AS successes,
                sum(x.failures)::bigint AS failures, extract(epoch FROM min(r.begin_at))::bigint AS "begin", extract(epoch FROM max(r.end_at))::bigint AS "end"
            FROM r JOIN pepsi.tlsrpt_received_policy x ON x.received_id = r.id GROUP BY r.domain, x.type
            ORDER BY failures DESC, r.domain, x.type LIMIT (p ->> 'limit')::integer) d),
        'failures', (SELECT coalesce(jsonb_agg(to_jsonb(f) ORDER BY f.sessions DESC, f.domain, f.mx, f.result), '[]') FROM (
            SELECT r.domain, x.mx, x.result, x.type, x.code, host(x.receiving_ip) AS ip, sum(x.sessions)::bigint AS sessions, count(DISTINCT r.org) AS organisations,
                extract(epoch FROM max(r.end_at))::bigint AS latest
            FROM r JOIN pepsi.tlsrpt_received_failure x ON x.received_id = r.id GROUP BY r.domain, x.mx, x.result, x.type, x.code, x.receiving_ip
            ORDER BY sessions DESC, r.domain, x.mx, x.result LIMIT (p ->> 'limit')::integer) f),
        'reports', (SELECT coalesce(jsonb_agg(to_jsonb(q) ORDER BY q."end" DESC, q.org, q.report_id), '[]') FROM (
            SELECT r.domain, r.org, r.report_id, r.verified, r.mail_domain, r.contact, extract(epoch FROM r.begin_at)::bigint AS "begin",
                extract(epoch FROM r.end_at)::bigint AS "end", extract(epoch FROM r.received_at)::bigint AS received, r.successes, r.failures
            FROM r ORDER BY r.end_at DESC, r.org, r.report_id LIMIT (p ->> 'limit')::integer) q))
$$;

-- ---------------------------------------------------------------------------------------------- pepsi-failure-bouncer

-- Texts that may be anything become NULL where they are no time, no address.
CREATE FUNCTION pepsi.time_or_null(p text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN CASE WHEN p ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$' THEN p::timestamptz END;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;
CREATE FUNCTION pepsi.inet_or_null(p text) RETURNS inet LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN regexp_replace(translate(p, '[]', ''), '%[^/]*', '')::inet;
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$;

-- Does the address lie in one of the networks? As core/config/networks.c compares: IPv4 counts as ::ffff:0:0/96.
CREATE FUNCTION pepsi.address_in(p_ip text, p_networks text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce((SELECT bool_or(a.ip <<= n.net OR a.mapped <<= n.net)
        FROM (SELECT i.ip, CASE WHEN family(i.ip) = 4 THEN pepsi.inet_or_null('::ffff:' || host(i.ip))
                WHEN i.ip <<= '::ffff:0.0.0.0/96' THEN '0.0.0.0'::inet + (i.ip - '::ffff:0.0.0.0'::inet) END AS mapped
            FROM (SELECT pepsi.inet_or_null(p_ip) AS ip) i) a
        CROSS JOIN LATERAL (SELECT pepsi.inet_or_null(u) AS net FROM unnest(p_networks) u) n), false)
$$;

-- Does one verdict of state.auth, {"result","domain"} or a list of such, say pass for this domain or one above it?
CREATE FUNCTION pepsi.auth_covers(p_verdicts jsonb, p_domain text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(p_verdicts) WHEN 'array' THEN p_verdicts
            WHEN 'object' THEN jsonb_build_array(p_verdicts) ELSE '[]' END) v
        CROSS JOIN LATERAL (SELECT lower(rtrim(v ->> 'domain', '.')) AS d) x
        WHERE v ->> 'result' = 'pass' AND p_domain <> '' AND d <> ''
          AND (p_domain = d OR (strpos(d, '.') > 0 AND right(p_domain, length(d) + 1) = '.' || d)))
$$;

-- Is the envelope sender known to be who sent this, so that a report to it reaches him and nobody else? Yes for mail that
--   * was made here: it came in through no listener;
--   * came from a signed-in account, or from a client in p_networks (RELAY_NETWORKS): our own users, whom we promised a
--     report when we took their mail to anywhere;
--   * passed SPF, DKIM or DMARC for the very domain of the envelope sender, or one above it. A pass for another domain
--     proves nothing about the address that the report would go to.
CREATE FUNCTION pepsi.sender_authenticated(p_state jsonb, p_sender text, p_networks text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (coalesce(p_state #>> '{origin,listener}', '') = '' AND coalesce(p_state #>> '{origin,ip}', '') = '')
        OR coalesce(p_state #>> '{origin,account}', '') <> ''
        OR pepsi.address_in(p_state #>> '{origin,ip}', p_networks)
        OR pepsi.auth_covers(p_state #> '{auth,spf}', d) OR pepsi.auth_covers(p_state #> '{auth,dkim}', d)
        OR pepsi.auth_covers(p_state #> '{auth,dmarc}', d)
    FROM (SELECT CASE WHEN strpos(p_sender, '@') > 0 THEN lower(rtrim(substring(p_sender FROM '[^@]*$'), '.')) ELSE '' END AS d) x
$$;

-- One batch of a sweep: messages that are failed or timeout (p_statuses) for at least p_min_age_us, oldest id first, behind
-- id p_after (0: a sweep begins), at most p_limit. Each is
--   deleted  a copy of a mailing list (state.list): a report would count against the member at the list's bounce address;
--   dropped  its sender is not authenticated (and p_unauthenticated is false): a report would hit a stranger;
--   moved    to p_stage, pending, with the stage it failed at in state.failed_stage and the recorded error as last_error;
--            counters of retries and crashes begin anew there. The null sender always goes this way: the bounce stage ends it.
-- Those at p_stage stay as they are: a report that fails there must not loop. One row is returned for each that was
-- touched. Notifies `workqueue` when any was moved. Rows that somebody else holds locked are left for the next sweep.
CREATE FUNCTION pepsi.failure_bounce(p_stage text, p_statuses text[], p_min_age_us bigint, p_unauthenticated boolean,
    p_networks text[], p_after bigint, p_limit integer)
RETURNS TABLE (id bigint, action text, mail_from text, stage text, status text, error text, failed_at text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r record;
    moved integer := 0;
    present timestamptz := clock_timestamp();
BEGIN
    -- Without a usable time of failure (lost by hand, or in the future because the clock was put back) the wait begins now.
    IF p_after = 0 THEN
        UPDATE pepsi.workqueue w SET state = w.state || jsonb_build_object('failed_at',
            to_char(present AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
        WHERE w.status IN ('failed', 'timeout') AND w.status::text = ANY (p_statuses) AND lower(w.stage) <> lower(p_stage)
          AND coalesce(pepsi.time_or_null(w.state ->> 'failed_at') > clock_timestamp(), true);
    END IF;
    PERFORM set_config('pepsi.outcome', 'discarded', true);
    FOR r IN
        WITH due AS MATERIALIZED (
            SELECT w.id, w.mail_from, w.stage, w.status::text AS status, pepsi.last_error(w.state) AS error,
                w.state ->> 'failed_at' AS failed_at,
                CASE WHEN w.state ? 'list' THEN 'deleted'
                     WHEN w.mail_from = '' OR p_unauthenticated
                       OR pepsi.sender_authenticated(w.state, w.mail_from, p_networks) THEN 'moved'
                     ELSE 'dropped' END AS action
            FROM pepsi.workqueue w
            WHERE w.id > p_after AND w.status IN ('failed', 'timeout') AND w.status::text = ANY (p_statuses)
              AND lower(w.stage) <> lower(p_stage)
              AND pepsi.time_or_null(w.state ->> 'failed_at') <= present - p_min_age_us * interval '1 microsecond'
            ORDER BY lower(left(split_part(w.rcpt_to[1], '@', -1), 255)), w.id LIMIT p_limit FOR UPDATE SKIP LOCKED),
        up AS (
            UPDATE pepsi.workqueue w SET stage = p_stage, status = 'pending', timeout = NULL,
                state = (w.state - ARRAY['failed_at', 'dispatch_error', 'last_error', 'attempts', 'delay_sent', 'last_reply', 'moved'])
                    || jsonb_build_object('failed_stage', d.stage)
                    || CASE WHEN d.error IS NULL THEN '{}' ELSE jsonb_build_object('last_error', d.error) END
            FROM due d WHERE w.id = d.id AND d.action = 'moved'),
        gone AS (DELETE FROM pepsi.workqueue w USING due d WHERE w.id = d.id AND d.action <> 'moved')
        SELECT * FROM due ORDER BY due.id
    LOOP
        id := r.id; action := r.action; mail_from := r.mail_from; stage := r.stage; status := r.status;
        error := r.error; failed_at := r.failed_at;
        moved := moved + CASE WHEN r.action = 'moved' THEN 1 ELSE 0 END;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('pepsi.outcome', '', true);
    IF moved > 0 THEN
        PERFORM pg_notify('workqueue', '');
    END IF;
END $$;

-- How many still wait to be old enough, and in how many microseconds the first of them will be (NULL: none waits).
CREATE FUNCTION pepsi.failure_wait(p_stage text, p_statuses text[], p_min_age_us bigint, OUT waiting bigint, OUT next_us bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(*), (extract(epoch FROM min(coalesce(pepsi.time_or_null(w.state ->> 'failed_at'), now())) - clock_timestamp())
        * 1000000)::bigint + p_min_age_us
    FROM pepsi.workqueue w
    WHERE w.status IN ('failed', 'timeout') AND w.status::text = ANY (p_statuses) AND lower(w.stage) <> lower(p_stage)
$$;

-- ---------------------------------------------------------------------------------------------- the end of a lifetime

-- When a message's lifetime begins: its arrival, or the end of the hold its sender asked for; while an operator holds it, it stands still.
CREATE FUNCTION pepsi.life_began(p_state jsonb, p_received_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT greatest(p_received_at, CASE WHEN jsonb_typeof(p_state #> '{hold,until}') = 'number'
            AND (p_state #>> '{hold,until}')::numeric BETWEEN 0 AND 253402300799 THEN to_timestamp((p_state #>> '{hold,until}')::double precision) END)
        + CASE WHEN jsonb_typeof(p_state #> '{held,s}') = 'number' AND (p_state #>> '{held,s}')::numeric BETWEEN 0 AND 1e10
            THEN (p_state #>> '{held,s}')::double precision * interval '1 second' ELSE interval '0' END
$$;

-- MAX_LIFETIME where no worker would ever see that it is over. A worker that has a message ends it itself, at the attempt that fails; so
-- does one whose time to try again comes. What is left, at stages p_stage with lifetimes p_life_s and bounce stages p_bounce ('': none):
--   * paused without a time (nobody knows when it is resumed), and not held by an operator;
--   * pending at a stage that has no worker (p_down), or that is not configured any more (p_default_s counts, and no bounce stage);
--   * paused until a time behind its end (of those that wait longest, p_limit at most): is due now, for one attempt more.
-- The first two go to the bounce stage; without one, or from there, they become failed. At most p_limit rows each time; those that ended
-- are returned. What only waits in a long queue is not ended by its age: it has an attempt before it.
CREATE FUNCTION pepsi.workqueue_expire(p_stage text[], p_life_s bigint[], p_bounce text[], p_down boolean[], p_default_s bigint, p_limit integer)
RETURNS TABLE (id bigint, stage text, went_to text, error text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at text := '';
    k integer;
    over bigint[];
BEGIN
    over := ARRAY(SELECT w.id FROM pepsi.workqueue w LEFT JOIN unnest(p_stage, p_life_s) c(name, life) ON lower(c.name) = lower(w.stage)
        WHERE w.status = 'paused' AND w.timeout IS NULL AND NOT pepsi.is_held(w.status, w.state)
          AND pepsi.life_began(w.state, w.received_at) + coalesce(c.life, p_default_s) * interval '1 second' < now()
        LIMIT p_limit);
    LOOP -- from one stage with pending rows to the next
        SELECT w.stage INTO at FROM pepsi.workqueue w WHERE w.status = 'pending' AND w.stage > at ORDER BY w.stage LIMIT 1;
        EXIT WHEN NOT FOUND OR cardinality(over) >= p_limit;
        k := (SELECT u.o FROM unnest(p_stage) WITH ORDINALITY u(name, o) WHERE lower(u.name) = lower(at) LIMIT 1);
        CONTINUE WHEN k IS NOT NULL AND NOT p_down[k];
        over := over || ARRAY(SELECT o.id FROM (SELECT w.id, w.state, w.received_at FROM pepsi.workqueue w WHERE w.status = 'pending' AND w.stage = at
              AND w.received_at < now() - coalesce(p_life_s[k], p_default_s) * interval '1 second' ORDER BY w.received_at LIMIT p_limit) o
            WHERE pepsi.life_began(o.state, o.received_at) + coalesce(p_life_s[k], p_default_s) * interval '1 second' < now());
    END LOOP;
    FOR id, stage, went_to, error IN
        UPDATE pepsi.workqueue w SET stage = coalesce(x.bounce, w.stage), timeout = NULL,
            status = CASE WHEN x.bounce IS NULL THEN 'failed' ELSE 'pending' END::pepsi.workqueue_status,
            state = w.state || jsonb_build_object('last_error', x.why) || CASE WHEN x.bounce IS NULL THEN '{}' ELSE jsonb_build_object('bounce',
                jsonb_build_object('kind', 'permanent', 'diagnostic', x.why, 'enhanced_status', '4.4.7', 'phase', 'queue')) END
        FROM (SELECT r.id, r.stage, CASE WHEN lower(c.bounce) <> lower(r.stage) THEN nullif(c.bounce, '') END AS bounce,
                left('delivery time expired' || coalesce('; last attempt: ' || pepsi.last_error(r.state),
                    CASE WHEN c.name IS NULL THEN ': there is no stage ' || r.stage || ' any more'
                         WHEN r.status = 'paused' THEN ': it was paused, and nobody resumed it' ELSE ': stage ' || r.stage || ' has no worker' END), 500) AS why
            FROM pepsi.workqueue r LEFT JOIN unnest(p_stage, p_bounce) c(name, bounce) ON lower(c.name) = lower(r.stage)
            WHERE r.id = ANY (over) AND r.status IN ('paused', 'pending') AND NOT pepsi.is_held(r.status, r.state) ORDER BY r.id FOR UPDATE OF r SKIP LOCKED) x
        WHERE w.id = x.id
        RETURNING w.id, x.stage, coalesce(x.bounce, ''), x.why
    LOOP
        RETURN NEXT;
    END LOOP;
    UPDATE pepsi.workqueue w SET timeout = greatest(now(), x.ends)
    FROM (SELECT f.id, f.timeout, pepsi.life_began(f.state, f.received_at) + coalesce(c.life, p_default_s) * interval '1 second' AS ends
        FROM (SELECT p.id, p.stage, p.state, p.received_at, p.timeout FROM pepsi.workqueue p WHERE p.status = 'paused' AND p.timeout > now() + interval '1 minute'
              AND NOT pepsi.is_held(p.status, p.state) ORDER BY p.timeout DESC LIMIT p_limit) f
        LEFT JOIN unnest(p_stage, p_life_s) c(name, life) ON lower(c.name) = lower(f.stage)) x
    WHERE w.id = x.id AND w.status::text = 'paused' -- as text: see workqueue_claim
      AND x.timeout > greatest(now(), x.ends) + interval '1 minute';
END $$;

-- ---------------------------------------------------------------------------------------------- held mail, rules

-- pending, paused → held. p_rule 0: by hand. p_until NULL: until it is released.
CREATE FUNCTION pepsi.workqueue_hold(p_ids bigint[], p_rule bigint, p_reason text, p_until timestamptz) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    UPDATE pepsi.workqueue SET status = 'paused', timeout = p_until, state = state || jsonb_build_object('held',
        CASE WHEN jsonb_typeof(state -> 'held') = 'object' THEN state -> 'held' ELSE '{}' END || jsonb_strip_nulls(jsonb_build_object(
            'rule', p_rule, 'since', extract(epoch FROM now())::bigint, 'reason', nullif(p_reason, ''))))
    WHERE id = ANY (p_ids) AND pepsi.workqueue_may('hold', status, state);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- held → pending; notifies. p_past: past all rules that there are now.
CREATE FUNCTION pepsi.workqueue_release(p_ids bigint[], p_past boolean) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE n integer;
BEGIN
    UPDATE pepsi.workqueue SET status = 'pending', timeout = '-infinity', state = pepsi.held_over(state, p_past)
    WHERE id = ANY (p_ids) AND pepsi.workqueue_may('release', status, state);
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify('workqueue', '');
    END IF;
    RETURN n;
END $$;

-- A rule out of {"action", "sender", "recipient", "client", "stage", "to_stage", "reason", "made_by", "for": seconds}. Sender "<>": the null one.
CREATE FUNCTION pepsi.queue_rule_of(p jsonb) RETURNS pepsi.queue_rule
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p ? 'client' AND pepsi.inet_or_null(p ->> 'client') IS NULL THEN
        RAISE EXCEPTION '"%" is no address and no network', p ->> 'client' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN jsonb_populate_record(NULL::pepsi.queue_rule, p || jsonb_build_object(
        'sender', CASE WHEN p ->> 'sender' = '<>' THEN '' ELSE pepsi.address_fold(p ->> 'sender') END,
        'recipient', pepsi.address_fold(p ->> 'recipient'),
        'expires_at', now() + (p ->> 'for')::integer * interval '1 second'));
END $$;

-- Adds it; its id. At most 1000: workers hold each message against all of them. Those that have expired make room.
CREATE FUNCTION pepsi.queue_rule_add(p jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r pepsi.queue_rule := pepsi.queue_rule_of(p);
    new_id bigint;
BEGIN
    LOCK TABLE pepsi.queue_rule IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT count(*) FROM pepsi.queue_rule WHERE expires_at IS NULL OR expires_at > now()) >= 1000 THEN
        RAISE EXCEPTION 'there are 1000 rules already' USING ERRCODE = 'program_limit_exceeded';
    END IF;
    INSERT INTO pepsi.queue_rule (action, sender, recipient, client, stage, to_stage, reason, made_by, expires_at)
    VALUES (r.action, r.sender, r.recipient, r.client, r.stage, r.to_stage, coalesce(r.reason, ''), coalesce(r.made_by, ''), r.expires_at)
    RETURNING id INTO new_id;
    RETURN new_id;
END $$;

-- Away with it. What it holds is released by queue_rule_release(), or within a minute by queue_rule_sweep().
CREATE FUNCTION pepsi.queue_rule_remove(p_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.queue_rule WHERE id = p_id;
    RETURN FOUND;
END $$;

-- Does the rule mean this message, with all of its recipients?
CREATE FUNCTION pepsi.queue_rule_means(r pepsi.queue_rule, p_stage text, p_mail_from text, p_rcpt_to text[], p_state jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT (r.stage IS NULL OR lower(r.stage) = lower(p_stage))
        AND (r.sender IS NULL OR pepsi.address_means(r.sender, p_mail_from))
        AND (r.recipient IS NULL OR NOT EXISTS (SELECT FROM unnest(p_rcpt_to) t WHERE NOT pepsi.address_means(r.recipient, t)))
        AND (r.client IS NULL OR pepsi.address_in(p_state #>> '{origin,ip}', ARRAY[r.client]))
$$;

-- One batch of what a rule does to mail that is queued already, behind id p_after. p_rule 0: the rule is p (which is not there: only to
-- count). Hold: what is pending or paused becomes held. Reroute: what waits for another try is due now, and its worker sends it the
-- other way; a rule about one stage moves what is there at once, for that stage may have no worker that could. A row of which the rule
-- means some recipients only is left to its worker, who parts them.
CREATE FUNCTION pepsi.queue_rule_apply(p_rule bigint, p jsonb, p_dry boolean, p_after bigint, p_limit integer,
    OUT matched integer, OUT changed integer, OUT last bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r pepsi.queue_rule := pepsi.queue_rule_of(p);
    ids bigint[];
BEGIN
    IF p_rule > 0 THEN
        SELECT * INTO r FROM pepsi.queue_rule WHERE id = p_rule;
    END IF;
    IF r.action IS NULL THEN -- removed meanwhile
        matched := 0; changed := 0; last := 0;
        RETURN;
    END IF;
    ids := ARRAY(SELECT w.id FROM pepsi.workqueue w
        WHERE w.id > p_after AND pepsi.workqueue_may('hold', w.status, w.state)
          AND (r.action = 'hold' OR (lower(w.stage) <> lower(r.to_stage) AND (w.status = 'paused' OR r.stage IS NOT NULL)))
          AND pepsi.queue_rule_means(r, w.stage, w.mail_from, w.rcpt_to, w.state)
          AND NOT CASE WHEN jsonb_typeof(w.state #> '{held,released}') = 'number'
            THEN (w.state #>> '{held,released}')::numeric >= extract(epoch FROM coalesce(r.created_at, now())) * 1000000 ELSE false END
        ORDER BY w.id LIMIT p_limit);
    matched := cardinality(ids);
    last := coalesce(ids[matched], 0);
    changed := matched;
    IF p_dry THEN
        RETURN;
    ELSIF r.action = 'hold' THEN
        changed := pepsi.workqueue_hold(ids, r.id, r.reason, r.expires_at);
        RETURN;
    END IF;
    UPDATE pepsi.workqueue w SET status = 'pending', timeout = '-infinity', stage = CASE WHEN r.stage IS NULL THEN w.stage ELSE r.to_stage END,
        state = CASE WHEN r.stage IS NULL THEN w.state ELSE (w.state - ARRAY['attempts', 'last_error', 'last_reply', 'dispatch_error'])
            || jsonb_build_object('rerouted', jsonb_build_object('rule', r.id, 'from', w.stage)) END
    WHERE w.id = ANY (ids) AND pepsi.workqueue_may('hold', w.status, w.state);
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed > 0 THEN
        PERFORM pg_notify('workqueue', '');
    END IF;
END $$;

-- Lets go what a rule holds, at most p_limit rows; returns how many. Other rules may hold them again.
CREATE FUNCTION pepsi.queue_rule_release(p_rule bigint, p_limit integer) RETURNS integer
LANGUAGE sql AS $$
    SELECT pepsi.workqueue_release(ARRAY(SELECT w.id FROM pepsi.workqueue w WHERE w.status = 'paused' AND (w.state #>> '{held,rule}') IS NOT NULL
        AND left(w.state #>> '{held,rule}', 20) = p_rule::text ORDER BY w.id LIMIT p_limit), false)
$$;

-- For people: the rules of an action (NULL: all), the oldest first, and how many messages each holds.
CREATE FUNCTION pepsi.queue_rule_list(p_action text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'action', r.action, 'sender', CASE WHEN r.sender = '' THEN '<>' ELSE r.sender END,
        'recipient', r.recipient, 'client', r.client, 'stage', r.stage, 'to', r.to_stage, 'reason', r.reason, 'made_by', r.made_by,
        'created_at', pepsi.iso(r.created_at), 'expires_at', pepsi.iso(r.expires_at), 'held', (SELECT count(*) FROM pepsi.workqueue w
            WHERE w.status = 'paused' AND (w.state #>> '{held,rule}') IS NOT NULL AND left(w.state #>> '{held,rule}', 20) = r.id::text))
        ORDER BY r.id), '[]')
    FROM pepsi.queue_rule r WHERE (p_action IS NULL OR r.action = p_action) AND (r.expires_at IS NULL OR r.expires_at > now())
$$;

-- For workers: those in force, the newest first. Times in microseconds since 1970; 0: no end.
CREATE FUNCTION pepsi.queue_rules() RETURNS TABLE (id bigint, action text, sender text, recipient text, client text, stage text, to_stage text,
    reason text, created_us bigint, expires_us bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.id, r.action, r.sender, r.recipient, r.client, r.stage, r.to_stage, r.reason, (extract(epoch FROM r.created_at) * 1000000)::bigint,
        coalesce((extract(epoch FROM r.expires_at) * 1000000)::bigint, 0)
    FROM pepsi.queue_rule r WHERE r.expires_at IS NULL OR r.expires_at > now() ORDER BY r.id DESC LIMIT 1000
$$;

-- Forgets rules that have expired, and lets go what a rule holds that is not there any more (a command that was cut off between removing it
-- and releasing). Returns how many rows were let go.
CREATE FUNCTION pepsi.queue_rule_sweep(p_limit integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pepsi.queue_rule WHERE expires_at < now()) THEN -- a statement without rows would notify, too
        DELETE FROM pepsi.queue_rule WHERE expires_at < now();
    END IF;
    RETURN pepsi.workqueue_release(ARRAY(SELECT w.id FROM pepsi.workqueue w
        WHERE w.status = 'paused' AND (w.state #>> '{held,rule}') IS NOT NULL AND left(w.state #>> '{held,rule}', 20) <> '0'
          AND NOT EXISTS (SELECT FROM pepsi.queue_rule r WHERE r.id::text = left(w.state #>> '{held,rule}', 20)) ORDER BY w.id LIMIT p_limit), false);
END $$;

-- Workers read the rules when they start.
CREATE TRIGGER queue_rule_changed_notify AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON pepsi.queue_rule
    FOR EACH STATEMENT EXECUTE FUNCTION pepsi.config_changed_notify();

-- ---------------------------------------------------------------------------------------------- other domains and their hosts
-- All run with the owner's rights: nobody has a privilege on the tables. Times are seconds since 1970, null for none.

CREATE FUNCTION pepsi.delivery_time(p_seconds bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT to_timestamp(nullif(p_seconds, 0)) $$;

CREATE FUNCTION pepsi.delivery_seconds(p_time timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT coalesce(extract(epoch FROM p_time)::bigint, 0) $$;

-- May the table have more rows than that, as the last ANALYZE has it? Looked at in place of counting, which costs more than what it is to spare.
CREATE FUNCTION pepsi.known_over(p_table regclass, p_most bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT reltuples < 0 OR reltuples > p_most * 0.9 FROM pg_class WHERE oid = p_table $$;

-- What is known of strangers is bounded: beyond these rows what was of no use for longest goes, 10000 at a time; of policies first those that hold no longer.
-- The functions below call it once in a hundred times. How many went.
CREATE FUNCTION pepsi.known_trim(p_policies bigint DEFAULT 20000, p_addresses bigint DEFAULT 200000, p_domains bigint DEFAULT 200000) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH policies AS (DELETE FROM pepsi.sts_policy WHERE domain = ANY (ARRAY(
            SELECT domain FROM pepsi.sts_policy ORDER BY coalesce(expires_at > now(), false), used_at LIMIT CASE WHEN pepsi.known_over('pepsi.sts_policy', p_policies)
                THEN least(greatest((SELECT count(*) FROM pepsi.sts_policy) - p_policies, 0), 10000) ELSE 0 END FOR UPDATE SKIP LOCKED))
        RETURNING 1),
    addresses AS (DELETE FROM pepsi.dns_address WHERE address = ANY (ARRAY(
            SELECT address FROM pepsi.dns_address ORDER BY changed_at LIMIT CASE WHEN pepsi.known_over('pepsi.dns_address', p_addresses)
                THEN least(greatest((SELECT count(*) FROM pepsi.dns_address) - p_addresses, 0), 10000) ELSE 0 END FOR UPDATE SKIP LOCKED))
        RETURNING 1),
    domains AS (DELETE FROM pepsi.destination_security WHERE domain = ANY (ARRAY(
            SELECT domain FROM pepsi.destination_security ORDER BY last_at LIMIT CASE WHEN pepsi.known_over('pepsi.destination_security', p_domains)
                THEN least(greatest((SELECT count(*) FROM pepsi.destination_security) - p_domains, 0), 10000) ELSE 0 END FOR UPDATE SKIP LOCKED))
        RETURNING 1)
    SELECT (SELECT count(*) FROM policies) + (SELECT count(*) FROM addresses) + (SELECT count(*) FROM domains)
$$;

-- What is known of a domain's policy; no row: nothing. p_used: for mail, which is noted about once an hour. Times without value are 0.
CREATE FUNCTION pepsi.sts_policy_get(p_domain text, p_used boolean, OUT id text, OUT body text, OUT fetched bigint, OUT failed bigint, OUT failures integer, OUT result text,
    OUT why text) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE pepsi.sts_policy s SET used_at = now() WHERE p_used AND s.domain = p_domain AND s.used_at < now() - interval '1 hour';
    RETURN QUERY SELECT s.id, s.body, pepsi.delivery_seconds(s.fetched_at), pepsi.delivery_seconds(s.failed_at), s.failures, s.result, s.why
        FROM pepsi.sts_policy s WHERE s.domain = p_domain;
END $$;

-- A policy was fetched: it stands for the one before, and failures are over. p_due: when to fetch it again.
CREATE FUNCTION pepsi.sts_policy_put(p_domain text, p_id text, p_mode text, p_body text, p_fetched bigint, p_expires bigint, p_due bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pepsi.known_trim() WHERE random() < 0.01;
    INSERT INTO pepsi.sts_policy AS s (domain, id, mode, body, fetched_at, expires_at, due_at)
    VALUES (p_domain, p_id, p_mode, p_body, to_timestamp(p_fetched), to_timestamp(p_expires), to_timestamp(p_due))
    ON CONFLICT (domain) DO UPDATE SET id = excluded.id, mode = excluded.mode, body = excluded.body, fetched_at = excluded.fetched_at,
        expires_at = excluded.expires_at, due_at = excluded.due_at, failed_at = NULL, failures = 0, result = NULL, why = NULL
    WHERE s.fetched_at IS NULL OR s.fetched_at <= excluded.fetched_at
$$;

-- A fetch failed. One that another worker has just told (p_before: the failures the caller knew of) does not count twice.
CREATE FUNCTION pepsi.sts_policy_failed(p_domain text, p_result text, p_why text, p_at bigint, p_due bigint, p_before integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pepsi.known_trim() WHERE random() < 0.01;
    INSERT INTO pepsi.sts_policy AS s (domain, failed_at, due_at, failures, result, why)
    VALUES (p_domain, to_timestamp(p_at), to_timestamp(p_due), 1, p_result, p_why)
    ON CONFLICT (domain) DO UPDATE SET failed_at = excluded.failed_at, due_at = excluded.due_at, failures = greatest(s.failures, p_before + 1),
        result = excluded.result, why = excluded.why
    WHERE s.fetched_at IS NULL OR s.fetched_at < excluded.failed_at
$$;

-- What is known is over. Says whether there was something.
CREATE FUNCTION pepsi.sts_policy_forget(p_domain text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.sts_policy WHERE domain = p_domain;
    RETURN FOUND;
END $$;

-- Domains whose policy should be fetched again before it ends (RFC 8461 §10.2), and that mail went to within p_used seconds; each is given to one
-- caller, and again after ten minutes if nothing came of it. What nobody used for so long, and holds no longer, goes.
CREATE FUNCTION pepsi.sts_policy_due(p_limit integer, p_used bigint) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.sts_policy s WHERE s.domain = ANY (ARRAY(SELECT d.domain FROM pepsi.sts_policy d WHERE d.used_at < now() - make_interval(secs => p_used)
        AND coalesce(d.expires_at, d.failed_at + interval '1 day') < now() LIMIT 1000 FOR UPDATE SKIP LOCKED));
    RETURN QUERY UPDATE pepsi.sts_policy s SET due_at = now() + interval '10 minutes' WHERE s.domain = ANY (ARRAY(
        SELECT d.domain FROM pepsi.sts_policy d WHERE d.id IS NOT NULL AND d.due_at <= now() AND d.expires_at > now()
            AND d.used_at >= now() - make_interval(secs => p_used) ORDER BY d.due_at LIMIT p_limit FOR UPDATE SKIP LOCKED)) RETURNING s.domain;
END $$;

-- {"domain": d, "limit": n}: for people, those with failures first.
CREATE FUNCTION pepsi.sts_policy_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('domain', w.domain, 'mode', w.mode, 'id', w.id, 'fetched', extract(epoch FROM w.fetched_at)::bigint,
        'expires', extract(epoch FROM w.expires_at)::bigint, 'holds', w.expires_at > now(), 'due', extract(epoch FROM w.due_at)::bigint,
        'failed', extract(epoch FROM w.failed_at)::bigint, 'failures', w.failures, 'result', w.result, 'why', w.why,
        'used', extract(epoch FROM w.used_at)::bigint, 'policy', CASE WHEN p ->> 'domain' IS NOT NULL THEN w.body END,
        'best', d.best, 'best_at', extract(epoch FROM d.best_at)::bigint, 'last', d.last, 'last_at', extract(epoch FROM d.last_at)::bigint,
        'weaker', d.told IS NOT NULL)) ORDER BY w.failures > 0 DESC, w.domain), '[]')
    FROM (SELECT * FROM pepsi.sts_policy s WHERE p ->> 'domain' IS NULL OR s.domain = p ->> 'domain'
        ORDER BY s.failures > 0 DESC, s.domain LIMIT (p ->> 'limit')::integer) w LEFT JOIN pepsi.destination_security d ON d.domain = w.domain
$$;

-- What is known of addresses: those that changed last, p_limit at most.
CREATE FUNCTION pepsi.dns_address_load(p_limit integer, OUT address text, OUT host text, OUT expires bigint, OUT ok bigint, OUT failed bigint, OUT failures integer,
    OUT until bigint, OUT why text) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT host(a.address), a.host, pepsi.delivery_seconds(a.expires_at), pepsi.delivery_seconds(a.ok_at), pepsi.delivery_seconds(a.failed_at), a.failures,
        pepsi.delivery_seconds(a.until_at), coalesce(a.why, '')
    FROM pepsi.dns_address a WHERE a.changed_at > now() - interval '7 days' ORDER BY a.changed_at DESC LIMIT p_limit
$$;

-- What workers learned, as parallel arrays, an address once. Of two that know different things the later event counts. What was not touched for
-- thirty days goes on the way.
CREATE FUNCTION pepsi.dns_address_put(p_address text[], p_host text[], p_expires bigint[], p_ok bigint[], p_failed bigint[], p_failures integer[],
    p_until bigint[], p_why text[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pepsi.known_trim() WHERE random() < 0.01;
    DELETE FROM pepsi.dns_address WHERE address = ANY (ARRAY(SELECT address FROM pepsi.dns_address WHERE changed_at < now() - interval '30 days' LIMIT 1000
        FOR UPDATE SKIP LOCKED));
    INSERT INTO pepsi.dns_address AS o (address, host, expires_at, ok_at, failed_at, failures, until_at, why, changed_at)
    SELECT address::inet, host, pepsi.delivery_time(expires), pepsi.delivery_time(ok), pepsi.delivery_time(failed), failures, pepsi.delivery_time(until),
        nullif(why, ''), now()
    FROM unnest(p_address, p_host, p_expires, p_ok, p_failed, p_failures, p_until, p_why) t(address, host, expires, ok, failed, failures, until, why)
    ORDER BY address::inet
    ON CONFLICT (address) DO UPDATE SET host = excluded.host, expires_at = excluded.expires_at, ok_at = greatest(o.ok_at, excluded.ok_at),
        failed_at = greatest(o.failed_at, excluded.failed_at), failures = excluded.failures, until_at = excluded.until_at, why = coalesce(excluded.why, o.why),
        changed_at = now()
    WHERE greatest(excluded.ok_at, excluded.failed_at) >= coalesce(greatest(o.ok_at, o.failed_at), '-infinity')
$$;

-- {"limit": n, "host": h}: for people, those that fail first.
CREATE FUNCTION pepsi.dns_address_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('address', host(w.address), 'host', w.host, 'expires', extract(epoch FROM w.expires_at)::bigint,
        'ok', extract(epoch FROM w.ok_at)::bigint, 'failed', extract(epoch FROM w.failed_at)::bigint, 'failures', w.failures,
        'until', extract(epoch FROM w.until_at)::bigint, 'why', w.why)) ORDER BY w.failures DESC, w.host, w.address), '[]')
    FROM (SELECT * FROM pepsi.dns_address a WHERE p ->> 'host' IS NULL OR a.host = lower(p ->> 'host')
        ORDER BY a.failures DESC, a.host, a.address LIMIT (p ->> 'limit')::integer) w
$$;

-- So many messages more from p_source to p_destination on p_day (days since 1970) of p_allowance: how many of the p_want there are, 0 to p_want.
CREATE FUNCTION pepsi.warmup_take(p_source text, p_destination text, p_day integer, p_allowance bigint, p_want bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    d CONSTANT date := date '1970-01-01' + p_day;
    s CONSTANT inet := p_source::inet;
    had bigint;
    n bigint;
BEGIN
    SELECT taken INTO had FROM pepsi.warmup WHERE day = d AND source = s AND destination = p_destination FOR UPDATE;
    IF had IS NULL THEN
        DELETE FROM pepsi.warmup WHERE (day, source, destination) IN (SELECT w.day, w.source, w.destination FROM pepsi.warmup w
            WHERE w.day < (now() AT TIME ZONE 'UTC')::date - 7 LIMIT 1000 FOR UPDATE SKIP LOCKED);
        -- more destinations than anybody has: the others go without
        IF (SELECT count(*) FROM (SELECT FROM pepsi.warmup WHERE day = d AND source = s LIMIT 20000) w) >= 20000 THEN
            RETURN 0;
        END IF;
        INSERT INTO pepsi.warmup (day, source, destination) VALUES (d, s, p_destination) ON CONFLICT DO NOTHING;
        SELECT taken INTO had FROM pepsi.warmup WHERE day = d AND source = s AND destination = p_destination FOR UPDATE;
    END IF;
    n := greatest(least(p_want, p_allowance - had), 0);
    UPDATE pepsi.warmup SET taken = had + n WHERE day = d AND source = s AND destination = p_destination AND n > 0;
    RETURN n;
END $$;

-- What was taken and not used, as parallel arrays.
CREATE FUNCTION pepsi.warmup_give(p_source text[], p_destination text[], p_day integer[], p_n bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT date '1970-01-01' + t.day AS on_day, t.source::inet AS ip, t.destination, t.n FROM unnest(p_source, p_destination, p_day, p_n)
        t(source, destination, day, n) ORDER BY 1, 2, 3 LOOP -- the same order in all workers
        UPDATE pepsi.warmup SET taken = greatest(taken - r.n, 0) WHERE day = r.on_day AND source = r.ip AND destination = r.destination;
    END LOOP;
END $$;

-- How a domain was protected so far; no row: not known.
CREATE FUNCTION pepsi.destination_security_get(p_domain text, OUT best text, OUT best_at bigint, OUT last text, OUT last_at bigint, OUT told text,
    OUT told_at bigint) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.best, pepsi.delivery_seconds(s.best_at), s.last, pepsi.delivery_seconds(s.last_at), coalesce(s.told, 'unknown'), pepsi.delivery_seconds(s.told_at)
    FROM pepsi.destination_security s WHERE s.domain = p_domain
$$;

-- As parallel arrays, a domain once; told is "unknown" for none. A later sight of a domain counts. What was not touched for a year goes on the way.
CREATE FUNCTION pepsi.destination_security_put(p_domain text[], p_best text[], p_best_at bigint[], p_last text[], p_last_at bigint[], p_told text[],
    p_told_at bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pepsi.known_trim() WHERE random() < 0.01;
    DELETE FROM pepsi.destination_security WHERE domain = ANY (ARRAY(SELECT domain FROM pepsi.destination_security WHERE last_at < now() - interval '365 days'
        LIMIT 1000 FOR UPDATE SKIP LOCKED));
    INSERT INTO pepsi.destination_security AS o (domain, best, best_at, last, last_at, told, told_at)
    SELECT domain, best, to_timestamp(best_at), last, to_timestamp(last_at), nullif(told, 'unknown'), CASE WHEN told <> 'unknown' THEN to_timestamp(told_at) END
    FROM unnest(p_domain, p_best, p_best_at, p_last, p_last_at, p_told, p_told_at) t(domain, best, best_at, last, last_at, told, told_at)
    ORDER BY domain
    ON CONFLICT (domain) DO UPDATE SET best = excluded.best, best_at = excluded.best_at, last = excluded.last, last_at = excluded.last_at, told = excluded.told,
        told_at = excluded.told_at
    WHERE excluded.last_at >= o.last_at
$$;

-- {"limit": n, "domain": d, "weaker": true}: for people, those that are weaker than they were first.
CREATE FUNCTION pepsi.destination_security_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('domain', w.domain, 'best', w.best, 'best_at', extract(epoch FROM w.best_at)::bigint, 'last', w.last,
        'last_at', extract(epoch FROM w.last_at)::bigint, 'weaker', w.told IS NOT NULL, 'told_at', extract(epoch FROM w.told_at)::bigint))
        ORDER BY w.told_at DESC NULLS LAST, w.domain), '[]')
    FROM (SELECT * FROM pepsi.destination_security s WHERE (p ->> 'domain' IS NULL OR s.domain = p ->> 'domain')
        AND (NOT coalesce((p ->> 'weaker')::boolean, false) OR s.told IS NOT NULL) ORDER BY s.told_at DESC NULLS LAST, s.domain LIMIT (p ->> 'limit')::integer) w
$$;

-- Forgets the best a domain has shown: what it shows now is right. Says whether something was known.
CREATE FUNCTION pepsi.destination_security_forget(p_domain text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.destination_security WHERE domain = p_domain;
    RETURN FOUND;
END $$;

-- For status and metrics: policies that hold, of these enforced, domains whose fetch fails, domains weaker than they were, addresses that fail.
CREATE FUNCTION pepsi.delivery_counts() RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[(SELECT count(*) FROM pepsi.sts_policy WHERE expires_at > now()),
        (SELECT count(*) FROM pepsi.sts_policy WHERE expires_at > now() AND mode = 'enforce'),
        (SELECT count(*) FROM pepsi.sts_policy WHERE failures > 0 AND failed_at > now() - interval '2 days'),
        (SELECT count(*) FROM pepsi.destination_security WHERE told IS NOT NULL),
        (SELECT count(*) FROM pepsi.dns_address WHERE failures > 0 AND until_at > now() - interval '1 hour'),
        (SELECT count(*) FROM pepsi.tlsrpt_report WHERE outcome IS NULL),
        (SELECT count(*) FROM pepsi.tlsrpt_received WHERE received_at > now() - interval '2 days'),
        (SELECT coalesce(sum(failures), 0) FROM pepsi.tlsrpt_received WHERE received_at > now() - interval '2 days')]
$$;

-- ---------------------------------------------------------------------------------------------- suppression

-- Which of these recipients (lower case) are suppressed now, by their place in the list (from 1), and why. Each counts as a message not sent.
CREATE FUNCTION pepsi.suppression_lookup(p_rcpts text[]) RETURNS TABLE (nth integer, class text, status text, reply text, since text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE pepsi.suppression s SET hits = s.hits + 1, hit_at = now() FROM unnest(p_rcpts) WITH ORDINALITY u(r, o)
    WHERE s.recipient = u.r AND s.class <> 'allow' AND (s.expires_at IS NULL OR s.expires_at > now())
    RETURNING u.o::integer, s.class, s.status, s.reply, pepsi.iso(s.created_at)
$$;

-- What receiving servers said of recipients, as parallel arrays: suppressed for p_seconds. What an operator put there stays as it is. At most p_most
-- rows are learnt in all; of more nothing is learnt until some expire. Forgets a few of those that have. Returns how many are new.
CREATE FUNCTION pepsi.suppression_learn(p_rcpts text[], p_status text[], p_reply text[], p_source bigint, p_seconds bigint, p_most bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE n integer;
BEGIN
    DELETE FROM pepsi.suppression WHERE recipient IN (SELECT s.recipient FROM pepsi.suppression s WHERE s.expires_at < now() ORDER BY s.expires_at
        LIMIT 100 FOR UPDATE SKIP LOCKED);
    IF (SELECT reltuples FROM pg_class WHERE oid = 'pepsi.suppression'::regclass) >= p_most THEN
        RETURN 0;
    END IF;
    WITH put AS (
        INSERT INTO pepsi.suppression AS s (recipient, class, status, reply, source_id, expires_at)
        SELECT DISTINCT ON (u.r) u.r, 'hard', left(u.st, 16), left(u.re, 500), p_source, now() + p_seconds * interval '1 second'
        FROM unnest(p_rcpts, p_status, p_reply) u(r, st, re) WHERE octet_length(u.r) BETWEEN 3 AND 320 ORDER BY u.r
        ON CONFLICT (recipient) DO UPDATE SET status = excluded.status, reply = excluded.reply, source_id = excluded.source_id, expires_at = excluded.expires_at
        WHERE s.class = 'hard' RETURNING s.xmax = 0 AS made)
    SELECT count(*) INTO n FROM put WHERE made;
    RETURN n;
END $$;

-- For pepsi-suppression. {"recipient", "class", "reason", "for": seconds}: puts it there, over what was learnt; says whether it is new.
CREATE FUNCTION pepsi.suppression_add(p jsonb) RETURNS jsonb
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO pepsi.suppression AS s (recipient, class, reply, expires_at)
    VALUES (lower((p ->> 'recipient') COLLATE "C"), p ->> 'class', left(coalesce(p ->> 'reason', ''), 500), now() + (p ->> 'for')::bigint * interval '1 second')
    ON CONFLICT (recipient) DO UPDATE SET class = excluded.class, status = '', reply = excluded.reply, source_id = NULL, created_at = now(),
        expires_at = excluded.expires_at
    RETURNING to_jsonb(s.xmax = 0)
$$;

-- {"recipient"}: says whether it was there.
CREATE FUNCTION pepsi.suppression_remove(p jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM pepsi.suppression WHERE recipient = lower((p ->> 'recipient') COLLATE "C");
    RETURN to_jsonb(FOUND);
END $$;

-- {"recipient": r, or "@domain": all there; "after": r, "limit": n}: those in force, by recipient.
CREATE FUNCTION pepsi.suppression_list(p jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('recipient', x.recipient, 'class', x.class, 'status', x.status, 'reply', x.reply, 'source_id', x.source_id,
        'created_at', pepsi.iso(x.created_at), 'expires_at', pepsi.iso(x.expires_at), 'hits', x.hits, 'hit_at', pepsi.iso(x.hit_at)) ORDER BY x.recipient), '[]')
    FROM (SELECT * FROM pepsi.suppression s WHERE (s.expires_at IS NULL OR s.expires_at > now()) AND s.recipient > coalesce(p ->> 'after', '')
        AND (p ->> 'recipient' IS NULL OR pepsi.address_means(p ->> 'recipient', s.recipient)) ORDER BY s.recipient LIMIT (p ->> 'limit')::integer) x
$$;

-- ---------------------------------------------------------------------------------------------- srs

-- Keeps a sender under a reference for p_seconds; one that is there is kept longer, at most once a day. At most p_most rows: false, it is not kept.
-- Forgets a few of those that have expired.
CREATE FUNCTION pepsi.srs_keep(p_reference text, p_sender text, p_seconds bigint, p_most bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE until timestamptz := now() + p_seconds * interval '1 second';
DECLARE about bigint;
BEGIN
    UPDATE pepsi.srs_sender s SET expires_at = until WHERE s.reference = p_reference AND s.sender = p_sender AND s.expires_at < until - interval '1 day';
    IF EXISTS (SELECT FROM pepsi.srs_sender s WHERE s.reference = p_reference AND s.sender = p_sender) THEN
        RETURN true;
    END IF;
    DELETE FROM pepsi.srs_sender WHERE reference IN (SELECT s.reference FROM pepsi.srs_sender s WHERE s.expires_at < now() ORDER BY s.expires_at
        LIMIT 100 FOR UPDATE SKIP LOCKED);
    -- small numbers are counted, for large ones what the last analysis found will do
    SELECT reltuples INTO about FROM pg_class WHERE oid = 'pepsi.srs_sender'::regclass;
    IF about >= p_most OR (p_most <= 1000 AND (SELECT count(*) FROM pepsi.srs_sender) >= p_most) THEN
        RETURN false;
    END IF;
    INSERT INTO pepsi.srs_sender AS s (reference, sender, expires_at) VALUES (p_reference, p_sender, until)
    ON CONFLICT (reference) DO UPDATE SET expires_at = excluded.expires_at WHERE s.sender = excluded.sender;
    RETURN true;
END $$;

-- The sender kept under a reference; null: none, or it has expired.
CREATE FUNCTION pepsi.srs_kept(p_reference text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.sender FROM pepsi.srs_sender s WHERE s.reference = p_reference AND s.expires_at > now()
$$;

-- May bounces go back to these senders (lower case, each once) now? At most p_each an hour to each, p_all to all together. 0: yes, and with p_count
-- they are counted; else the seconds till they may.
CREATE FUNCTION pepsi.srs_take(p_targets text[], p_each bigint, p_all bigint, p_count boolean) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE this timestamptz := date_trunc('hour', now());
BEGIN
    IF p_count THEN -- who counts waits for this row, so that no two find room for one; what follows sees what the one before wrote
        INSERT INTO pepsi.srs_use AS u (target, hour, n) VALUES ('', this, 0) ON CONFLICT (target) DO UPDATE SET n = u.n;
    END IF;
    IF EXISTS (SELECT FROM pepsi.srs_use u JOIN unnest(p_targets) t ON t = u.target WHERE u.hour = this AND u.n >= p_each) OR
       EXISTS (SELECT FROM pepsi.srs_use u WHERE u.target = '' AND u.hour = this AND u.n + cardinality(p_targets) > p_all) OR cardinality(p_targets) > p_all THEN
        RETURN greatest(1, ceil(extract(epoch FROM this + interval '1 hour' - now())))::integer;
    END IF;
    IF p_count THEN
        DELETE FROM pepsi.srs_use WHERE target IN (SELECT u.target FROM pepsi.srs_use u WHERE u.hour < this ORDER BY u.hour LIMIT 100 FOR UPDATE SKIP LOCKED);
        -- in one order, so that two of these never wait for each other
        INSERT INTO pepsi.srs_use AS u (target, hour, n)
        SELECT t, this, k FROM (SELECT '' AS t, cardinality(p_targets)::bigint AS k UNION ALL SELECT t, 1 FROM unnest(p_targets) t) x ORDER BY t
        ON CONFLICT (target) DO UPDATE SET n = CASE WHEN u.hour = excluded.hour THEN u.n + excluded.n ELSE excluded.n END, hour = excluded.hour;
    END IF;
    RETURN 0;
END $$;
