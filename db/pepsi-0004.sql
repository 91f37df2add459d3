-- pepsi-0004.sql: large queues for few destinations, and what is signed, sealed and returned.

-- ---------------------------------------------------------------------------------------------- queues of destinations

-- What waits at a stage for one domain, the oldest first: the first recipient's, as workqueue_put_off asks for it. The expression stands
-- word for word there, too.
CREATE INDEX workqueue_pending_domain ON pepsi.workqueue (stage, lower(left(split_part(rcpt_to[1], '@', -1), 255)), id) WHERE status = 'pending';

-- ---------------------------------------------------------------------------------------------- srs

-- Senders of forwarded mail that do not fit into an address of ours: the address holds the reference. Written and read by pepsi-stage-srs alone;
-- nobody has a privilege on the table. Personal data: a row goes when no address with it holds any more.
CREATE TABLE pepsi.srs_sender (
    reference text COLLATE "C" PRIMARY KEY CHECK (reference ~ '^[a-z0-9-]{1,38}$'),
    sender text NOT NULL CHECK (octet_length(sender) BETWEEN 3 AND 320),
    expires_at timestamptz NOT NULL
);
CREATE INDEX srs_sender_expires_at ON pepsi.srs_sender (expires_at);

-- How many bounces were taken back to a sender within the hour; '': to all of them. Only senders whose address was genuine get here.
CREATE TABLE pepsi.srs_use (
    target text COLLATE "C" PRIMARY KEY CHECK (octet_length(target) <= 320),
    hour timestamptz NOT NULL,
    n bigint NOT NULL
);
CREATE INDEX srs_use_hour ON pepsi.srs_use (hour);

-- ---------------------------------------------------------------------------------------------- warm-up

-- Warm-up plans of new source addresses (proto/relay/warmup.h): how many messages of a day's allowance have been taken, by whatever worker. A row a
-- destination, at most 20000 of an address and day, kept for a week. May be lost: then a day's allowance is given once more.
CREATE TABLE pepsi.warmup (
    day         date NOT NULL,                                     -- UTC
    source      inet NOT NULL,
    destination text NOT NULL CHECK (octet_length(destination) BETWEEN 1 AND 255),
    taken       bigint NOT NULL DEFAULT 0 CHECK (taken >= 0),
    PRIMARY KEY (day, source, destination)
);
