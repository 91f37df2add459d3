"""What poison costs the others: a stage that takes 10 ms a message is kept busy by a backlog; in every second round some messages
come along that crash their worker three times each before they are given up. Rounds with and without them take turns in one
run, so that what else the machine does falls on both alike; printed is the ratio of the throughputs of the other mail.

PEPSI_POISON_STRICT=1: it must be 0.95 or more (the release build, a quiet machine), else 0.75. PEPSI_POISON_ROUNDS: how many pairs (4),
PEPSI_POISON_SECONDS: the length of a round (2), PEPSI_POISON_RATE: poison messages a second (1): three dead workers a second, of
four, is more than an operator will ever leave alone."""
import os
import re
import statistics
import threading
import time

import pepsi

STAGES = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
STRICT = bool(os.environ.get("PEPSI_POISON_STRICT"))
ROUNDS = int(os.environ.get("PEPSI_POISON_ROUNDS") or (10 if STRICT else 4))
SECONDS = float(os.environ.get("PEPSI_POISON_SECONDS") or (4 if STRICT else 2))
RATE = float(os.environ.get("PEPSI_POISON_RATE") or 1)
WORKERS = 4


def done(d):
    """Of the other mail: what was delivered, and when that was seen."""
    m = d.metrics()
    return m["pepsi_messages_delivered_total"], time.monotonic()


class Poisoner:
    def __init__(self, d):
        self.d, self.on, self.over, self.sent = d, threading.Event(), threading.Event(), 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        s = pepsi.Smtp(self.d.port, source="127.0.0.5")
        while not self.over.is_set():
            if self.on.wait(0.2) and not self.over.is_set():
                code, text = s.send("poison@example.test", "x@far.test", pepsi.message("poison%d" % self.sent))
                pepsi.check(code == 250, "%d %s" % (code, text))
                self.sent += 1
                self.over.wait(1 / RATE)
        s.close()


def circulate(t):
    pepsi.need("smtp-source")
    t.environment["ASAN_OPTIONS"] += ":handle_abort=0"
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-bad-slow\nDEPTH = 1\nPARALLELISM = %d\nQUEUE_LIMIT = 50\n\n" % WORKERS + pepsi.bounce(),
                     pepsi="MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")))
    need = int(WORKERS * 100 * (2 * ROUNDS * (SECONDS + 0.7) + 2))
    crowd = t.popen(["smtp-source", "-s", "20", "-m", str(10 * need), "-l", "500", "-f", "crowd@example.test", "-t", "y@far.test", "127.0.0.1:%d" % d.port])
    pepsi.wait_for("the backlog is there", lambda: d.status()["queue"]["total"] >= need, 150, 0.2)
    crowd.terminate()
    poisoner = Poisoner(d)
    speeds = ([], [])
    for i in range(2 * ROUNDS):
        # pairs in alternating order: what drifts over time falls on both
        poison = (i % 4) in (1, 2)
        (poisoner.on.set if poison else poisoner.on.clear)()
        time.sleep(0.5)
        n0, t0 = done(d)
        time.sleep(SECONDS)
        n1, t1 = done(d)
        speeds[poison].append((n1 - n0) / (t1 - t0))
    poisoner.on.clear()
    poisoner.over.set()
    poisoner.thread.join(30)
    left = d.status()["queue"]["total"]
    pepsi.check(left > WORKERS * 50, "the backlog was gone too early to tell (%d left)" % left)
    ratio = statistics.mean(speeds[1]) / statistics.mean(speeds[0])
    pairs = sorted(b / a for a, b in zip(*speeds))
    stage = next(g for g in d.status()["stages"] if g["name"] == "init")
    pepsi.say("      other mail, %d workers, 10 ms a message: %.1f/s without, %.1f/s with %g poison messages a second (%d sent, %d workers died): ratio %.3f"
              " (of single pairs: %.3f to %.3f)" % (WORKERS, statistics.mean(speeds[0]), statistics.mean(speeds[1]), RATE, poisoner.sent, stage["crashes"],
                                                    ratio, pairs[0], pairs[-1]))
    pepsi.check(poisoner.sent > 0 and stage["crashes"] >= 3 * (poisoner.sent - 2), "no poison to speak of")
    pepsi.check(stage["separated"] <= 2, "%d innocent messages had to travel alone" % stage["separated"])
    pepsi.check(not stage["trouble"], "the stage cools down: %s" % stage["trouble"])
    pepsi.check(ratio >= (0.95 if STRICT else 0.75), "poison costs the others too much: ratio %.3f" % ratio)
    rows = [r for r in d.queue("--status", "failed")]
    pepsi.wait_for("all poison is out of circulation", lambda: len(d.queue("--status", "failed")) == poisoner.sent, 30, 0.3)
    pepsi.check(all(r["mail_from"] == "poison@example.test" for r in rows), "somebody else's message failed: %s" % rows[:2])


pepsi.main(__file__, [circulate])
