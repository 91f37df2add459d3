"""By which relay stage a test's mail leaves: the same suites of next hops over relay-to-smarthost and relay-to-lmtp (a stage for each hop) and over
relay-to-internet (one stage, a domain for each hop). A module; no test by itself.

    way = hops.Smarthosts(t)                     or Lmtps, Internet
    s = way.sink(tls=pair)                       a hop of the kind that the stage speaks to
    way.add("slow", s, tls="require", ca=file)   mail to anybody@slow.test goes there
    d = way.start()
    way.rcpt("slow")                             "someone@slow.test"

Senders are SENDER: reports arrive in way.back, whose hop always behaves; so does that of way.rcpt("good"), way.good."""
import dnslab
import pepsi
import sink

SENDER = "sender@back.test"
# seconds; what a hop that hangs costs in each phase
CONNECT, COMMAND, DATA = 3, 3, 4
TIMES = "CONNECT_TIMEOUT = %d s\nCOMMAND_TIMEOUT = %d s\nDATA_TIMEOUT = %d s\nIDLE_TIMEOUT = 2 s\n" % (CONNECT, COMMAND, DATA)


class Smarthosts:
    kind, lmtp, checks = "smarthost", False, True   # checks: TLS = require looks at the certificate

    def __init__(self, t):
        self.t, self.rules, self.stages = t, [], ""
        self.back, self.good = sink.Scripted(t), self.sink()
        self.rules.append(("back.test", "back"))
        self.stages += pepsi.smarthost("back", self.back.port, "ALLOW_FUSION = NO\n", bounce=None)
        self.add("good", self.good)

    def sink(self, **kw):
        return sink.Scripted(self.t, lmtp=self.lmtp, **kw)

    def section(self, name, port, more, tls):
        text = (pepsi.lmtp if self.lmtp else pepsi.smarthost)(name, port, TIMES + "ALLOW_FUSION = NO\n" + more)
        return text.replace("TLS = none\n", "") if tls else text

    def add(self, name, where, parallelism=1, tls=None, ca=None):
        more = "PARALLELISM = %d\n" % parallelism
        if tls:
            more += "TLS = %s\nTLS_CA_FILE = %s\n" % (tls, ca)
        self.rules.append((name + ".test", "to-" + name))
        self.stages += self.section("to-" + name, where.port, more, tls)

    def rcpt(self, name, local="someone", number=0):
        """number: of one of many domains that lead to the same hop, where that makes a difference."""
        return "%s@%s.test" % (local, name)

    def start(self, **kw):
        self.d = pepsi.Pepsid(self.t, pepsi.route("init", self.rules, "back") + self.stages + pepsi.bounce(), **kw)
        return self.d


class Lmtps(Smarthosts):
    kind, lmtp = "lmtp", True


class Internet:
    """Exchangers at loopback addresses, all with one port; the DNS is a table."""
    kind, lmtp, checks = "internet", False, False

    def __init__(self, t):
        self.t, self.port, self.zone, self.policies, self.ca, self.number = t, pepsi.free_port(), {}, "", None, 0
        self.lab = dnslab.Lab({})
        t.cleanup(self.lab.close)
        self.back, self.good = self.sink(), self.sink()
        self.add("back", self.back)
        self.add("good", self.good)

    def sink(self, **kw):
        self.number += 1
        return sink.Scripted(self.t, port=self.port, address="127.30.%d.%d" % (self.number // 250, self.number % 250 + 1), **kw)

    def add(self, name, where, parallelism=1, tls=None, ca=None):
        host = {"A": [where.address]}
        self.zone.update({name + ".test": {"MX": ["10 mx.%s.test" % name]}, "mx.%s.test" % name: host, "*.%s.test" % name: host})
        if tls:
            self.policies += "TLS_POLICY_%d = %s.test *.%s.test %s\n" % (len(self.zone), name, name, tls)
            self.ca = ca

    def rcpt(self, name, local="someone", number=0):
        return "%s@%s%s.test" % (local, "n%d." % number if number else "", name)

    def start(self, **kw):
        self.lab.zone.update(self.zone)
        # hops that fail on purpose are not to be left alone for long
        stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nPARALLELISM = 1\nQUEUE_LIMIT = 1000\nRETRY_MIN = 1 s\n"
                 "RETRY_MAX = 2 s\nADDRESS_HEALTH = NO\nMTA_STS = NO\nSHAPE_1 = * initial=20 backoff=1s..1s\nGREETING_TIMEOUT = %d s\nDOT_TIMEOUT = %d s\n"
                 "BOUNCE_STAGE = bounce\n%s%s" % (self.port, CONNECT, DATA, TIMES, self.policies))
        if self.ca:
            stage += "TLS_CA_FILE = %s\n" % self.ca
        self.d = pepsi.Pepsid(self.t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n" % self.lab.server, **kw)
        return self.d
