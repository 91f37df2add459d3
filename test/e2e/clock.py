"""The wall clock is set by hours, back and forth, under a running daemon: of the daemon and its database together, then of the daemon
alone. Mail flows through all of it, every message arrives once, no worker is taken for one that overran, and what waits for its
next attempt is tried again soon, not when the clock has caught up."""
import time

import pepsi
from postgres import Clock, Cluster

HOUR = 3600
STEPS = [5 * HOUR, -5 * HOUR, 30 * HOUR, 0]


def through_jumps(t, clock, d, sink):
    load = pepsi.Load(d, 3, pause=0.02)
    pepsi.wait_for("mail flows", lambda: load.count() > 20, 20)
    waits = d.accept("sender@example.test", "slow@far.test", pepsi.message("waits"))
    pepsi.wait_for("one waits for its next attempt", lambda: [r for r in d.queue() if str(r["id"]) == waits and r["status"] == "paused"], 20)
    for step in STEPS:
        before = load.count()
        clock.shift(step)
        # some more is accepted after the jump, and arrives while the clock is what it is
        pepsi.wait_for("mail is accepted at %+d h" % (step / HOUR), lambda: load.count() > before + 30, 30)
        with load.lock:
            acked = list(load.acked)
        pepsi.wait_for("and delivered", lambda: not set(acked) - set(sink.tokens()), 30)
        attempts = sum(1 for line in open(d.log, errors="replace") if "id=%s " % waits in line and "event=paused" in line)
        pepsi.wait_for("at %+d h the waiting one is tried again" % (step / HOUR), lambda: sum(
            1 for line in open(d.log, errors="replace") if "id=%s " % waits in line and "event=paused" in line) > attempts, 20, 0.1)
    sink.script = {}
    pepsi.wait_for("the waiting one arrives", lambda: "waits" in sink.tokens(), 20)
    acked = load.stop()
    pepsi.wait_for("all arrive", lambda: not set(acked) - set(sink.tokens()), 30)
    d.wait_empty(30)
    got = sink.tokens()
    twice = [x for x in set(got) if got.count(x) > 1]
    pepsi.check(not twice, "arrived twice: %s" % twice[:5])
    s = d.status()
    pepsi.check(not any(g["overruns"] or g["crashes"] for g in s["stages"]), "workers were killed: %s" % s["stages"])
    pepsi.check(s["accepted"] == s["delivered"] and not s["bounced"], "the books: %s" % {k: s[k] for k in ("accepted", "delivered", "bounced", "discarded")})
    pepsi.say("      %d messages through %s h" % (len(acked), ", ".join("%+d" % (x / HOUR) for x in STEPS)))
    began = time.monotonic()
    d.stop()
    pepsi.check(time.monotonic() - began < 15 * pepsi.SLACK, "the stop took %.0f s" % (time.monotonic() - began))


def start(t, more=""):
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda line: "451 4.7.1 later" if "slow@" in line else None}
    return sink, pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 2\nDELAY_WARNING = 0\n") + pepsi.bounce(), more="[pepsi-dispatch]\nPOLL_INTERVAL = 1 s\n\n" + more)


def both_clocks(t):
    clock = Clock(t)
    sink, d = start(t)
    through_jumps(t, clock, d, sink)
    pepsi.check("event=clock-went-back" in open(d.log, errors="replace").read(), "the jump was not seen")


def our_clock_alone(t):
    cluster = Cluster(t)
    clock = Clock(t)
    sink, d = start(t, "[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    through_jumps(t, clock, d, sink)
    pepsi.check("event=clock-went-back" not in open(d.log, errors="replace").read(), "the database's clock was not touched")


pepsi.main(__file__, [both_clocks, our_clock_alone])
