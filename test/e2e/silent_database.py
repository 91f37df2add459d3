"""A database that says nothing in mid-statement, while a worker of relay-to-internet has sessions under way: its backend is stopped, so that connections stay
and nobody answers. Sessions go on without a pause, whichever of the worker's two connections it is; what is done is written when the server goes on, and
everything arrives once."""
import os
import signal
import subprocess
import threading
import time

import pepsi
from internet import Net, arrives, one_zone
from pepsi import check, wait_for

PAUSE = 2.5 * pepsi.SLACK  # seconds that nothing may stand still
OPTIONS = ("PORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = YES\nPARALLELISM = 1\nQUEUE_LIMIT = 1000\nMAX_RUNTIME = 10 min\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n"
           "CONNECT_TIMEOUT = 5 s\nSHAPE_1 = * concurrency=20\n")


def sql(net, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(net.d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", text], stdin=subprocess.DEVNULL,
                       capture_output=True)
    check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().split()


class Stopped:
    """The backend of one of the worker's connections does nothing while this is open."""

    def __init__(self, net, name):
        found = wait_for("its backend", lambda: sql(net, "SELECT pid FROM pg_stat_activity WHERE application_name = '%s'" % name), 30)
        check(len(found) == 1, "backends of %s: %s" % (name, found))
        self.pid = int(found[0])
        check(self.pid in net.d.postgres_pids(), "not ours")
        net.t.cleanup(self.go)

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def go(self):
        try:
            os.kill(self.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def __exit__(self, *_):
        self.go()


class Steady:
    """A message for a domain that is known, every 0.2 s, and when each arrived."""

    def __init__(self, net, rcpt, sink):
        self.net, self.rcpt, self.n, self.over, self.at = net, rcpt, 0, threading.Event(), []
        store = sink.store

        def noted(*what):
            self.at.append(time.monotonic())
            store(*what)
        sink.store = noted
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.2):
            self.net.accept("steady%d" % self.n, self.rcpt)
            self.n += 1

    def stop(self):
        self.over.set()
        self.thread.join(60)
        check(not self.thread.is_alive(), "the sender hangs")


def longest(at, since, until):
    """The longest time in between without one of these."""
    points = [since] + [x for x in at if since < x < until] + [until]
    return max(b - a for a, b in zip(points, points[1:]))


def module(t):
    """The connection over which the stage asks what is known of destinations: mail for those that are known goes on, mail for others waits five seconds and
    goes, and nothing is asked for a while. Then it is asked again, and what was learnt is kept."""
    pepsi.need("psql")
    net = Net(t, {"a.test": one_zone("mx", "127.9.0.81"), "b.test": one_zone("mx", "127.9.0.82"), "c.test": one_zone("mx", "127.9.0.83")}, options=OPTIONS)
    a, b, c = (net.sink("127.9.0.8%d" % i) for i in (1, 2, 3))
    net.accept("first", "x@a.test")
    arrives("first", a)
    wait_for("it is known", lambda: sql(net, "SELECT 1 FROM pepsi.destination_security WHERE domain = 'a.test'"), 30)
    steady = Steady(net, "x@a.test", a)
    wait_for("mail flows", lambda: len(steady.at) > 5)
    with Stopped(net, "pepsi worker init module"):
        began = time.monotonic()
        net.accept("new", "x@b.test")
        wait_for("it is told that nobody answers", lambda: net.logged('event=destinations-database reason="no answer in time"'), 30)
        arrives("new", b)
        n = len(steady.at)
        net.accept("newer", "x@c.test")  # it rests: not waited for
        arrives("newer", c)
        wait_for("mail flows on", lambda: len(steady.at) > n + 20, 60)
        ended = time.monotonic()
    check(longest(steady.at, began, ended) < PAUSE, "mail stood still for %.1f s" % longest(steady.at, began, ended))
    wait_for("it is counted", lambda: (net.d.module("destination_statements_total", result="silent") or 0) >= 1, 20)
    # the next one that is asked: not before ten seconds are over, by a domain that nobody asked for since
    wait_for("it is asked again", lambda: net.logged("event=destinations-database-back"), 90)
    wait_for("what was learnt meanwhile is kept", lambda: len(sql(net, "SELECT 1 FROM pepsi.dns_address WHERE address IN ('127.9.0.82', '127.9.0.83')")) == 2, 90)
    steady.stop()
    net.d.wait_empty(60)
    for token in ["steady%d" % i for i in range(steady.n)]:
        check(a.tokens().count(token) == 1, "%s came %d times" % (token, a.tokens().count(token)))
    check(len(net.d.worker_pids("init")) == 1 and not net.logged("event=overdue"), "the worker is another one")


def own(t):
    """The connection over which the worker itself loads and commits: dialogues go on step by step, and new ones begin with what came with its content; what they
    did is written, once, when the server goes on."""
    pepsi.need("psql")
    names = ["d%d.test" % i for i in range(1, 9)]
    net = Net(t, {n: one_zone("mx", "127.9.1.%d" % (i + 1)) for i, n in enumerate(names)}, options=OPTIONS)
    fast = net.sink("127.9.1.1")
    steps, go = [], threading.Event()

    def slowly(_):
        steps.append(time.monotonic())
        go.wait(0.5)
    slow = [net.sink("127.9.1.%d" % i, extensions=("8BITMIME",)) for i in range(2, 9)]
    for s in slow:
        s.script = {p: slowly for p in ("banner", "ehlo", "mail", "rcpt", "data", "eod")}
    net.accept("first", "x@d1.test")
    arrives("first", fast)
    net.d.wait_empty()
    for i, n in enumerate(names[1:]):
        net.accept("slow%d" % i, *["x%d@%s" % (k, n) for k in range(8)])
    wait_for("dialogues", lambda: len(steps) > 14)
    with Stopped(net, "pepsi worker init"):
        began = time.monotonic()
        net.accept("fast", "x@d1.test")
        for i, s in enumerate(slow):
            arrives("slow%d" % i, s)
        # all of it done, and nothing written: the pauses between the steps of all dialogues, up to the last one
        ended = max(steps)
        check(longest(steps, began, ended) < PAUSE, "the dialogues stood still for %.1f s" % longest(steps, began, ended))
        wait_for("it is told", lambda: net.logged("event=database-silent stage=init"), 30)
        check(len(net.d.queue()) >= len(slow), "who wrote it? %s" % net.d.queue())
    go.set()
    wait_for("it is told that it is over", lambda: net.logged("event=database-spoke stage=init"), 60)
    arrives("fast", fast)
    net.d.wait_empty(60)
    for i, s in enumerate(slow):
        check(s.tokens() == ["slow%d" % i], "%s" % s.tokens())
    check(fast.tokens() == ["first", "fast"], "%s" % fast.tokens())
    wait_for("it is counted", lambda: (net.d.module("database_silences_total") or 0) >= 1, 20)
    check(len(net.d.worker_pids("init")) == 1 and not net.logged("event=overdue"), "the worker is another one")


pepsi.main(__file__, [module, own])
