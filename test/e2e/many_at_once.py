"""A module that drives many messages at once in one worker (PEPSI_CAP_CONCURRENT): a crowd that each takes its time is done in the time of one;
whoever crashes or hangs is named among hundreds, and the others pass; nothing is lost, and nothing done twice that need not be,
by stopping, reloading, SIGTERM, kill -9, or a database that is away."""
import os
import signal
import socket
import threading
import time

import dnslab
import pepsi
from postgres import Cluster

BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def daemon(t, more="", out="", daemon_more="", limit="QUEUE_LIMIT = 5000\n"):
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-many.so")):
        raise pepsi.Skip("test/stages was not built")
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0:handle_abort=0"
    sink = pepsi.Sink(t)
    many = ("[stage-init]\nPROGRAM = pepsi-stage-many\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\nPARALLELISM = 1\n" + limit + more + "\n")
    stages = many + pepsi.smarthost("out", sink.port, "PARALLELISM = 4\n" + out) + pepsi.bounce()
    modules = "MODULE_PATH = %s:%s\n" % (BUILT, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))
    return sink, pepsi.Pepsid(t, stages, pepsi=modules, more=daemon_more)


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


def by_default(t):
    """Where nothing is set one worker holds a thousand, not the fifty that wait for one that takes them in turn."""
    sink, d = daemon(t, "WAIT = 1 s\n", limit="")
    warm(d, sink)
    s = Sender(d)
    for i in range(200):
        s.send("d%d" % i, "wait-%d" % (1500 * pepsi.SLACK))
    pepsi.wait_for("all of them to be with one worker", lambda: held(d) == 200, 30, 0.1)
    pepsi.check(len(d.worker_pids("init")) == 1, "several workers")
    s.close()
    arrived(sink, ["d%d" % i for i in range(200)])


def ended(d, ident, status, seconds=120):
    def look():
        return [r for r in d.queue() if r["id"] == ident and r["status"] == status]
    pepsi.wait_for("message %d is at rest" % ident, look, seconds, 0.3)
    error = d.json("queue", "show", str(ident))["state"]["dispatch_error"]
    d.cli("queue", "delete", str(ident))
    return error


def crash_in_the_middle(t):
    """One of 300 takes the worker along: it alone is counted, and travels beside the others from then on."""
    sink, d = daemon(t)
    warm(d, sink)
    s = Sender(d)
    for i in range(300):
        s.send("c%d" % i, "crash-3000" if i == 150 else "wait-6000", "d%d.test" % (i % 50))
    evil = s.ids["c150"]
    pepsi.wait_for("the crowd is pending", lambda: held(d) > 200, 20)
    out = d.cli("status")[1]
    pepsi.check("pending   init: " in out and " at %d" % d.worker_pids("init")[0] in out, "pepsi status:\n%s" % out)
    pepsi.check(d.metrics().get('pepsi_stage_held{stage="init"}', 0) > 100, "/metrics")
    arrived(sink, [x for x in s.ids if x != "c150"], 90)
    error = ended(d, evil, "failed")
    pepsi.check(error["kind"] == "crash" and error["crashes"] == 3 and error["report"]["program"] == "pepsi-stage-many", "%s" % error)
    g = stage(d)
    culprits = logged(d, "event=culprit")
    pepsi.check(g["crashes"] == 3 and g["separated"] == 0 and g["named"] == 1, "%s" % g)
    pepsi.check(len(culprits) == 3 and all("id=%d " % evil in c for c in culprits) and "found=page" in culprits[0], "%s" % culprits)
    pepsi.check("innocent=" in culprits[0] and int(culprits[0].split("innocent=")[1].split()[0]) > 200, "no crowd: %s" % culprits[0])
    d.wait_empty(20)
    s.close()


def crash_for_nobody(t):
    """A callback that works for nobody takes the worker along: parts of the crowd are tried, and parts of those, until it is one."""
    sink, d = daemon(t)
    warm(d, sink)
    s = Sender(d)
    for i in range(100):
        s.send("n%d" % i, "nobody-1500" if i == 50 else "wait-2500")
    evil = s.ids["n50"]
    pepsi.wait_for("the crowd is pending", lambda: held(d) == 100, 20)
    # meanwhile others are not held up by those that are tried in parts
    pepsi.wait_for("a worker died", lambda: stage(d)["crashes"] >= 1, 20)
    s.send("later", "wait-100")
    arrived(sink, ["later"], 20)
    error = ended(d, evil, "failed", 200)
    arrived(sink, [x for x in s.ids if x != "n50"], 90)
    pepsi.check(error["crashes"] == 3 and error["report"]["found"] == "alone", "%s" % error)
    g = stage(d)
    pepsi.check(4 <= g["crashes"] <= 3 + 3, "%d workers died: 100 → 13 → 2 → 1, and twice more alone" % g["crashes"])
    d.wait_empty(20)
    s.close()


def hang_in_a_callback(t):
    """A callback that does not return: all stand still until the dispatcher ends the worker, and blames the one in hand."""
    sink, d = daemon(t, "MAX_RUNTIME = 8 s\n")
    warm(d, sink)
    s = Sender(d)
    for i in range(60):
        s.send("h%d" % i, "hang-1000" if i == 30 else "wait-2000")
    evil = s.ids["h30"]
    arrived(sink, [x for x in s.ids if x != "h30"], 60)
    error = ended(d, evil, "timeout")
    pepsi.check(error["kind"] == "overrun" and error["overruns"] == 3, "%s" % error)
    g = stage(d)
    pepsi.check(g["overruns"] == 3 and g["separated"] == 0, "%s" % g)
    d.wait_empty(20)
    s.close()


def one_that_never_ends(t):
    """stop() is called; who does not hear it has MAX_RUNTIME, and is named by the worker that ends for it; who hears it is paused."""
    sink, d = daemon(t, "MAX_RUNTIME = 6 s\nWAIT = 1 s\n")
    warm(d, sink)
    s = Sender(d)
    for i in range(40):
        s.send("f%d" % i, "forever" if i == 20 else "stay" if i == 21 else "wait-1500")
    evil, stays = s.ids["f20"], s.ids["f21"]
    pepsi.wait_for("who hears stop() is paused", lambda: [r for r in d.queue() if r["id"] == stays and r["status"] == "paused"], 30, 0.2)
    arrived(sink, [x for x in s.ids if x not in ("f20", "f21")], 60)
    error = ended(d, evil, "timeout")
    pepsi.check(error["kind"] == "overrun" and error["overruns"] == 3, "%s" % error)
    g = stage(d)
    pepsi.check(g["overruns"] == 3 and g["separated"] == 0 and g["crashes"] == 0, "%s" % g)
    pepsi.check(len(logged(d, "event=overdue")) == 3, "not told")
    d.cli("queue", "delete", str(stays))
    s.close()


def leaving(t):
    """Stop and start, reload, SIGTERM, kill -9, each with a crowd pending: nobody is blamed, all arrive once."""
    sink, d = daemon(t, "MAX_RUNTIME = 40 s\n")
    warm(d, sink)

    def crowd(prefix, wish, n=60):
        s = Sender(d)
        for i in range(n):
            s.send("%s%d" % (prefix, i), wish)
        s.close()
        pepsi.wait_for("the crowd is pending", lambda: held(d) == n, 20)
        return list(s.ids)

    tokens = crowd("stop", "wait-6000")
    began = time.monotonic()
    d.stop()
    pepsi.say("      stopped in %.1f s" % (time.monotonic() - began))
    d.start()
    arrived(sink, tokens, 60)

    warm(d, forget_warm(sink))
    old = d.worker_pids("init")
    tokens = crowd("reload", "wait-8000")
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))
    s = Sender(d)
    s.send("beside", "wait-100")
    arrived(sink, ["beside"], 15)
    pepsi.check(not set(tokens) & set(sink.tokens()) or pepsi.PATIENCE > 3, "the successor did not begin beside it")
    new = d.worker_pids("init")
    pepsi.check(set(old) < set(new), "workers before %s, now %s" % (old, new))
    arrived(sink, tokens, 60)
    pepsi.wait_for("the old one is gone", lambda: not set(old) & set(d.worker_pids("init")), 30)
    s.close()

    tokens = crowd("term", "wait-5000")
    os.kill(d.worker_pids("init")[0], signal.SIGTERM)
    arrived(sink, tokens, 60)

    tokens = crowd("kill", "wait-5000")
    os.kill(d.worker_pids("init")[0], signal.SIGKILL)
    arrived(sink, tokens, 60)
    g = stage(d)
    pepsi.check(g["separated"] == 0 and g["named"] == 0 and g["overruns"] == 0, "%s" % g)
    pepsi.check(not logged(d, "event=culprit"), "somebody was blamed: %s" % logged(d, "event=culprit"))
    d.wait_empty(20)

    # one that hears nothing goes down with the worker, and is not blamed either
    s = Sender(d)
    ident = s.send("deaf", "forever")
    pepsi.wait_for("it is pending", lambda: held(d) == 1, 20)
    os.kill(d.worker_pids("init")[0], signal.SIGTERM)
    pepsi.wait_for("its worker left", lambda: [x for x in logged(d, "event=worker-left") if "killed=no" in x and "held=1" in x], 30)
    pepsi.wait_for("it is pending again", lambda: held(d) == 1, 20)
    pepsi.check("dispatch_error" not in d.json("queue", "show", str(ident))["state"], "it was blamed")
    s.close()


def forget_warm(sink):
    """warm() anew: its token may come again"""
    sink.messages = [m for m in sink.messages if m.token != "warm"]
    return sink


def rules(t):
    """Modules that break the rules: the message fails, or the log says so; the worker goes on."""
    sink, d = daemon(t)
    warm(d, sink)
    pid = d.worker_pids("init")
    s = Sender(d)
    for w in ("twice-10", "noend-10", "pending-10", "block-10", "early", "late-10", "again", "retry-10"):
        s.send(w, w)
    failed = ("twice-10", "noend-10", "pending-10", "block-10", "early")
    pepsi.wait_for("five have failed", lambda: len([r for r in d.queue() if r["status"] == "failed"]) == 5, 30, 0.2)
    pepsi.check({r["id"] for r in d.queue() if r["status"] == "failed"} == {s.ids[w] for w in failed}, "others failed")
    pepsi.check([r for r in d.queue() if r["status"] == "paused"][0]["id"] == s.ids["retry-10"], "no retry")
    pepsi.check("broke the stage ABI" in d.json("queue", "show", str(s.ids["noend-10"]))["state"]["last_error"], "no reason")
    arrived(sink, ["late-10", "again"], 20)
    pepsi.check(len(logged(d, "event=misuse")) >= 6, "misuse is not in the log: %s" % logged(d, "event=misuse"))
    pepsi.check(d.worker_pids("init") == pid, "the worker did not go on")
    s.close()


def database_away(t):
    """A minute without a database in the midst of a crowd: callbacks go on, what is done is written afterwards, once."""
    cluster, away = Cluster(t), 10 if pepsi.SANITIZED else 60
    sink, d = daemon(t, "MAX_RUNTIME = 200 s\n", daemon_more="[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    warm(d, sink)
    s = Sender(d)
    server = Echo(t)
    for i in range(100):
        s.send("a%d" % i, "talk-%d" % server.port if i % 2 else "wait-%d" % (2000 + 100 * i))
    cluster.stop(signal.SIGINT)  # not SIGQUIT: what it loses of the last commits (they do not wait for the disk) may be done twice
    pepsi.wait_for("conversations go on without a database", lambda: server.served == 50, 30, 0.2)
    time.sleep(away)
    cluster.start()
    arrived(sink, list(s.ids), 120)
    g = stage(d)
    pepsi.check(g["crashes"] == g["overruns"] == 0, "%s" % g)
    s.close()


def names(t):
    """Questions of many messages at once, answered in any order: who waits for a slow or a silent server holds up nobody."""
    zone = {"quick%d.test" % i: {"A": ["192.0.2.1"]} for i in range(20)}
    zone.update({"slow%d.test" % i: {"A": ["192.0.2.1"], "DO": "delay 1"} for i in range(40)})
    zone["dead.test"] = {"DO": "silent"}
    lab = dnslab.Lab(zone)
    t.cleanup(lab.close)
    sink, d = daemon(t, daemon_more="[pepsi-dns]\nSERVERS = 127.0.0.1:%d\nMESSAGE_DEADLINE = 4 s\nLOOKUP_DEADLINE = 4 s\n" % lab.port)
    warm(d, sink)
    s, began = Sender(d), time.monotonic()
    s.send("dead", "dns-dead_test")
    for i in range(40):
        s.send("slow%d" % i, "dns-slow%d_test" % i)
    for i in range(20):
        s.send("quick%d" % i, "dns-quick%d_test" % i)
    for i in range(20):
        s.send("none%d" % i, "dns-none%d_test" % i)
    arrived(sink, [x for x in s.ids if x != "dead"], 30)
    took, order = time.monotonic() - began, sink.tokens()
    pepsi.check(took < 12 * pepsi.SLACK, "%.1f s for 40 seconds of waiting" % took)
    pepsi.check(max(order.index("quick%d" % i) for i in range(20)) < order.index("slow39") or pepsi.PATIENCE > 3, "the order: %s" % order)
    row = pepsi.wait_for("what nobody answers is paused", lambda: [r for r in d.queue() if r["id"] == s.ids["dead"] and r["status"] == "paused"], 20, 0.2)
    dns = d.json("queue", "show", str(row[0]["id"]))["state"]["dns"]
    pepsi.check(dns["status"] == 3 and dns["n"] == 0 and ("deadline" in dns["why"] or "time-out" in dns["why"]), "%s" % dns)
    d.cli("queue", "delete", str(s.ids["dead"]))
    s.close()


class Echo:
    """Answers a line with a line, after a second."""

    def __init__(self, t):
        self.port, self.served = pepsi.free_port(), 0
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind(("127.0.0.1", self.port))
        self.s.listen(200)
        threading.Thread(target=self.run, daemon=True).start()
        t.cleanup(self.s.close)

    def run(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(c,), daemon=True).start()

    def talk(self, c):
        c.settimeout(120)
        try:
            c.recv(200)
            time.sleep(1)
            c.sendall(b"hello you\n")
            self.served += 1
            c.recv(1)
        except OSError:
            pass
        c.close()


pepsi.main(__file__, [two_thousand, by_default, crash_in_the_middle, crash_for_nobody, hang_in_a_callback, one_that_never_ends, leaving, rules, names, database_away])
