"""Delivery to mail exchangers over the real daemon: nsd as the DNS, exchangers on loopback addresses. Which host, what when it fails, what goes
back to the sender, TLS, many messages at once beside hosts that are dead or say nothing."""
import os
import re
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
        self.authority = {}
        self.dns = authority.start(t, self.zones, self.authority)
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
                  "ring.test": one_zone("mx", "127.9.0.24"), "twin.test": "@ IN MX 10 mx.ring.test.\n@ IN MX 20 b.far.test.\n",
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
    # who answers by our name is ourselves: another exchanger takes it, or it goes back
    ring = net.sink("127.9.0.24")
    ring.script = {"ehlo": "250 MX.example.test"}
    net.accept("twin", "x@twin.test")
    arrives("twin", b)
    net.accept("ring", "x@ring.test")
    text = report(net, "ring")
    pepsi.check("Status: 5.4.6" in text and "loops back to ourselves" in text and not ring.messages, text)
    net.d.counts(2, "loops_total")
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
    # an attempt that is under way may have heard the first one's answer already: then the second one has the message
    for token in ("drop", "busy", "mail"):
        pepsi.wait_for("%s at one of both" % token, lambda token=token: (a.tokens() + b.tokens()).count(token) == 1, 60)
    net.d.wait_empty()
    pepsi.check(len(net.d.worker_pids("init")) == 1, "more than one worker")


def tls(t):
    """STARTTLS where it is offered, whatever the certificate; and never without it where the operator says so."""
    ca = Authority(t)
    good, other = ca.issue("mx.safe.test", "DNS:mx.safe.test"), ca.issue("other.test", "DNS:other.test")
    net = Net(t, {"safe.test": one_zone("mx", "127.9.0.31"), "odd.test": one_zone("mx", "127.9.0.32"), "plain.test": one_zone("mx", "127.9.0.33"),
                  "must.test": one_zone("mx", "127.9.0.34"), "busy.test": one_zone("mx", "127.9.0.35"), "sure.test": "@ IN MX 10 mx.safe.test.\n",
                  "pinned.test": one_zone("mx", "127.9.0.37"), "doubt.test": one_zone("mx", "127.9.0.38"), "late.test": one_zone("mx", "127.9.0.39")},
              "TLS_CA_FILE = %s\nSHAPE_1 = * backoff=2s..4s\nTLS_POLICY_1 = must.test *.must.test busy.test require\nTLS_POLICY_2 = sure.test doubt.test late.test verify\n"
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
    # after the third time such a domain is left alone, and whoever looks sees it, until it is safe again
    bad = ["busy.test", "doubt.test", "late.test", "must.test"]

    def unsafe():
        return {r["destination"]: r for r in net.d.json("queue", "destinations") if r["state"] == "unsafe"}
    rows = pepsi.wait_for("they are told of", lambda: sorted(unsafe()) == bad and unsafe(), 60, 0.5)
    pepsi.check(all(r["trouble"] == "tls" and r["failed"] >= 3 for r in rows.values()) and "expired" in rows["late.test"]["error"], rows)
    net.d.counts(4, "destinations", state="unsafe")
    code, out, err = net.d.cli("queue", "destinations", "--limit", "4")
    pepsi.check(code == 0 and [line.split()[2] for line in out.splitlines()[1:]] == ["unsafe"] * 4, out + err)
    must.down()
    now_safe = net.sink("127.9.0.34", tls=ca.issue("mx.must.test", "DNS:mx.must.test"), extensions=offer)
    arrives("must", now_safe, seconds=60)
    pepsi.check(net.logged("event=domain-safe domain=must.test"), "nobody was told")
    pepsi.wait_for("it is told of no longer", lambda: "must.test" not in unsafe(), 60, 0.5)


def each(t):
    """Of three recipients of one row one is delivered, one put off, one refused: each has his own outcome, and the next attempt is for whom it is due, and
    for nobody else. What senders ask for by DSN goes along, for each his own, where the host offers it, and is answered by us where it does not."""
    net = Net(t, {"each.test": one_zone("mx", "127.9.0.61"), "old.test": one_zone("mx", "127.9.0.62"), "room.test": one_zone("mx", "127.9.0.63")},
              "ADDRESS_HEALTH = NO\nSHAPE_1 = * backoff=1s..2s\n")
    a = net.sink("127.9.0.61")
    a.script = {"rcpt": lambda line: "450 4.2.1 later" if "later@" in line and len(a.messages) < 1 else "550 5.1.1 nobody" if "nobody@" in line else None}
    s = pepsi.Smtp(net.d.port)
    for line in ("MAIL FROM:<me@sender.test> RET=HDRS ENVID=each1", "RCPT TO:<good@each.test> NOTIFY=SUCCESS ORCPT=rfc822;one@each.test",
                 "RCPT TO:<later@each.test> NOTIFY=FAILURE,DELAY", "RCPT TO:<nobody@each.test> NOTIFY=FAILURE ORCPT=rfc822;three@each.test"):
        pepsi.check(s.cmd(line)[0] == 250, line)
    pepsi.check(s.cmd("DATA")[0] == 354, "DATA")
    s.raw(pepsi.message("each", sender="me@sender.test") + b".\r\n")
    pepsi.check(s.reply()[0] == 250, "not accepted")
    s.close()
    pepsi.wait_for("both copies", lambda: a.tokens().count("each") == 2, 30)
    text = report(net, "each")
    pepsi.check("Final-Recipient: rfc822; nobody@each.test" in text and "Original-Recipient: rfc822;three@each.test" in text.replace("rfc822; three", "rfc822;three") and "Original-Envelope-Id: each1" in text, text)
    net.d.wait_empty()
    first, second = [m for m in a.messages if m.token == "each"]
    pepsi.check([r[0] for r in first.rcpts] == ["good@each.test"] and [r[0] for r in second.rcpts] == ["later@each.test"], "%s, %s" % (first.rcpts, second.rcpts))
    pepsi.check("NOTIFY=SUCCESS" in first.rcpts[0][1] and "ORCPT=rfc822;one@each.test" in first.rcpts[0][1], "%s" % first.rcpts)
    pepsi.check("NOTIFY=FAILURE,DELAY" in second.rcpts[0][1] and "ORCPT" not in second.rcpts[0][1], "%s" % second.rcpts)
    pepsi.check(all("ENVID=each1" in m.mail_params and "RET=HDRS" in m.mail_params for m in (first, second)), "MAIL parameters")
    pepsi.check(len(net.back.messages) == 1, "reports: %s" % [m.data[:600] for m in net.back.messages])  # none about good@: that is the host's duty now
    # a host without DSN is told nothing, and the sender hears from us
    b = net.sink("127.9.0.62", extensions=("PIPELINING", "8BITMIME"))
    net.d.accept("me@sender.test", ["x@old.test"], pepsi.message("old", sender="me@sender.test"), params="RET=HDRS ENVID=old1", rcpt_params="NOTIFY=SUCCESS")
    arrives("old", b)
    pepsi.check("ENVID" not in b.messages[0].mail_params and not b.messages[0].rcpts[0][1], "%s %s" % (b.messages[0].mail_params, b.messages[0].rcpts))
    text = report(net, "old")
    pepsi.check("Action: relayed" in text and "x@old.test" in text, text)
    # so many in a transaction as it takes: by LIMITS, and by 452
    c = net.sink("127.9.0.63", extensions=("PIPELINING", "8BITMIME", "LIMITS RCPTMAX=2"))
    net.accept("limits", *["r%d@room.test" % i for i in range(5)])
    pepsi.wait_for("three transactions", lambda: c.tokens().count("limits") == 3, 30)
    net.d.wait_empty()
    sizes = [len(m.rcpts) for m in c.messages]
    pepsi.check(sorted(sizes) == [1, 2, 2] and len({r[0] for m in c.messages for r in m.rcpts}) == 5, "%s" % sizes)
    c.extensions, taken = ["PIPELINING"], []
    c.script = {"mail": lambda line: taken.clear(), "rcpt": lambda line: "452 4.5.3 too many" if len(taken) == 2 else taken.append(line)}
    net.accept("rooms", *["r%d@room.test" % i for i in range(5)])
    pepsi.wait_for("three more", lambda: c.tokens().count("rooms") == 3, 30)
    net.d.wait_empty()
    pepsi.check(sorted(r[0] for m in c.messages if m.token == "rooms" for r in m.rcpts) == ["r%d@room.test" % i for i in range(5)], "not each once")


def moves(t):
    """Exchangers that moved are found as soon as none of the known addresses answers, however long the old records are valid; IPv6 first, IPv4 where
    nobody is there; and each address that fails is left alone by itself."""
    zone = "@ 86400 IN MX 10 mx\nmx 86400 IN A 127.9.0.%d\n"
    net = Net(t, {"moves.test": zone % 71, "six.test": "@ IN MX 10 mx\nmx IN AAAA ::1\n", "both.test": "@ IN MX 10 mx\nmx IN AAAA ::1\nmx IN A 127.9.0.73\n"},
              "SHAPE_1 = * backoff=1s..2s\n")
    net.accept("moves", "x@moves.test")
    pepsi.wait_for("nobody is there", lambda: net.logged("deferred to=<x@moves.test>"), 30)
    new = net.sink("127.9.0.72")
    authority.change(net.authority, "moves.test", zone % 72)
    pepsi.wait_for("its new address", lambda: "moves" in new.tokens() or (net.d.cli("queue", "retry", "--all") and False), 60 * pepsi.PATIENCE, 1)
    arrives("moves", new)
    pepsi.check(net.logged("event=asked-anew domain=moves.test"), "how?")
    four, six = net.sink("127.9.0.73"), net.sink("::1")
    for token, rcpt in (("six", "x@six.test"), ("first", "x@both.test")):
        net.accept(token, rcpt)
        arrives(token, six)
    line = net.logged("relayed to=<x@six.test>")[0]
    pepsi.check("ip=::1 " in line and "from=::1 " in line, line)
    net.d.wait_empty()
    six.down()
    net.accept("then", "y@both.test")
    arrives("then", four)
    pepsi.check(net.logged("event=address-ill address=::1"), "not told")


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


def looked_at(t):
    """What an operator sees: what is counted, and where mail goes, worst first."""
    ca = Authority(t)
    good = ca.issue("mx.safe.test", "DNS:mx.safe.test")
    net = Net(t, {"safe.test": one_zone("mx", "127.9.0.61"), "plain.test": one_zone("mx", "127.9.0.62"), "dead.test": one_zone("mx", "127.9.0.63"),
                  "no.test": one_zone("mx", "127.9.0.64"), "cut.test": one_zone("mx", "127.9.0.65")},
              "TLS_CA_FILE = %s\nADDRESS_HEALTH = NO\nSHAPE_1 = * backoff=60s..90s\n" % ca.cert)
    safe = net.sink("127.9.0.61", tls=good, extensions=("PIPELINING", "8BITMIME", "STARTTLS"))
    plain, no, cut = net.sink("127.9.0.62"), net.sink("127.9.0.64"), net.sink("127.9.0.65")
    no.script = {"rcpt": "550 5.1.1 nobody"}
    cut.script = {"eod": "drop"}
    net.accept("safe", "x@safe.test")
    arrives("safe", safe)
    for i in range(3):
        net.accept("plain%d" % i, "x@plain.test")
        arrives("plain%d" % i, plain)
    net.accept("no", "x@no.test")
    report(net, "no")
    net.accept("cut", "x@cut.test")
    for i in range(5):
        net.accept("dead%d" % i, "x@dead.test")
    module = net.d.module
    # with the report to the sender of what was refused
    pepsi.wait_for("deliveries", lambda: module("deliveries_total", result="delivered") == 5, 30)
    pepsi.check(module("delivery_seconds_count") == 5 and module("deliveries_total", result="failed") == 1, "deliveries")
    pepsi.wait_for("deferrals", lambda: module("deliveries_total", result="deferred") >= 2, 30)
    pepsi.wait_for("what may have arrived", lambda: module("maybe_delivered_total") >= 1, 30)
    pepsi.check(module("sessions_tls_total", safety="pkix") == 1, "sessions_tls: %s" % [kv for kv in net.d.metrics().items() if "sessions" in kv[0]])
    pepsi.check(module("sessions_tls_total", safety="plain") >= 4 and module("sessions_tls_total", safety="refused") == 0, "plain sessions")
    pepsi.check(module("sessions_total", how="reused") == 2 and module("sessions_total", how="failed") >= 1, "sessions: %s" % [kv for kv in net.d.metrics().items() if "sessions" in kv[0]])
    pepsi.wait_for("the dead one, and the one that hangs up, are left alone", lambda: module("destinations", state="backoff") == 2, 30)
    pepsi.check(not [k for k in net.d.metrics() if ".test" in k], "a domain is a label")

    def rows(*args):
        return net.d.json("queue", "destinations", *args)
    # the report has its own pace
    pepsi.wait_for("the report", lambda: {r["destination"] for r in rows() if r["state"] == "backoff"} == {"mx.dead.test", "mx.cut.test"}, 30)
    dead = [r for r in rows() if r["destination"] == "mx.dead.test"][0]
    pepsi.check({r["destination"] for r in rows()[:2]} == {"mx.dead.test", "mx.cut.test"}, "not worst first: %s" % rows())
    pepsi.check(0 < dead["backoff_ms"] <= 90000 and dead["trouble"] == "unreachable" and "refused" in dead["error"] and dead["stage"] == "init" and dead["failed"] >= 1, "%s" % dead)
    names = {r["destination"]: r for r in rows()}
    pepsi.check(names["mx.plain.test"]["sent"] == 3 and names["mx.plain.test"]["state"] == "good" and names["mx.no.test"]["refused"] == 1, "%s" % names)
    pepsi.check("mx.plain.test" in [r["destination"] for r in rows("PLAIN.test")] and {r["destination"] for r in rows("mx.*ea*.test")} == {"mx.dead.test"}, "patterns")
    pepsi.check({r["destination"] for r in rows("test")} == set(names) and not rows("est") and not rows("--stage", "bounce") and len(rows("--limit", "2")) == 2, "patterns")
    code, out, err = net.d.cli("queue", "destinations")
    pepsi.check(code == 0 and out.splitlines()[0].split()[:3] == ["DESTINATION", "STAGE", "STATE"] and re.match(r"mx\.(dead|cut)\.test +init +backoff ", out.splitlines()[1]), out + err)
    code, out, err = net.d.cli("queue", "destinations", "nowhere.test")
    pepsi.check(code == 0 and "no worker knows such a destination" in out, out + err)
    code, out, err = net.d.cli("status")
    pepsi.check(code == 0 and "deliveries delivered 5" in out and "backoff 2" in out, out)
    net.d.cli("queue", "delete", "--all")


if __name__ == "__main__":
    pepsi.main(__file__, [domains, hosts, answered, tls, each, moves, inner, crowd, looked_at])
