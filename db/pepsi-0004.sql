-- pepsi-0004.sql: large queues for few destinations, and what is signed, sealed and returned.

-- ---------------------------------------------------------------------------------------------- queues of destinations

-- What waits at a stage for one domain, the oldest first: the first recipient's, as workqueue_put_off asks for it. The expression stands
-- word for word there, too.
CREATE INDEX workqueue_pending_domain ON pepsi.workqueue (stage, lower(left(split_part(rcpt_to[1], '@', -1), 255)), id) WHERE status = 'pending';
