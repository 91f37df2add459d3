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
