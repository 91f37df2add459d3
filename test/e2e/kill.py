"""kill -9 of a worker, the reactor, the spawner, PostgreSQL, each under load, again and again: every message that got
its 250 arrives at the next hop at least once. Duplicates are allowed, counted and printed. PEPSI_KILL_ROUNDS sets the
number of rounds of each kind (default 3; the long run is PEPSI_KILL_ROUNDS=20 PEPSI_TIME_LIMIT=1500, without ctest's
own limit: python3 test/e2e/kill.py)."""
import collections
import os
import random
import signal
import time

import pepsi

ROUNDS = int(os.environ.get("PEPSI_KILL_ROUNDS") or (2 if pepsi.SANITIZED else 3))


def victim(d, kind):
    if kind == "worker":
        pids = d.worker_pids("init")
        return random.choice(pids) if pids else None
    return {"reactor": d.reactor_pid, "spawner": d.spawner_pid, "postgres": d.postmaster_pid}[kind]()


def rounds(t, kind):
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 3\nQUEUE_LIMIT = 32\n") + pepsi.bounce())
    acked, restarts = [], 0
    for n in range(ROUNDS):
        load = pepsi.Load(d, sessions=10, prefix="%s%d" % (kind, n), pause=0.002)
        pepsi.wait_for("load before the kill", lambda: load.count() >= 150 or None, 30)
        time.sleep(random.uniform(0, 0.3))
        old = d.spawner_pid()
        pid = pepsi.wait_for("a %s to kill" % kind, lambda: victim(d, kind), 20)
        tree = pepsi.proc_tree(old)
        os.kill(pid, signal.SIGKILL)
        before = load.count()
        if kind == "spawner":
            # nothing of it may outlive it for long; then the operator's supervisor starts it again
            d.process.wait(10)
            pepsi.wait_for("its children gone", lambda: not [p for p in tree if pepsi.alive(p)], 20)
            restarts += 1
            d.start()
        elif kind == "reactor":
            # too many deaths within a minute, and it gives up: the supervisor's turn
            pepsi.wait_for("another reactor", lambda: not d.running() or d.reactor_pid() not in (None, pid), 20)
            if not d.running():
                pepsi.wait_for("its children gone", lambda: not [p for p in tree if pepsi.alive(p)], 20)
                restarts += 1
                d.start()
        d.wait_ready()
        pepsi.wait_for("new mail taken after the kill", lambda: load.count() > before + 50 or None, 40)
        pepsi.check(d.running(), "pepsid is gone after the kill of its %s" % kind)
        if kind in ("worker", "postgres"):
            pepsi.check(d.spawner_pid() == old, "pepsid was replaced")
        acked += load.stop()
    d.wait_empty(60)
    got = collections.Counter(sink.tokens())
    lost = [a for a in acked if a not in got]
    again = sum(c - 1 for c in got.values())
    pepsi.say("      %d x kill -9 of %s: %d acknowledged, %d lost, %d duplicates, %d starts by hand" % (ROUNDS, kind, len(acked), len(lost), again, restarts))
    pepsi.check(not lost, "%d of %d acknowledged messages lost, e.g. %s" % (len(lost), len(acked), lost[:5]))
    b = d.status()
    pepsi.check(b["accepted"] == b["delivered"] + b["bounced"] + b["discarded"] + b["queue"]["total"],
                "the books after the kills: %s" % {k: b[k] for k in ("accepted", "delivered", "bounced", "discarded", "queue")})
    left = d.queue()
    pepsi.check(not left, "rows left: %s" % left[:2])
    d.stop()


def kill_worker(t):
    rounds(t, "worker")


def kill_reactor(t):
    rounds(t, "reactor")


def kill_spawner(t):
    rounds(t, "spawner")


def kill_postgres(t):
    rounds(t, "postgres")


pepsi.main(__file__, [kill_worker, kill_reactor, kill_spawner, kill_postgres])
