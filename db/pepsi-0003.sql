-- pepsi-0003.sql: delivery to other sites, and what is known about them.

-- DMARC failure reports (RFC 9991) of others about mail in the name of domains of ours, as pepsi-stage-dmarc-report took them: what their senders
-- claim. Nothing of the message reported is kept but what says whose it was and what failed: no local part, no subject, no header block.
CREATE TABLE pepsi.dmarc_failure_received (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest      bytea NOT NULL UNIQUE CHECK (octet_length(digest) = 16), -- of all that is said: the same report counts once
    domain      text NOT NULL CHECK (octet_length(domain) BETWEEN 1 AND 253), -- whom it is about
    received_at timestamptz NOT NULL DEFAULT now(),
    arrival_at  timestamptz,                                     -- of the message reported; null: not said
    mail_domain text,                                            -- of the From of the message it came in
    verified    boolean NOT NULL,                                -- that message passed DMARC
    source_ip   inet,
    failure     text NOT NULL,                                   -- dmarc, spf, signature, …
    result      text NOT NULL,                                   -- what was done: delivered, spam, policy, reject, other; '': not said
    incidents   bigint NOT NULL CHECK (incidents > 0),
    detail      jsonb NOT NULL CHECK (octet_length(detail::text) <= 16384) -- alignment, domains, reporter, identifiers
);
CREATE INDEX dmarc_failure_received_at ON pepsi.dmarc_failure_received (received_at);
CREATE INDEX dmarc_failure_received_domain ON pepsi.dmarc_failure_received (domain, received_at);

-- DMARC failure reports that are to go out: one message that failed, redacted before it came here. Gone after two weeks, headers as soon as it is settled.
CREATE TABLE pepsi.dmarc_failure (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain       text NOT NULL CHECK (octet_length(domain) BETWEEN 1 AND 253),  -- where the policy record is
    org          text NOT NULL CHECK (octet_length(org) BETWEEN 1 AND 253),     -- its organisation: whose share of a day it is
    at           timestamptz NOT NULL,                           -- when the message was judged
    data         jsonb NOT NULL CHECK (octet_length(data::text) <= 16384),      -- source, identifiers, results, what was done
    headers      bytea CHECK (octet_length(headers) <= 65536),   -- of the message, redacted; null: sent, or given up
    tries        integer NOT NULL DEFAULT 0,
    outcome      text CHECK (outcome IN ('sent', 'nowhere', 'excluded', 'expired')), -- null: it waits
    why          text,
    report_id    text UNIQUE,
    sent_at      timestamptz,
    destinations text[]
);
CREATE INDEX dmarc_failure_waiting ON pepsi.dmarc_failure (at) WHERE outcome IS NULL;
CREATE INDEX dmarc_failure_org ON pepsi.dmarc_failure (org, at);
CREATE INDEX dmarc_failure_at ON pepsi.dmarc_failure (at);

-- Whose organisation a period is: none may take the places of all others with names below its domain.
ALTER TABLE pepsi.dmarc_period ADD COLUMN org text NOT NULL DEFAULT '' CHECK (octet_length(org) <= 253);
UPDATE pepsi.dmarc_period SET org = domain;
CREATE INDEX dmarc_period_org ON pepsi.dmarc_period (org) WHERE outcome IS NULL;

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

-- ---------------------------------------------------------------------------------------------- steering the queue

-- What an operator wants with mail, what is queued and what comes: to hold it, or to send it another way (pepsi queue hold, pepsi queue
-- reroute). Few rows; workers keep them in memory. Ids rise, and a message is rerouted by a rule only once, by no older one after
-- it: so no rules can send a message in circles.
CREATE TABLE pepsi.queue_rule (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action     text NOT NULL CHECK (action IN ('hold', 'reroute')),
    -- What it is about; all that are not null must be so. Lower case. "local@domain" or "@domain"; a sender of '' is the null sender.
    sender     text CHECK (octet_length(sender) <= 320),
    recipient  text CHECK (octet_length(recipient) BETWEEN 2 AND 320),
    client     text CHECK (octet_length(client) BETWEEN 2 AND 64),  -- address or network
    stage      text CHECK (octet_length(stage) BETWEEN 1 AND 100),
    to_stage   text CHECK (octet_length(to_stage) BETWEEN 1 AND 100),
    reason     text NOT NULL DEFAULT '' CHECK (octet_length(reason) <= 1000),
    made_by    text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz CHECK (expires_at < 'infinity'),
    CHECK (num_nonnulls(sender, recipient, client, stage) > 0 AND (action = 'reroute') = (to_stage IS NOT NULL))
);

-- Rows that are held, by the rule that holds them ('0': by hand). Cut short: a key can be edited by hand and must not refuse a row.
CREATE INDEX workqueue_held ON pepsi.workqueue (left(state #>> '{held,rule}', 20))
    WHERE status = 'paused' AND (state #>> '{held,rule}') IS NOT NULL;

-- ---------------------------------------------------------------------------------------------- suppression

-- Recipients that mail is not sent to: learnt from what receiving servers said of the address, or put here by an operator. For
-- pepsi-stage-suppression; nobody has a privilege on the table. Personal data: a row goes when it expires.
CREATE TABLE pepsi.suppression (
    recipient  text PRIMARY KEY CHECK (octet_length(recipient) BETWEEN 3 AND 320 AND recipient = lower(recipient COLLATE "C")),
    class      text NOT NULL CHECK (class IN ('hard', 'complaint', 'manual', 'allow')), -- allow: never suppressed, and nothing is learnt
    status     text NOT NULL DEFAULT '' CHECK (octet_length(status) <= 16),   -- of the reply, RFC 3463
    reply      text NOT NULL DEFAULT '' CHECK (octet_length(reply) <= 2000),  -- what the other side said, or the operator's reason
    source_id  bigint,                            -- the message that it was learnt from
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,                       -- null: without end, only what an operator put here
    hits       bigint NOT NULL DEFAULT 0,         -- messages that were not sent
    hit_at     timestamptz,
    CHECK (class <> 'hard' OR expires_at IS NOT NULL)
);
CREATE INDEX suppression_expires_at ON pepsi.suppression (expires_at) WHERE expires_at IS NOT NULL;

-- ---- TLS reports (RFC 8460). Written and read by functions alone; nobody has a privilege on the tables.

-- Reports to be sent: what was seen of TLS with one domain's mail exchangers on one day (UTC). Gone after two weeks.
CREATE TABLE pepsi.tlsrpt_report (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain    text NOT NULL CHECK (octet_length(domain) BETWEEN 1 AND 253), -- that of the recipients
    day       date NOT NULL,
    rows      integer NOT NULL DEFAULT 0,
    sessions  bigint NOT NULL DEFAULT 0,
    failures  bigint NOT NULL DEFAULT 0,                        -- of these; a session that broke two policies counts twice
    overflow  bigint NOT NULL DEFAULT 0,                        -- of the sessions: without a row of their own
    report_id text UNIQUE,                                      -- given with the first attempt; nothing is counted any more then
    first_at  timestamptz,                                      -- that attempt
    next_at   timestamptz NOT NULL DEFAULT '-infinity',         -- none before
    tries     integer NOT NULL DEFAULT 0,
    outcome   text CHECK (outcome IN ('sent', 'nowhere', 'excluded', 'expired')), -- null: it waits
    why       text,
    sent_at   timestamptz,
    mailed    text[],                                           -- addresses that have it; the number of a copy is its place
    posted    text[],                                           -- https URIs that have it
    UNIQUE (domain, day)
);
CREATE INDEX tlsrpt_report_waiting ON pepsi.tlsrpt_report (day) WHERE outcome IS NULL;
CREATE INDEX tlsrpt_report_day ON pepsi.tlsrpt_report (day);
CREATE TABLE pepsi.tlsrpt_result (
    report_id bigint NOT NULL REFERENCES pepsi.tlsrpt_report ON DELETE CASCADE,
    digest    bytea NOT NULL CHECK (octet_length(digest) = 16), -- of policy and failure
    policy    jsonb NOT NULL CHECK (octet_length(policy::text) <= 32768), -- type, strings, hosts
    failure   jsonb CHECK (octet_length(failure::text) <= 4096), -- result, hosts, addresses, code; null: success
    sessions  bigint NOT NULL CHECK (sessions > 0),
    PRIMARY KEY (report_id, digest)
);
-- Workers that counted: a batch counts once.
CREATE TABLE pepsi.tlsrpt_source (
    source text PRIMARY KEY CHECK (octet_length(source) <= 100),
    seq    bigint NOT NULL,
    at     timestamptz NOT NULL
);
-- Where no reports go to for now: lower-case addresses, https URIs.
CREATE TABLE pepsi.tlsrpt_muted (
    uri      text PRIMARY KEY CHECK (octet_length(uri) <= 600),
    since    timestamptz NOT NULL DEFAULT now(),
    until_at timestamptz NOT NULL,
    why      text
);
CREATE INDEX tlsrpt_muted_until_at ON pepsi.tlsrpt_muted (until_at);

-- Reports of others about mail to domains of ours, as pepsi-stage-tlsrpt-report took them: what their senders claim.
CREATE TABLE pepsi.tlsrpt_received (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain      text NOT NULL CHECK (octet_length(domain) BETWEEN 1 AND 253), -- whom it is about
    org         text NOT NULL CHECK (octet_length(org) <= 1100),
    report_id   text NOT NULL CHECK (octet_length(report_id) <= 1100),
    begin_at    timestamptz NOT NULL,
    end_at      timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    mail_domain text,                                           -- of the From of the message it came in
    verified    boolean NOT NULL,                               -- that message passed DMARC
    contact     text,
    successes   bigint NOT NULL CHECK (successes >= 0),
    failures    bigint NOT NULL CHECK (failures >= 0),
    digest      bytea NOT NULL CHECK (octet_length(digest) = 16), -- of organisation and id
    UNIQUE (domain, digest)
);
CREATE INDEX tlsrpt_received_at ON pepsi.tlsrpt_received (received_at);
CREATE TABLE pepsi.tlsrpt_received_policy (
    received_id bigint NOT NULL REFERENCES pepsi.tlsrpt_received ON DELETE CASCADE,
    nth         integer NOT NULL,
    type        text NOT NULL,                                  -- tlsa, sts, no-policy-found, or what it says
    domain      text NOT NULL,
    successes   bigint NOT NULL,
    failures    bigint NOT NULL,
    PRIMARY KEY (received_id, nth)
);
CREATE TABLE pepsi.tlsrpt_received_failure (
    received_id  bigint NOT NULL REFERENCES pepsi.tlsrpt_received ON DELETE CASCADE,
    nth          integer NOT NULL,
    type         text NOT NULL,                                 -- of the policy
    result       text NOT NULL,
    mx           text NOT NULL,                                 -- '': not said
    receiving_ip inet,
    sending_ip   inet,
    code         text,
    sessions     bigint NOT NULL,
    PRIMARY KEY (received_id, nth)
);
