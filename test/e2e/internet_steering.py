"""Rules that hold and reroute mail, against a worker that has many messages at once: what is on its way when the rule comes finishes, what waits in the
worker for its turn does not, nor does what is queued or comes later. Nothing twice, nothing lost."""
import threading

import pepsi
from internet import Net, one_zone
from pepsi import check, smarthost, wait_for
from steering import ok, rule_of

OPTIONS = ("PORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = NO\nPARALLELISM = 1\nQUEUE_LIMIT = 1000\nMAX_RUNTIME = 10 min\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n"
           "SHAPE_1 = * concurrency=3\n")


class Lab(Net):
    """one.test keeps each message at the end of its content until it is let go."""

    def __init__(self, t):
        self.other = pepsi.Sink(t)
        super().__init__(t, {"one.test": one_zone("mx", "127.9.2.1"), "two.test": one_zone("mx", "127.9.2.2")},
                         "\n" + smarthost("other", self.other.port), options=OPTIONS)
        self.one, self.two = self.sink("127.9.2.1"), self.sink("127.9.2.2")
        self.at_dot, self.go = [], threading.Event()
        t.cleanup(self.go.set)

        def keep(_):
            if not self.go.is_set():
                self.at_dot.append(1)
            self.go.wait(100)
        self.one.script = {"eod": keep}

    def send(self, tokens, domain):
        for token in tokens:
            self.accept(token, "x@" + domain)

    def fill(self):
        """More than may be under way at once; the tokens, and when it stays so."""
        tokens = ["early%d" % i for i in range(12)]
        self.send(tokens, "one.test")
        wait_for("dialogues under way", lambda: self.at_dot)
        wait_for("the others in the worker", lambda: len(self.d.queue("--status", "running")) == 12)
        return tokens


def hold(t):
    net = Lab(t)
    tokens = net.fill()
    rule = rule_of(ok(net.d, "queue", "hold", "add", "--destination", "one.test"))
    late = ["late%d" % i for i in range(3)]
    net.send(late, "one.test")
    net.send(["free"], "two.test")
    wait_for("what is free", lambda: net.two.tokens() == ["free"], 30)
    wait_for("all others to be held, while those dialogues last", lambda: len(net.d.queue("--status", "held")) == 15 - len(net.at_dot), 30)
    n = len(net.at_dot)
    check(n <= 3 and not net.one.messages, "%d under way" % n)
    net.go.set()
    wait_for("those that were on their way", lambda: len(net.one.messages) == n, 30)
    wait_for("their rows to go", lambda: len(net.d.queue()) == 15 - n, 30)
    check(all(q["held"] for q in net.d.queue()), "%s" % net.d.queue())
    ok(net.d, "queue", "hold", "remove", rule)
    net.d.wait_empty(60)
    check(sorted(net.one.tokens()) == sorted(tokens + late), "%s" % sorted(net.one.tokens()))
    s = net.d.status()
    check(s["accepted"] == s["delivered"] == 16, "%s" % s)


def reroute(t):
    net = Lab(t)
    before = rule_of(ok(net.d, "queue", "reroute", "other", "--destination", "two.test"))
    net.send(["first"], "two.test")
    wait_for("what a rule says that was there before", lambda: net.other.tokens() == ["first"], 30)
    tokens = net.fill()
    ok(net.d, "queue", "reroute", "other", "--destination", "one.test")
    late = ["late%d" % i for i in range(3)]
    net.send(late, "one.test")
    wait_for("all others on the other way, while those dialogues last", lambda: len(net.other.messages) == 1 + 15 - len(net.at_dot), 30)
    n = len(net.at_dot)
    check(n <= 3 and not net.one.messages, "%d under way" % n)
    ok(net.d, "queue", "reroute", "remove", before)
    net.send(["straight"], "two.test")
    wait_for("the old way", lambda: net.two.tokens() == ["straight"], 30)
    net.go.set()
    net.d.wait_empty(60)
    check(len(net.one.messages) == n and sorted(net.one.tokens() + net.other.tokens()) == sorted(tokens + late + ["first"]), "%s %s" % (net.one.tokens(), net.other.tokens()))
    s = net.d.status()
    check(s["accepted"] == s["delivered"] == 17, "%s" % s)


def idna(t):
    """A domain in its own letters and in A-labels is one, for mail that comes and mail that is queued; in filters, too."""
    net = Net(t, {"xn--bcher-kva.example": one_zone("mx", "127.9.2.3")}, options=OPTIONS)
    sink, names = net.sink("127.9.2.3"), ["bücher.example", "xn--bcher-kva.example", "XN--BCHER-KVA.Example"]

    def send(token, name):
        net.d.accept("me@sender.test", ["x@" + name], pepsi.message(token), params="SMTPUTF8" if not name.isascii() else "")
    for i, written in enumerate(("bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "Xn--Bcher-KVA.EXAMPLE")):
        rule = rule_of(ok(net.d, "queue", "hold", "add", "--destination", written))
        for k, name in enumerate(names):
            send("m%d.%d" % (i, k), name)
        wait_for("all of them to be held by %s" % written, lambda: len(net.d.queue("--status", "held")) == 3)
        check(net.d.json("queue", "hold", "list")[0]["recipient"] == "@xn--bcher-kva.example", "%s" % net.d.json("queue", "hold", "list"))
        check(len(net.d.queue("--destination", written)) == 3 and not net.d.queue("--destination", "bucher.example"), "filters")
        ok(net.d, "queue", "hold", "remove", rule)
        net.d.wait_empty(30)
        check(len(sink.messages) == 3 * (i + 1), "%s" % sink.tokens())
    # what is queued
    sink.script = {"rcpt": "450 4.2.0 not now"}
    for k, name in enumerate(names):
        send("q%d" % k, name)
    wait_for("them to wait", lambda: [q["status"] for q in net.d.queue()] == ["paused"] * 3)
    check("3 queued messages held" in ok(net.d, "queue", "hold", "add", "--destination", "BÜCHER.example"), "what is queued")


if __name__ == "__main__":
    pepsi.main(__file__, [hold, reroute, idna])
