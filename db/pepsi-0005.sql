-- pepsi-0005.sql: what is due at once for few destinations.

-- ---------------------------------------------------------------------------------------------- queues of destinations

-- What waits at a stage for one domain, the first recipient's: the pending rows, and the paused ones by the time at which they are due, the oldest
-- first. For workqueue_put_off and workqueue_due, where the expression stands word for word, too. Takes the place of an index of the pending ones.
DROP INDEX pepsi.workqueue_pending_domain;
CREATE INDEX workqueue_domain ON pepsi.workqueue (stage, lower(left(split_part(rcpt_to[1], '@', -1), 255)), timeout, id) WHERE status IN ('pending', 'paused');
