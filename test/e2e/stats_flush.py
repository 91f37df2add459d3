"""The statistics in the database: deltas are kept in memory and written about once a minute while there is work, soon when there is
none, and at the stop; over all of it nothing is counted twice or not at all, fused hops included, and the dispatcher is the only one
that writes."""
import os
import time

import pepsi
from postgres import Clock, Cluster

BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
MODULES = "MODULE_PATH = %s:%s\n" % (BUILT, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))


def written(cluster):
    """stage → messages, and the passes in all"""
    rows = cluster.sql("SELECT stage || ' ' || messages FROM pepsi.stage_stats")
    return {r.split()[0]: int(r.split()[1]) for r in rows.splitlines()}, int(cluster.sql("SELECT stages FROM pepsi.dispatch_stats"))


def send(d, n, sender="sender@example.test"):
    s = pepsi.Smtp(d.port)
    for i in range(n):
        code, text = s.send(sender, "x@far.test", pepsi.message("m%d" % i))
        pepsi.check(code == 250, "%d %s" % (code, text))
    s.close()


def idle_and_stop(t):
    """What is over is written soon; what was counted in the last second is written by the stop. Fused hops are their stages'."""
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-step.so")):
        raise pepsi.Skip("test/stages was not built")
    cluster = Cluster(t)
    stages = "".join("[stage-%s]\nPROGRAM = pepsi-stage-step\n%s\n" % (n, "NEXT_STAGE = %s\n" % to if to else "") for n, to in (("init", "second"), ("second", "third"), ("third", None)))
    d = pepsi.Pepsid(t, stages, pepsi=MODULES, more="[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    send(d, 60)
    pepsi.wait_for("when idle, all is written", lambda: written(cluster) == ({"init": 60, "second": 60, "third": 60}, 180), 15, 0.2)
    fused = sum(g["fused"] for g in d.status()["stages"])
    pepsi.check(fused > 0, "nothing was fused")
    writes = int(cluster.sql("SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'dispatch_stats'"))
    time.sleep(3)
    again = int(cluster.sql("SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'dispatch_stats'"))
    pepsi.check(again - writes <= 1, "it writes though nothing happens")  # one may have been under way
    for n in range(1, 4):
        # stopped at once, whatever is under way: the books of the next life go on from there
        send(d, 20)
        d.stop()
        done = int(cluster.sql("SELECT sum(delivered) + sum(discarded) FROM pepsi.flow_stats"))
        got, passes = written(cluster)
        pepsi.check(got["third"] == done and passes == sum(got.values()), "stop %d: %d messages ended, statistics %s, %d" % (n, done, got, passes))
        d.start()
    d.wait_empty(20)
    pepsi.wait_for("nothing is missing in the end", lambda: written(cluster)[0] == {"init": 120, "second": 120, "third": 120}, 15, 0.2)
    d.stop()


def busy(t):
    """With messages in hand at any time, nothing is written before the minute is over; then it is, once. The minute is made short by
    the monotonic clock."""
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-bad-slow.so")):
        raise pepsi.Skip("test/stages was not built")
    cluster = Cluster(t)
    clock = Clock(t)
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-bad-slow\nDEPTH = 1\nPARALLELISM = 1\n\n" + pepsi.bounce(), pepsi=MODULES,
                     more="[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    load = pepsi.Load(d, 8)  # 10 ms each by one worker: more than it can do
    pepsi.wait_for("a backlog", lambda: d.status()["queue"]["total"] > 500, 40, 0.02)
    load.stop()
    began, done = written(cluster), d.status()["delivered"]
    pepsi.wait_for("a hundred more", lambda: d.status()["delivered"] > done + 100, 30, 0.2)
    pepsi.check(written(cluster) == began, "written in the midst of work: %s, then %s" % (began, written(cluster)))
    pepsi.check(d.status()["queue"]["total"] > 100, "the backlog is gone too early to tell")
    clock.shift(0, 61)
    now = pepsi.wait_for("written after a minute", lambda: written(cluster) if written(cluster) != began else None, 10, 0.05)
    pepsi.check(d.status()["queue"]["total"] > 20, "that was the idle rule")
    time.sleep(1)
    pepsi.check(written(cluster) == now, "written again before the next minute")
    d.wait_empty(60)
    total = d.status()["delivered"]
    pepsi.wait_for("all is written in the end", lambda: written(cluster) == ({"init": total}, total), 15, 0.2)
    d.stop()


pepsi.main(__file__, [idle_and_stop, busy])
