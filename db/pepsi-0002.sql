-- pepsi-0002.sql: sign-in accounts, and what came with them.

-- Accounts that may sign in to send mail (submission), for the backend "table" of [pepsi-signin]. Not the accounts of
-- administrators, and no mailboxes. Read and written by role pepsi-config alone: the admin child and nobody else.
CREATE TABLE pepsi.mail_account (
    name           text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255  -- as wire_signin_name() makes it, once, at `account add`
        AND NOT starts_with(lower(name), 'uid:')),               -- users of this machine are called so, in state.origin.account
    password       text CHECK (octet_length(password) <= 512),   -- argon2id, PHC string; null: no sign-in with a plain password
    scram          text CHECK (octet_length(scram) <= 512),      -- SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>
    enabled        boolean NOT NULL DEFAULT true,
    senders        text[] NOT NULL DEFAULT '{}'                  -- further sender addresses: "a@b", "@b"; the name itself always
        CHECK (cardinality(senders) <= 64 AND array_position(senders, NULL) IS NULL),
    certificates   text[] NOT NULL DEFAULT '{}'                  -- of clients, for EXTERNAL: SHA-256 of the DER form, in hexadecimal
        CHECK (cardinality(certificates) <= 16 AND array_position(certificates, NULL) IS NULL),
    -- Caps: null what [pepsi-signin] says, 0 none.
    messages_hour   integer CHECK (messages_hour >= 0),
    messages_day    integer CHECK (messages_day >= 0),
    recipients_hour integer CHECK (recipients_hour >= 0),
    recipients_day  integer CHECK (recipients_day >= 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),           -- by an operator
    signed_in_at   timestamptz                                   -- to about an hour: not worth a write each time
);
CREATE INDEX mail_account_certificates ON pepsi.mail_account USING gin (certificates);

-- What a sender waits for is claimed by urgency (MT-PRIORITY), then by age; so its index is made anew. The expression stands word for
-- word in workqueue_claim, too.
DROP INDEX pepsi.workqueue_pending_sender;
CREATE INDEX workqueue_pending_sender ON pepsi.workqueue (stage, sender_key,
    (CASE WHEN jsonb_typeof(state -> 'priority') = 'number' THEN -(state -> 'priority')::numeric ELSE 0 END), id) WHERE status = 'pending';

-- How much of its caps each account has used, so that a restart of the daemon does not forget: written every few seconds, and never by
-- anybody but the ingress. Messages and recipients since the beginning of the hour and the day that are running for the account.
CREATE TABLE pepsi.mail_account_use (
    name            text PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 255 AND NOT starts_with(lower(name), 'uid:')),
    hour_at         timestamptz NOT NULL,
    day_at          timestamptz NOT NULL,
    messages_hour   bigint NOT NULL CHECK (messages_hour >= 0),
    messages_day    bigint NOT NULL CHECK (messages_day >= 0),
    recipients_hour bigint NOT NULL CHECK (recipients_hour >= 0),
    recipients_day  bigint NOT NULL CHECK (recipients_day >= 0),
    told_at         timestamptz NOT NULL                          -- when the owner was told last
) WITH (fillfactor = 50);

-- Recipients: who lives here, for the word "table" of RECIPIENTS. "local@domain", or "@domain": everybody there; lower case, domains
-- as A-labels. Written by role pepsi-config (`pepsi recipient`) or the site's own programs; read through recipient_lookup().
CREATE TABLE pepsi.recipient (
    address    text PRIMARY KEY CHECK (octet_length(address) BETWEEN 2 AND 320 AND address = lower(address) AND position('@' IN address) > 0),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Greylisting: one row per (network, sender, recipient) seen, and one per network that has passed, each as a hash: no address can be
-- read out of it. Not worth a backup: without it first-time mail comes a few minutes later.
CREATE TABLE pepsi.greylist (
    key        bytea PRIMARY KEY CHECK (octet_length(key) = 16),
    first_at   timestamptz NOT NULL DEFAULT now(),
    passes     integer NOT NULL DEFAULT 0 CHECK (passes >= 0),      -- of a network: triplets of it that came back
    expires_at timestamptz NOT NULL
);
CREATE INDEX greylist_expires_at ON pepsi.greylist (expires_at);

-- Local submissions that were taken, by the key their sender made for them ("uid:" and 32 hexadecimal digits): what comes again with the
-- same key, because the answer was lost or a drop file was still there, makes no second message. Kept for a week.
CREATE TABLE pepsi.submission (
    token    text PRIMARY KEY CHECK (octet_length(token) BETWEEN 1 AND 64),
    taken_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX submission_taken_at ON pepsi.submission (taken_at);

-- DMARC aggregate reports that are to go out: one line per policy domain, period and policy, which becomes one report; and its rows, as
-- counted by the reactor. Written by dmarc_tally_put() (ingress) and by what pepsi-dmarc calls; nobody has a privilege on the tables.
CREATE TABLE pepsi.dmarc_period (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain       text NOT NULL CHECK (octet_length(domain) BETWEEN 1 AND 253),  -- where the record was found
    begin_at     timestamptz NOT NULL,
    end_at       timestamptz NOT NULL CHECK (end_at > begin_at),
    policy       text NOT NULL CHECK (octet_length(policy) <= 200),  -- as it was applied: "p=none sp=none …"
    rows         integer NOT NULL DEFAULT 0,
    messages     bigint NOT NULL DEFAULT 0,                      -- all of them
    overflow     bigint NOT NULL DEFAULT 0,                      -- of these: without a row of their own, because there were too many rows
    tries        integer NOT NULL DEFAULT 0,                     -- runs that could not send it yet
    outcome      text CHECK (outcome IN ('sent', 'nowhere', 'excluded', 'expired')), -- null: it waits
    why          text,
    report_id    text UNIQUE,
    sent_at      timestamptz,
    destinations text[],
    UNIQUE (domain, begin_at, policy)
);
CREATE INDEX dmarc_period_waiting ON pepsi.dmarc_period (end_at) WHERE outcome IS NULL;
CREATE INDEX dmarc_period_end_at ON pepsi.dmarc_period (end_at);

CREATE TABLE pepsi.dmarc_row (
    period_id bigint NOT NULL REFERENCES pepsi.dmarc_period ON DELETE CASCADE,
    digest    bytea NOT NULL CHECK (octet_length(digest) = 16),  -- of data as it came
    data      jsonb NOT NULL,
    messages  bigint NOT NULL CHECK (messages > 0),
    PRIMARY KEY (period_id, digest)
) WITH (fillfactor = 80);

-- Which batch of counts came last from which life of a reactor: one that is sent again after a lost answer counts once.
CREATE TABLE pepsi.dmarc_source (
    source text PRIMARY KEY CHECK (octet_length(source) BETWEEN 1 AND 64),
    seq    bigint NOT NULL,
    at     timestamptz NOT NULL
);

-- Addresses that a report could not be delivered to: none are sent there until the time is over.
CREATE TABLE pepsi.dmarc_muted (
    address  text PRIMARY KEY CHECK (octet_length(address) BETWEEN 3 AND 320 AND address = lower(address)),
    since    timestamptz NOT NULL DEFAULT now(),
    until_at timestamptz NOT NULL,
    why      text
);

-- DMARC aggregate reports of others about domains of ours, as pepsi-stage-dmarc-report took them. What stands there is what its sender says.
CREATE TABLE pepsi.dmarc_received (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    domain      text NOT NULL,                                   -- whom it is about
    org         text NOT NULL,                                   -- whose it is, by its own word
    report_id   text NOT NULL,
    begin_at    timestamptz NOT NULL,
    end_at      timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    mail_domain text,                                            -- of the From of the message it came in
    verified    boolean NOT NULL,                                -- that message passed DMARC
    policy      jsonb NOT NULL,
    info        jsonb NOT NULL,                                  -- email, contact, error, generator; rows that were left out
    messages    bigint NOT NULL,
    passed      bigint NOT NULL,                                 -- of these: DKIM or SPF aligned
    UNIQUE (domain, org, report_id)
);
CREATE INDEX dmarc_received_at ON pepsi.dmarc_received (received_at);
CREATE TABLE pepsi.dmarc_received_row (
    received_id   bigint NOT NULL REFERENCES pepsi.dmarc_received ON DELETE CASCADE,
    nth           integer NOT NULL,
    source_ip     inet NOT NULL,
    messages      bigint NOT NULL,
    disposition   text NOT NULL,
    dkim          boolean NOT NULL,                              -- aligned
    spf           boolean NOT NULL,
    header_from   text NOT NULL,
    detail        jsonb NOT NULL,                                -- envelope, reasons, results
    PRIMARY KEY (received_id, nth)
);
