-- pepsi-0004.sql: large queues for few destinations, and what is signed, sealed and returned.

-- Warm-up plans of new source addresses (proto/relay/warmup.h): how many messages of a day's allowance have been taken, by whatever worker. A row a
-- destination, at most 20000 of an address and day, kept for a week. May be lost: then a day's allowance is given once more.
CREATE TABLE pepsi.warmup (
    day         date NOT NULL,                                     -- UTC
    source      inet NOT NULL,
    destination text NOT NULL CHECK (octet_length(destination) BETWEEN 1 AND 255),
    taken       bigint NOT NULL DEFAULT 0 CHECK (taken >= 0),
    PRIMARY KEY (day, source, destination)
);
