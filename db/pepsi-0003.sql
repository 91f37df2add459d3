-- pepsi-0003.sql: delivery to other sites, and what is known about them.

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
