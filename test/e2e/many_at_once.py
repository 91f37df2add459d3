"""A module that drives many messages at once in one worker (PEPSI_CAP_CONCURRENT): a crowd that each takes its time is done in the time of one;
whoever crashes or hangs is named among hundreds, and the others pass; nothing is lost, and nothing done twice that need not be,
by stopping, reloading, SIGTERM, kill -9, or a database that is away."""
import os
import signal
import time

import pepsi

BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def daemon(t, more="", out="", **kw):
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-many.so")):
        raise pepsi.Skip("test/stages was not built")
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0:handle_abort=0"
    sink = pepsi.Sink(t)
    many = ("[stage-init]\nPROGRAM = pepsi-stage-many\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\nPARALLELISM = 1\nQUEUE_LIMIT = 5000\n" + more + "\n")
    stages = many + pepsi.smarthost("out", sink.port, "PARALLELISM = 4\n" + out) + pepsi.bounce()
    modules = "MODULE_PATH = %s:%s\n" % (BUILT, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))
    return sink, pepsi.Pepsid(t, stages, pepsi=modules, **kw)


class Sender:
    """Messages over one session; token → queue id."""

    def __init__(self, d):
        self.d, self.ids, self.s = d, {}, pepsi.Smtp(d.port)

    def send(self, token, wish, domain="far.test", sender="sender@example.test"):
        code, text = self.s.send(sender, "%s@%s" % (wish, domain), pepsi.message(token))
        pepsi.check(code == 250, "%d %s" % (code, text))
        self.ids[token] = int(text.split("queued as ")[1].split()[0])
        return self.ids[token]

    def close(self):
        self.s.close()


def stage(d, name="init"):
    return [g for g in d.status()["stages"] if g["name"] == name][0]


def held(d):
    return sum(stage(d)["held"])


def warm(d, sink):
    """The first message tells the dispatcher what kind of module that is."""
    d.accept("sender@example.test", "now@far.test", pepsi.message("warm"))
    pepsi.wait_for("the stage is known to be concurrent", lambda: stage(d)["concurrent"] and "warm" in sink.tokens(), 30)


def logged(d, what):
    with open(d.log, errors="replace") as f:
        return [line for line in f if what in line]


def arrived(sink, tokens, seconds=60):
    pepsi.wait_for("all %d arrive" % len(tokens), lambda: not set(tokens) - set(sink.tokens()), seconds, 0.2)
    got = [x for x in sink.tokens() if x in set(tokens)]
    pepsi.check(len(got) == len(tokens), "%d deliveries of %d messages" % (len(got), len(tokens)))


def two_thousand(t):
    """2,000 messages that take a second each, over one worker: seconds, not half an hour."""
    n = 2000
    sink, d = daemon(t, "WAIT = 1 s\nMAX_MESSAGES = 100000\n")
    warm(d, sink)
    pid = d.worker_pids("init")
    load = pepsi.Load(d, 8, rcpt="wait-1000@far.test", size=600)
    pepsi.wait_for("%d are accepted" % n, lambda: load.count() >= n, 120, 0.02)
    tokens, began = load.stop(), time.monotonic()
    arrived(sink, tokens, 120)
    took = time.monotonic() - began
    d.wait_empty(60)
    pepsi.check(took < 20 * pepsi.SLACK, "%.1f s" % took)
    pepsi.check(d.worker_pids("init") == pid, "more than one worker was used")
    g = stage(d)
    pepsi.check(g["crashes"] == g["overruns"] == g["errors"] == 0, "%s" % g)
    # a message costs what ran beside it shares: far less than the second it takes
    pepsi.check(0 < g["mean_ms"] < 500, "%s ms" % g["mean_ms"])
    pepsi.say("      %d messages of a second each, %.1f s after the last was accepted; mean worker time %.2f ms" % (len(tokens), took, g["mean_ms"]))


pepsi.main(__file__, [two_thousand])
