-- pepsi-0003.sql: delivery to other sites, and what is known about them.


-- ---- What is known of other domains and their hosts (MTA-STS, addresses, protection). Nothing of it is worth a backup: it comes back. Written and read
-- by functions alone; nobody has a privilege on the tables.

-- Policies of MTA-STS (RFC 8461), as they were fetched, and what failed since.
CREATE TABLE pepsi.sts_policy (
    domain     text PRIMARY KEY CHECK (octet_length(domain) BETWEEN 1 AND 253 AND domain = lower(domain)),
    id         text CHECK (octet_length(id) BETWEEN 1 AND 32),    -- of the TXT record when it was fetched; null: no policy, only failures
    mode       text CHECK (mode IN ('enforce', 'testing', 'none')),
    body       text CHECK (octet_length(body) <= 65536),          -- as it was served
    fetched_at timestamptz,
    expires_at timestamptz,                                       -- fetched_at and its max_age
    due_at     timestamptz,                                       -- when to fetch it again, before it ends
    failed_at  timestamptz,                                       -- the last fetch that failed since
    failures   integer NOT NULL DEFAULT 0 CHECK (failures >= 0),  -- in a row
    result     text CHECK (octet_length(result) <= 64),           -- of the last of them, RFC 8460's word
    why        text CHECK (octet_length(why) <= 400),
    used_at    timestamptz NOT NULL DEFAULT now(),                -- asked for by mail, to about an hour
    CHECK ((id IS NULL) = (body IS NULL) AND (id IS NULL) = (mode IS NULL) AND (id IS NULL) = (fetched_at IS NULL) AND (id IS NULL) = (expires_at IS NULL))
);
CREATE INDEX sts_policy_due_at ON pepsi.sts_policy (due_at) WHERE id IS NOT NULL;

-- Addresses of mail exchangers, with their health.
CREATE TABLE pepsi.dns_address (
    address    inet PRIMARY KEY,
    host       text NOT NULL CHECK (octet_length(host) <= 253),   -- a name it was reached by, the last one; empty: an address literal
    expires_at timestamptz,                                       -- of that name's answer (TTL)
    ok_at      timestamptz,                                       -- the last success
    failed_at  timestamptz,
    failures   integer NOT NULL DEFAULT 0 CHECK (failures >= 0),  -- in a row
    until_at   timestamptz,                                       -- left alone until then
    why        text CHECK (octet_length(why) <= 400),             -- of the last failure
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dns_address_changed_at ON pepsi.dns_address (changed_at);
CREATE INDEX dns_address_failing ON pepsi.dns_address (until_at) WHERE failures > 0;

-- How well mail to each domain was protected (proto/relay/ratchet.h): the best, the last, and whether somebody was warned.
CREATE TABLE pepsi.destination_security (
    domain  text PRIMARY KEY CHECK (octet_length(domain) BETWEEN 1 AND 253 AND domain = lower(domain)),
    best    text NOT NULL CHECK (best IN ('unknown', 'plain', 'tls', 'authenticated', 'sts-enforce', 'dane')),
    best_at timestamptz NOT NULL,
    last    text NOT NULL CHECK (last IN ('unknown', 'plain', 'tls', 'authenticated', 'sts-enforce', 'dane')),
    last_at timestamptz NOT NULL,
    told    text CHECK (told IN ('plain', 'tls', 'authenticated', 'sts-enforce')), -- it is weaker than its best: the lowest that was warned of
    told_at timestamptz,
    CHECK ((told IS NULL) = (told_at IS NULL))
);
CREATE INDEX destination_security_weaker ON pepsi.destination_security (told_at) WHERE told IS NOT NULL;
CREATE INDEX destination_security_last_at ON pepsi.destination_security (last_at);
