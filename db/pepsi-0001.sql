-- pepsi-0001.sql: the first patch of the schema: the queue, its accounting, the statistics and the configuration
-- overlay. A published patch is never changed; what comes later is pepsi-0002.sql and on. Functions that may be made
-- anew at any time are in procedures.sql; the only functions here are those that columns are generated from. Run by
-- the migration runner (core/store/migrate.c) inside one transaction.

CREATE SCHEMA IF NOT EXISTS pepsi;

CREATE TABLE pepsi.schema_version (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    digest     text NOT NULL,               -- md5 of the patch as it was applied
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Rows and bodies are numbered from one sequence: a body has the id of the message that brought it.
CREATE SEQUENCE pepsi.workqueue_id_seq AS bigint;

CREATE TYPE pepsi.workqueue_status AS ENUM ('pending', 'running', 'paused', 'failed', 'timeout');

-- The /64 of an IPv6 address, the IPv4 address inside a mapped one, and any other text as it is, cut short: a key for
-- fairness must never be able to refuse a message.
CREATE FUNCTION pepsi.sender_net(p_ip text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF p_ip ~* '^::ffff:[0-9.]+$' THEN
        RETURN left(substr(p_ip, 8), 64);
    END IF;
    RETURN network(set_masklen(p_ip::inet, 64))::text;
EXCEPTION WHEN others THEN
    RETURN left(p_ip, 64);
END $$;

-- One row per message in flight. Invariant: raw message = headers || CRLF || body (cut at the first empty line).
CREATE TABLE pepsi.workqueue (
    id          bigint NOT NULL PRIMARY KEY DEFAULT nextval('pepsi.workqueue_id_seq'),
    body_id     bigint NOT NULL,            -- pepsi.workqueue_body; no foreign key: see README.md, "Bodies"
    received_at timestamptz NOT NULL DEFAULT now(),
    timeout     timestamptz,                -- of a paused row: when to try again; NULL: only when resumed
    status      pepsi.workqueue_status NOT NULL DEFAULT 'pending',
    stage       text NOT NULL CHECK (stage <> ''),
    mail_from   text NOT NULL,              -- without <>; empty: the null sender
    rcpt_to     text[] NOT NULL             -- without <>; a plain list, or no worker could load the row
        CHECK (coalesce(array_ndims(rcpt_to), 1) = 1 AND array_position(rcpt_to, NULL) IS NULL),
    state       jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(state) = 'object'),
    headers     bytea NOT NULL,             -- CRLF line ends, without the empty line
    -- Whose share of worker time this counts against: the authenticated account, else the client's address.
    sender_key  text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN coalesce(state #>> '{origin,account}', '') <> '' THEN left(state #>> '{origin,account}', 320)
             WHEN strpos(coalesce(state #>> '{origin,ip}', ''), ':') > 0 THEN pepsi.sender_net(state #>> '{origin,ip}')
             ELSE left(coalesce(state #>> '{origin,ip}', ''), 64)
        END) STORED,
    token       text                        -- of a clone: makes it at most once
) WITH (fillfactor = 85, toast_tuple_target = 4080, vacuum_truncate = off, toast.vacuum_truncate = off,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_threshold = 2000, autovacuum_analyze_scale_factor = 0.2,
    toast.autovacuum_vacuum_threshold = 500, toast.autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE pepsi.workqueue ALTER headers SET STORAGE EXTERNAL;

-- Few and partial: a message that goes straight through (inserted running, deleted) enters none but the primary key.
CREATE INDEX workqueue_pending_age ON pepsi.workqueue (stage, received_at) WHERE status = 'pending';
CREATE INDEX workqueue_pending_sender ON pepsi.workqueue (stage, sender_key, id) WHERE status = 'pending';
CREATE INDEX workqueue_paused ON pepsi.workqueue (timeout) WHERE status = 'paused';
CREATE INDEX workqueue_stuck ON pepsi.workqueue (id) WHERE status IN ('failed', 'timeout');
-- A row with a body of its own number is found by the primary key.
CREATE INDEX workqueue_shared_body ON pepsi.workqueue (body_id) WHERE body_id <> id;
CREATE UNIQUE INDEX workqueue_token ON pepsi.workqueue (token) WHERE token IS NOT NULL;

-- The body, once, shared by all rows split off the same message. Its octets never change: a rewrite makes a new one.
-- A small one lies here; a large one is cut into the rows of workqueue_chunk_N, N = part. See README.md, "Large bodies".
CREATE TABLE pepsi.workqueue_body (
    id   bigint NOT NULL PRIMARY KEY,
    body bytea,
    part smallint,
    size bigint,                            -- octets of a cut one
    CHECK ((body IS NULL) = (part IS NOT NULL) AND (body IS NULL) = (size IS NOT NULL))
) WITH (toast_tuple_target = 8160, vacuum_truncate = off, toast.vacuum_truncate = off,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.2,
    autovacuum_analyze_threshold = 5000, autovacuum_analyze_scale_factor = 0.5,
    toast.autovacuum_vacuum_threshold = 500, toast.autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE pepsi.workqueue_body ALTER body SET STORAGE EXTERNAL;
CREATE INDEX workqueue_body_part ON pepsi.workqueue_body (part) WHERE part IS NOT NULL;

-- Chunks of large bodies, one to a page: 8120 octets of data fill it. Filled in turn, never deleted from, truncated when no
-- body is in it any more; so there is nothing to vacuum (but against wraparound), and no TOAST table: PLAIN from birth.
DO $$
BEGIN
    FOR i IN 0..7 LOOP
        EXECUTE format('CREATE TABLE pepsi.workqueue_chunk_%s (body_id bigint NOT NULL, seq integer NOT NULL)
            WITH (autovacuum_enabled = off)', i);
        EXECUTE format('ALTER TABLE pepsi.workqueue_chunk_%s ADD data bytea NOT NULL, ALTER data SET STORAGE PLAIN', i);
        EXECUTE format('CREATE INDEX workqueue_chunk_%1$s_body ON pepsi.workqueue_chunk_%1$s (body_id)', i);
    END LOOP;
END $$;
-- Which of them is being filled, and since when each one is not any more. One row.
CREATE TABLE pepsi.workqueue_fill (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    part    smallint NOT NULL DEFAULT 0 CHECK (part BETWEEN 0 AND 7),
    left_at timestamptz[] NOT NULL DEFAULT array_fill('-infinity'::timestamptz, '{8}', '{0}')
) WITH (fillfactor = 50);
INSERT INTO pepsi.workqueue_fill DEFAULT VALUES;

-- The accounting: accepted = delivered + bounced + discarded + rows in workqueue, in every snapshot. Cut into slots, so
-- that writers rarely wait for each other; a writer's slot is its backend's pid modulo 64. Written by triggers only.
CREATE TABLE pepsi.flow_stats (
    slot      smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 63),
    accepted  bigint NOT NULL DEFAULT 0,    -- rows that came into being: mail in, reports, splits, side messages
    received  bigint NOT NULL DEFAULT 0,    -- of these, through admission
    delivered bigint NOT NULL DEFAULT 0,
    bounced   bigint NOT NULL DEFAULT 0,
    discarded bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, vacuum_truncate = off, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
INSERT INTO pepsi.flow_stats (slot) SELECT generate_series(0, 63);

-- Cumulative statistics; the dispatcher is the only writer.
CREATE TABLE pepsi.stage_stats (
    stage    text PRIMARY KEY,
    messages bigint NOT NULL DEFAULT 0,
    time_us  bigint NOT NULL DEFAULT 0,     -- processing time in all
    kills    bigint NOT NULL DEFAULT 0,     -- workers killed at MAX_RUNTIME
    crashes  bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE TABLE pepsi.dispatch_stats (
    one                    boolean PRIMARY KEY DEFAULT true CHECK (one),
    stages                 bigint NOT NULL DEFAULT 0,   -- passes of all stages
    messages_failed        bigint NOT NULL DEFAULT 0,   -- ended in failed or timeout
    serialization_failures bigint NOT NULL DEFAULT 0,   -- 40001 and 40P01 seen
    updated_at             timestamptz
) WITH (fillfactor = 50);
INSERT INTO pepsi.dispatch_stats DEFAULT VALUES;

-- Configuration laid over the file. What must be known before there is a connection, and listeners, can never be here.
CREATE TABLE pepsi.config_override (
    scope      text NOT NULL CHECK (scope ~ '^(global|domain:[^:[:space:]]+|address:[^[:space:]]+)$'),
    section    text NOT NULL CHECK (section <> '' AND lower(section) <> 'pepsi-postgres' AND lower(section) NOT LIKE 'listener-%'),
    option     text NOT NULL CHECK (option <> ''),
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, section, option)
);

-- Aliases kept in the database (MAP = database of pepsi-stage-aliases). address: "local@domain", "local" (at our own
-- domains) or "@domain". No targets: the address is known and goes nowhere.
CREATE TABLE pepsi.alias_map (
    address text PRIMARY KEY CHECK (address <> '' AND address = lower(address)),
    targets text[] NOT NULL CHECK (array_position(targets, NULL) IS NULL)
);
