"""By which relay stage a test's mail leaves: the same suite of next hops over relay-to-smarthost and relay-to-lmtp (a stage for each hop). A
module; no test by itself.

    way = hops.Smarthosts(t)
    way.add("slow", sink, "TLS = require\n")     mail to anybody@slow.test goes there
    d = way.start()
    way.rcpt("slow")                             "someone@slow.test"

Senders are sender@back.test: reports arrive in way.back, whose hop always behaves; so does that of way.rcpt("good"), way.good."""
import pepsi
import sink

SENDER = "sender@back.test"
# seconds; CONNECT_TIMEOUT, COMMAND_TIMEOUT, DATA_TIMEOUT: what a hop that hangs costs
CONNECT, COMMAND, DATA = 3, 3, 4
TIMES = "CONNECT_TIMEOUT = %d s\nCOMMAND_TIMEOUT = %d s\nDATA_TIMEOUT = %d s\nIDLE_TIMEOUT = 2 s\nALLOW_FUSION = NO\n" % (CONNECT, COMMAND, DATA)


class Smarthosts:
    kind, lmtp = "smarthost", False

    def __init__(self, t):
        self.t, self.rules, self.stages = t, [], ""
        self.back, self.good = sink.Scripted(t), self.sink()
        self.rules.append(("back.test", "back"))
        self.stages += pepsi.smarthost("back", self.back.port, "ALLOW_FUSION = NO\n", bounce=None)
        self.add("good", self.good)

    def sink(self, **kw):
        """A hop of the kind that the stage speaks to."""
        return sink.Scripted(self.t, lmtp=self.lmtp, **kw)

    def section(self, name, port, more):
        text = (pepsi.lmtp if self.lmtp else pepsi.smarthost)(name, port, TIMES + more)
        return text.replace("TLS = none\n", "") if "TLS = " in more else text

    def add(self, name, where, more="PARALLELISM = 1\n"):
        self.rules.append((name + ".test", "to-" + name))
        self.stages += self.section("to-" + name, where.port, more)

    def rcpt(self, name, local="someone"):
        return "%s@%s.test" % (local, name)

    def start(self, **kw):
        self.d = pepsi.Pepsid(self.t, pepsi.route("init", self.rules, "back") + self.stages + pepsi.bounce(), **kw)
        return self.d


class Lmtps(Smarthosts):
    kind, lmtp = "lmtp", True
