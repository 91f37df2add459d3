"""Delivery to mail exchangers over the real daemon: nsd as the DNS, exchangers on loopback addresses. Which host, what when it fails, what goes
back to the sender, TLS, many messages at once beside hosts that are dead or say nothing."""
import os
import time

import authority
import pepsi
import sink as scripted
from certs import Authority

OPTIONS = ("PORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = NO\nPARALLELISM = 1\nQUEUE_LIMIT = 1000\nMAX_RUNTIME = 10 min\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n"
           "CONNECT_TIMEOUT = 5 s\n")


class Net:
    """A DNS of some zones and exchangers at 127.9.x.y, all with the same port."""

    def __init__(self, t, zones, more="", options=OPTIONS, **kw):
        self.t, self.port = t, pepsi.free_port()
        self.zones = {"sender.test": "@ IN MX 10 mx\nmx IN A 127.9.0.1\n"}
        self.zones.update(zones)
        self.dns = authority.start(t, self.zones)
        self.back = self.sink("127.9.0.1")  # where reports to senders go
        stage = "[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\n%sBOUNCE_STAGE = bounce\n%s\n" % (options % self.port, more)
        self.d = pepsi.Pepsid(t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n" % self.dns, **kw)

    def sink(self, address, **kw):
        return pepsi.Sink(self.t, port=self.port, address=address, **kw)

    def accept(self, token, *rcpts):
        self.d.accept("me@sender.test", list(rcpts), pepsi.message(token, sender="me@sender.test"))

    def logged(self, what):
        with open(self.d.log, errors="replace") as f:
            return [line for line in f if what in line]


def arrives(token, *sinks, seconds=30):
    for s in sinks:
        pepsi.wait_for("%s at %s" % (token, s.address), lambda: token in s.tokens(), seconds)
        pepsi.check(s.tokens().count(token) == 1, "%s came %d times to %s" % (token, s.tokens().count(token), s.address))


def report(net, token):
    """The report about a message, as text."""
    def found():
        return [m for m in list(net.back.messages) if token.encode() in m.data]
    return pepsi.wait_for("a report about " + token, found, 30)[0].data.decode("utf-8", "replace")


def one_zone(host, address):
    return "@ IN MX 10 %s\n%s IN A %s\n" % (host, host, address)


def domains(t):
    """A message for three domains is three; each recipient's copy comes once; the log says where it went."""
    net = Net(t, {"one.test": one_zone("mx", "127.9.0.11"), "two.test": "@ IN MX 20 b\n@ IN MX 10 a\na IN A 127.9.0.12\nb IN A 127.9.0.13\n",
                  "three.test": "@ IN A 127.9.0.14\n"})
    one, two, backup, three = (net.sink("127.9.0.1%d" % i) for i in (1, 2, 3, 4))
    net.accept("split", "a@one.test", "b@two.test", "c@one.test", "d@three.test", "e@TWO.test")
    arrives("split", one, two, three)
    rcpts = sorted(r[0] if isinstance(r, tuple) else r for s in (one, two, three) for m in s.messages for r in m.rcpts)
    pepsi.check([r.lower() for r in rcpts] == ["a@one.test", "b@two.test", "c@one.test", "d@three.test", "e@two.test"], "%s" % rcpts)
    pepsi.check(len(one.messages) == len(two.messages) == len(three.messages) == 1 and not backup.connections, "a transaction each, nothing to the backup")
    net.d.wait_empty()
    line = net.logged("relayed to=<a@one.test>")[0]
    pepsi.check("host=mx.one.test ip=127.9.0.11 port=%d" % net.port in line and "id=" in line, line)
    s = net.d.status()
    pepsi.check(s["accepted"] + 2 == s["delivered"] + s["queue"]["total"] or s["accepted"] == s["delivered"], "%s" % s)


def hosts(t):
    """The next exchanger when one is down, busy or says no for now; a refusal for good is believed; what cannot be delivered goes back."""
    net = Net(t, {"far.test": "@ IN MX 10 a\n@ IN MX 20 b\na IN A 127.9.0.21\nb IN A 127.9.0.22\n", "null.test": "@ IN MX 0 .\n",
                  "self.test": "@ IN MX 10 mx.example.test.\n"}, "ADDRESS_HEALTH = NO\nSHAPE_1 = * backoff=1s..2s\n")
    b = net.sink("127.9.0.22")
    net.accept("down", "x@far.test")
    arrives("down", b)
    a = net.sink("127.9.0.21")
    for token, script in (("busy", {"banner": "421 4.3.2 busy"}), ("grey", {"rcpt": "450 4.7.1 not yet"}), ("later", {"eod": "451 4.3.0 disk"}),
                          ("gone", {"rcpt": "drop"}), ("shut", {"banner": "554 5.7.1 not you"})):
        a.script = script
        net.accept(token, "x@far.test")
        arrives(token, b)
    a.script = {"rcpt": lambda arg: "550 5.1.1 nobody" if b"nobody" in (arg if isinstance(arg, bytes) else arg.encode()) else None}
    net.accept("some", "nobody@far.test", "x@far.test")
    arrives("some", a)
    text = report(net, "some")
    pepsi.check("5.1.1" in text and "nobody@far.test" in text and "Remote-MTA: dns; a.far.test" in text, text)
    pepsi.check("some" not in b.tokens(), "a refusal for good went to the next exchanger")
    for token, rcpt, status in (("null", "x@null.test", "5.1.10"), ("self", "x@self.test", "5.4.6"), ("nowhere", "x@nowhere.far.test", "5.1.2")):
        net.accept(token, rcpt)
        text = report(net, token)
        pepsi.check("Status: " + status in text, text)
    a.down()
    b.down()
    net.accept("wait", "x@far.test")
    pepsi.wait_for("two attempts", lambda: [q for q in net.d.queue() if q["last_error"] and "refused" in q["last_error"]], 30)
    c = net.sink("127.9.0.22")
    arrives("wait", c)
    net.d.wait_empty()


def answered(t):
    """The first exchanger says no for now, and its session is over before the second one turns out to be of no use: the first one's words count."""
    net = Net(t, {"half.test": "@ IN MX 10 a\n@ IN MX 20 b\na IN A 127.9.0.41\nb IN A 127.9.0.42\n"}, "ADDRESS_HEALTH = NO\nSHAPE_1 = * backoff=1s..2s\n")
    a, b = net.sink("127.9.0.41"), net.sink("127.9.0.42")
    a.script = {"rcpt": "451 please come again another day"}

    def late(end):
        def play(_):
            time.sleep(0.5)  # meanwhile the first session has ended
            return end
        return play
    for token, script in (("drop", {"banner": late("drop")}), ("busy", {"banner": late("421 4.3.2 busy")}), ("mail", {"mail": late("drop")})):
        b.script = script
        net.accept(token, "x@half.test", "y@half.test")
        tries = b.connections
        pepsi.wait_for("two attempts of " + token, lambda: b.connections >= tries + 2, 30)
    pepsi.check([line for line in net.logged("deferred to=<x@half.test>") if "come again another day" in line], "the answer is not told of")
    pepsi.check(len(net.logged("event=start program=pepsi-stage-relay-to-internet")) <= 1, "a worker died")
    a.script = b.script = {}
    arrives("drop", a)
    arrives("mail", a)
    net.d.wait_empty()
    pepsi.check(len(net.d.worker_pids("init")) == 1, "more than one worker")


def tls(t):
    """STARTTLS where it is offered, whatever the certificate; and never without it where the operator says so."""
    ca = Authority(t)
    good, other = ca.issue("mx.safe.test", "DNS:mx.safe.test"), ca.issue("other.test", "DNS:other.test")
    net = Net(t, {"safe.test": one_zone("mx", "127.9.0.31"), "odd.test": one_zone("mx", "127.9.0.32"), "plain.test": one_zone("mx", "127.9.0.33"),
                  "must.test": one_zone("mx", "127.9.0.34"), "busy.test": one_zone("mx", "127.9.0.35"), "sure.test": "@ IN MX 10 mx.safe.test.\n",
                  "pinned.test": one_zone("mx", "127.9.0.37"), "doubt.test": one_zone("mx", "127.9.0.38"), "late.test": one_zone("mx", "127.9.0.39")},
              "TLS_CA_FILE = %s\nTLS_POLICY_1 = must.test *.must.test busy.test require\nTLS_POLICY_2 = sure.test doubt.test late.test verify\n"
              "TLS_POLICY_3 = pinned.test verify=x.test,other.test\n" % ca.cert)
    offer = ("PIPELINING", "8BITMIME", "STARTTLS")
    safe, odd = net.sink("127.9.0.31", tls=good, extensions=offer), net.sink("127.9.0.32", tls=other, extensions=offer)
    plain, must = net.sink("127.9.0.33"), net.sink("127.9.0.34")
    for domain, sink, says in (("safe.test", safe, 'verified=pkix'), ("odd.test", odd, 'verified=no'), ("plain.test", plain, 'tls=\\"\\"')):
        net.accept(domain, "x@" + domain)
        arrives(domain, sink)
        line = pepsi.wait_for("its line", lambda: net.logged("relayed to=<x@%s>" % domain))[0]
        pepsi.check(says in line or says.replace("\\", "") in line, line)
        pepsi.check(("TLSv1.3" in line) == (sink.tls is not None), line)
    net.accept("must", "x@must.test")
    pepsi.wait_for("it waits", lambda: [q for q in net.d.queue() if "TLS is a must" in (q["last_error"] or "")], 30)
    pepsi.check(not must.messages, "sent in plain text")
    # a certificate that the operator demands; and what is seen instead is told to whoever looks at the queue
    pinned = net.sink("127.9.0.37", tls=other, extensions=offer)
    for domain, sink in (("sure.test", safe), ("pinned.test", pinned)):
        net.accept(domain, "x@" + domain)
        arrives(domain, sink)
        line = pepsi.wait_for("its line", lambda: net.logged("relayed to=<x@%s>" % domain))[0]
        pepsi.check("verified=pkix" in line and "TLSv1.3" in line, line)
    late = ca.issue("mx.late.test", "DNS:mx.late.test", days=-1, file="late")
    for domain, address, pair, script, why in (
            ("busy.test", "127.9.0.35", good, {"starttls": "454 4.7.0 no TLS before noon"}, "the host refuses it: 454 4.7.0 no TLS before noon"),
            ("doubt.test", "127.9.0.38", other, {}, "which is demanded here: hostname mismatch"),
            ("late.test", "127.9.0.39", late, {}, "which is demanded here: certificate has expired")):
        s = scripted.Scripted(t, script, address=address, port=net.port, tls=pair)
        net.accept(domain, "x@" + domain)
        pepsi.wait_for("%s waits, and says why" % domain, lambda: [q for q in net.d.queue() if why in (q["last_error"] or "")], 30)
        pepsi.check(not s.messages and net.logged("deferred to=<x@%s>" % domain), "not deferred")


def inner(t):
    """What the DNS of strangers names is not connected to unless it is of the public Internet, or in ALLOW_NETWORKS: neither by MX nor by literal."""
    net = Net(t, {"lab.test": one_zone("mx", "127.9.0.51"), "self.test": one_zone("mx", "127.8.0.1"), "inner.test": one_zone("mx", "10.0.0.1"),
                  "cloud.test": one_zone("mx", "169.254.169.254"), "six.test": "@ IN MX 10 mx\nmx IN AAAA ::1\n", "mapped.test": "@ IN MX 10 mx\nmx IN AAAA ::ffff:127.8.0.1\n",
                  "both.test": "@ IN MX 10 a\n@ IN MX 20 b\na IN A 127.8.0.1\nb IN A 127.9.0.51\n"},
              "ALLOW_NETWORKS = 127.9.0.0/16\n", OPTIONS.replace("ALLOW_LOOPBACK = YES\n", ""))
    lab, secret, six = net.sink("127.9.0.51"), net.sink("127.8.0.1"), net.sink("::1")
    net.accept("lab", "x@lab.test")
    net.accept("both", "x@both.test")
    arrives("lab", lab)
    arrives("both", lab)
    for token, rcpt, why in (("self", "x@self.test", "loopback"), ("inner", "x@inner.test", "private"), ("cloud", "x@cloud.test", "link-local"), ("six", "x@six.test", "loopback"),
                             ("mapped", "x@mapped.test", "loopback"), ("literal", "x@[127.8.0.1]", "loopback"), ("literal6", "x@[IPv6:::1]", "loopback")):
        net.accept(token, rcpt)
        text = report(net, token)
        pepsi.check("Status: 5.4.4" in text and "ALLOW_NETWORKS" not in text, text)
        pepsi.check([x for x in net.logged("event=address-refused domain=%s" % rcpt.split("@")[1]) if 'why="%s"' % why in x and "hint=" in x], "not logged: " + token)
    pepsi.check(not secret.connections and not six.connections, "connected to an inner address")


def crowd(t):
    """300 messages for 30 domains over one worker, some hosts dead, some silent: the others' mail is not held up, and connections are used again."""
    zones = {"d%d.test" % i: one_zone("mx", "127.9.1.%d" % (i + 1)) for i in range(30)}
    net = Net(t, zones, "GREETING_TIMEOUT = 1 min\n")
    sinks = {i: net.sink("127.9.1.%d" % (i + 1)) for i in range(30) if i % 10 != 1}
    for i in (2, 12, 22):
        sinks[i].script = {"banner": "hang"}
    good = [i for i in sinks if i not in (2, 12, 22)]
    s = pepsi.Smtp(net.d.port)
    began = time.monotonic()
    for n in range(300):
        code, text = s.send("me@sender.test", "x@d%d.test" % (n % 30), pepsi.message("c%d" % n, sender="me@sender.test"))
        pepsi.check(code == 250, text)
    s.close()
    wanted = {i: {"c%d" % n for n in range(300) if n % 30 == i} for i in good}
    pepsi.wait_for("all mail for hosts that are well", lambda: all(wanted[i] <= set(sinks[i].tokens()) for i in good), 60, 0.1)
    took = time.monotonic() - began
    pepsi.check(all(len(sinks[i].tokens()) == 10 for i in good), "something came twice")
    connections = sum(sinks[i].connections for i in good)
    pepsi.check(len(net.d.worker_pids("init")) == 1, "more than one worker")
    pepsi.say("      %d messages to %d healthy hosts in %.1f s, %d connections; 3 hosts dead and 3 silent beside them" % (10 * len(good), len(good), took, connections))
    # it leaves although hosts say nothing, and what waits is there afterwards
    began, waits = time.monotonic(), {"c%d" % n for n in range(300) if n % 30 in (2, 12, 22)}
    net.d.stop(60)
    pepsi.check(time.monotonic() - began < 12 * pepsi.PATIENCE, "stopping took %.0f s" % (time.monotonic() - began))
    for i in (2, 12, 22):
        sinks[i].down()
        sinks[i].script = {}
        sinks[i].up()
    net.d.start()
    pepsi.wait_for("what waited", lambda: waits <= set(sinks[2].tokens() + sinks[12].tokens() + sinks[22].tokens()), 120, 0.2)
    pepsi.check(all(len(sinks[i].tokens()) == 10 for i in sinks), "something came twice")


pepsi.main(__file__, [domains, hosts, answered, tls, inner, crowd])
