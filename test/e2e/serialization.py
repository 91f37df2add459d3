"""Serialization failures and deadlocks, provoked on a real server by transactions that stand beside those of the daemon: what a
worker or the dispatcher wanted to write is tried again and gets there, once, and each failure is counted in dispatch_stats and in
/metrics."""
import os
import signal

import pepsi
from postgres import Cluster, Session

# how long who waits goes on before it looks whether it waits in a circle, which must be closed by then: once only does it look
PATIENCE = "deadlock_timeout = '8s'\n"
BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def daemon(t, cluster):
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-step.so")):
        raise pepsi.Skip("test/stages was not built")
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-step\nPARALLELISM = 1\nQUEUE_LIMIT = 100\n", pepsi="MODULE_PATH = %s\n" % BUILT,
                     more="[pepsi-dispatch]\nPOLL_INTERVAL = 1 s\n\n[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    send(d, 50)
    d.wait_empty(20)
    return d


def send(d, n):
    s = pepsi.Smtp(d.port)
    out = []
    for i in range(n):
        code, text = s.send("sender@example.test", "x@far.test", pepsi.message("m%d" % i))
        pepsi.check(code == 250, "%d %s" % (code, text))
        out.append(int(text.split("queued as ")[1].split()[0]))
    s.close()
    return out


def counted(d, cluster, least):
    pepsi.wait_for("/metrics counts it", lambda: d.metrics()["pepsi_serialization_failures_total"] >= least, 15, 0.2)
    pepsi.wait_for("dispatch_stats counts it", lambda: int(cluster.sql("SELECT serialization_failures FROM pepsi.dispatch_stats")) >= least, 20, 0.2)
    pepsi.check(d.status()["dispatch"]["serialization_failures"] >= least, "pepsi status does not tell")


def all_is_well(d, n):
    d.wait_empty(30)
    s = d.status()
    pepsi.check(s["accepted"] == n == s["delivered"] + s["discarded"], "the books: %s" % {k: s[k] for k in ("accepted", "delivered", "bounced", "discarded")})
    pepsi.check(not any(g["errors"] or g["crashes"] for g in s["stages"]), "%s" % s["stages"])


def waits(cluster, who):
    return int(cluster.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name LIKE '%s%%'" % who))


def deadlock(t):
    """40P01: a worker that deleted rows and then, in a trigger of the operator's, wants what somebody holds who wants one of these rows.
    However many rows its transaction has: that is a matter of how fast the machine is."""
    cluster = Cluster(t, PATIENCE)
    d = daemon(t, cluster)
    other = Session(t, cluster)
    other.say("SET deadlock_timeout = '60s'")  # the victim is the other side
    cluster.sql("CREATE FUNCTION public.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(20261130); RETURN NULL; END $$;"
                "CREATE TRIGGER gate AFTER DELETE ON pepsi.workqueue FOR EACH STATEMENT EXECUTE FUNCTION public.gate()")
    other.say("BEGIN; SELECT pg_advisory_xact_lock(20261130)")
    ids = send(d, 10)
    pepsi.wait_for("the worker waits", lambda: waits(cluster, "pepsi"), 20, 0.02)
    other.begin("SELECT 'got ' || id FROM pepsi.workqueue WHERE id = %d FOR UPDATE" % ids[0])
    answer = other.say("COMMIT")
    pepsi.check("got %d" % ids[0] in answer, "it was not the worker that gave way: %s" % answer)
    all_is_well(d, 60)
    counted(d, cluster, 1)
    pepsi.say("      deadlock: the worker's transaction was tried again, %d counted" % int(d.metrics()["pepsi_serialization_failures_total"]))
    d.stop()


def deadlock_of_a_claim(t):
    """The same for the dispatcher: of two pending rows it claims the first and waits for the second."""
    cluster = Cluster(t, PATIENCE)
    d = daemon(t, cluster)
    other = Session(t, cluster)
    other.say("SET deadlock_timeout = '60s'")
    reactor = d.reactor_pid()
    os.kill(reactor, signal.SIGSTOP)
    try:
        ids = sorted(int(x) for x in other.say("SELECT pepsi.workqueue_inject('init', '', '{a@b}', 'h', 'b') FROM generate_series(1, 3)").split())
        other.say("BEGIN; SELECT 1 FROM pepsi.workqueue WHERE id = %d FOR UPDATE" % ids[-1])
    finally:
        os.kill(reactor, signal.SIGCONT)
    pepsi.wait_for("the dispatcher waits", lambda: waits(cluster, "pepsi dispatch"), 20, 0.02)
    other.begin("SELECT 'got ' || id FROM pepsi.workqueue WHERE id = %d FOR UPDATE" % ids[0])
    answer = other.say("COMMIT")
    pepsi.check("got %d" % ids[0] in answer, "it was not the dispatcher that gave way: %s" % answer)
    all_is_well(d, 53)
    counted(d, cluster, 1)
    d.stop()


def serialization(t):
    """40001, as a trigger of the operator's raises it for two of three statements: the claim's, the dispatcher's, the workers'."""
    cluster = Cluster(t)
    d = daemon(t, cluster)
    cluster.sql("CREATE SEQUENCE public.tries; GRANT ALL ON SEQUENCE public.tries TO PUBLIC;"
                "CREATE FUNCTION public.trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('public.tries') % 3 <> 0 THEN RAISE EXCEPTION 'not now'"
                " USING ERRCODE = '40001'; END IF; RETURN NULL; END $$;"
                "CREATE TRIGGER trip AFTER UPDATE OR DELETE ON pepsi.workqueue FOR EACH STATEMENT EXECUTE FUNCTION public.trip()")
    send(d, 20)
    cluster.sql("SELECT pepsi.workqueue_inject('init', '', '{a@b}', 'h', 'b') FROM generate_series(1, 5)")
    all_is_well(d, 75)

    def raised():
        return int(cluster.sql("SELECT last_value - last_value / 3 FROM public.tries"))
    least = raised()
    pepsi.check(least >= 4, "only %d were raised" % least)
    counted(d, cluster, least)

    def even():  # the heartbeat goes on meanwhile
        n = raised()
        return n if d.metrics()["pepsi_serialization_failures_total"] == n == raised() else None
    n = pepsi.wait_for("each one raised is counted", even, 20, 0.1)
    pepsi.say("      40001: %d raised, each counted, nothing lost" % n)
    d.stop()


pepsi.main(__file__, [deadlock, deadlock_of_a_claim, serialization])
