"""Who mail from outside is from: SPF, DKIM, ARC and DMARC before the 250, with nsd as the authority and mail signed by dkimpy. Clients
come by XCLIENT, so that each has an address of its own. What every message was found to be is seen three times: in its fields, in
its state, and in the log."""
import json
import os
import re
import statistics
import threading
import time

import authority
import dnslab
import pepsi
import signer

US = "mx.example.test"
SEE = """#!/usr/bin/python3
import json, sys
head, _, rest = sys.stdin.buffer.read().partition(b"\\n")
with open(%r + "/" + str(json.loads(head)["id"]), "wb") as f:
    f.write(head)
json.dump({"action": "accept"}, sys.stdout)
"""
ZONE = """ns IN A 127.0.0.1
client IN A 192.0.2.9
client IN TXT "v=spf1 ip4:192.0.2.9 -all"
liar IN A 192.0.2.99
pass IN TXT "v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 -all"
_dmarc.pass IN TXT "v=DMARC1; p=reject; rua=mailto:d@pass.test"
www.pass IN A 192.0.2.80
quar IN TXT "v=spf1 -all"
_dmarc.quar IN TXT "v=DMARC1; p=quarantine"
none IN TXT "v=spf1 -all"
_dmarc.none IN TXT "v=DMARC1; p=none"
open IN TXT "v=spf1 ?all"
strict IN TXT "v=spf1 exp=why.%{d} -all"
why.strict IN TXT "%{c} is none of the hosts of %{d}" ", says %{r}: see http://strict.test/?s=%{S}"
www.org IN TXT "v=spf1 ?all"
_dmarc.www.org IN TXT "v=DMARC1; p=reject"
mail.org IN TXT "v=spf1 ip4:192.0.2.9 -all"
loop IN TXT "v=spf1 include:loop.test -all"
"""
REVERSE = """9 IN PTR client.test.
10 IN PTR liar.test.
"""


def nsd(t):
    zone = ZONE + "".join("%s._domainkey.%s IN TXT %s\n" % (s, d, authority.strings(signer.record(t, k))) for d, s, k in
                          (("pass", "s", "rsa2048"), ("pass", "e", "ed25519"), ("list", "l", "rsa2048"), ("stranger", "x", "rsa2048")))
    return authority.start(t, {"test": zone, "2.0.192.in-addr.arpa": REVERSE})


PSL = b"libpsl" in open(os.path.join(pepsi.BIN, "pepsid"), "rb").read()


class World:
    def __init__(self, t, servers, more="", mx=""):
        d = pepsi.Pepsid(t, "", start=False)
        self.d, self.seen = d, os.path.join(d.state, "seen")
        os.mkdir(self.seen)
        if pepsi.ROOT:
            os.chown(self.seen, pepsi.service_account().pw_uid, pepsi.service_account().pw_gid)
        command = os.path.join(d.state, "see")
        with open(command, "w") as f:
            f.write(SEE % self.seen)
        os.chmod(command, 0o755)
        suffixes = os.path.join(d.state, "suffixes.dat")
        with open(suffixes, "w") as f:
            f.write("// of the tests\ntest\n")
        self.ports = {n: pepsi.free_port() for n in ("enforce", "later", "lmtp", "off", "before")}
        listeners = "".join("[listener-%s]\nBIND = 127.0.0.1:%d\nXCLIENT_FROM = 127.0.0.1\n%s\n" % (n, self.ports[n], o) for n, o in (
            ("enforce", "SPF = enforce\nDKIM = enforce\nDMARC = enforce\nARC = enforce\nQUARANTINE_STAGE = aside\nARC_SEALERS = list.test\nRECEIVED_SPF = YES\n"),
            ("later", ("PUBLIC_SUFFIX_LIST = %s\n" % suffixes if PSL else "") + "SPF = enforce\nDMARC = enforce\nAUTHENTICATION_TEMPERROR = tempfail\nAUTHENTICATION_TIMEOUT = 3 s\n"),
            ("lmtp", "PROTOCOL = lmtp\nSPF = enforce\nDMARC = enforce\nDKIM = record\n"),
            ("off", "SPF = off\nDKIM = off\nARC = off\nDMARC = off\n"),
            ("before", "DMARC = enforce\nBEFORE_ACCEPT = judge\n")))
        sort = "[stage-%s]\nPROGRAM = pepsi-stage-if\nCONDITION = %s\nTHEN = %s\nELSE = %s\n"
        d.write_config(
            "[stage-init]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nINPUT = json\nNEXT_STAGE = maildir\nBOUNCE_STAGE = bounce\n" % command
            + "[stage-aside]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/aside/${local}\nBOUNCE_STAGE = bounce\n" % d.mail
            + sort % ("judge", "state auth.dmarc.result pass", "welcome", "maildir")
            + "[stage-welcome]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/welcome/${local}\nBOUNCE_STAGE = bounce\n" % d.mail
            + pepsi.maildir("maildir", d.mail) + pepsi.bounce(to="maildir"), listener="XCLIENT_FROM = 127.0.0.1\nREVERSE_DNS_WAIT = 5 s\n" + mx,
            more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 1 s\nLOOKUP_DEADLINE = 2 s\n%s\n%s" % (servers, more, listeners))
        d.start()
        self.n = 0

    def session(self, listener="mx", ip="192.0.2.9", helo="client.test"):
        s = pepsi.Smtp(self.d.port if listener == "mx" else self.ports[listener], ehlo=None)
        hello = "LHLO " if listener == "lmtp" else "EHLO "
        s.cmd(hello + "proxy.test")
        code, text = s.cmd("XCLIENT ADDR=%s" % ("IPV6:" + ip if ":" in ip else ip))
        pepsi.check(code == 220, "XCLIENT: %d %s" % (code, text))
        code, text = s.cmd(hello + helo)
        pepsi.check(code == 250, "EHLO: %d %s" % (code, text))
        return s

    def send(self, data, mail_from, listener="mx", ip="192.0.2.9", helo="client.test", rcpt="bob@example.test"):
        s = self.session(listener, ip, helo)
        try:
            return s.send(mail_from, rcpt, data)
        finally:
            s.close()

    def sent(self, data, mail_from, **kw):
        """Accepted, and looked at: (the delivered message, its state, its line of the log)."""
        code, text = self.send(data, mail_from, **kw)
        pepsi.check(code == 250, "%d %s" % (code, text))
        return self.found(re.search(r"queued as (\d+)", text).group(1))

    def found(self, number, folder=None):
        path = os.path.join(self.seen, number)
        where = os.path.join(self.d.mail, folder or "example.test", "bob", "new")

        def delivered():
            for name in os.listdir(where) if os.path.isdir(where) else ():
                with open(os.path.join(where, name), "rb") as f:
                    text = f.read()
                if b"id %s" % number.encode() in text.replace(b"\n\t", b" "):
                    return pepsi.crlf(text)
        mail = pepsi.wait_for("message %s is delivered" % number, delivered, 20)
        state = {}
        if not folder:
            with open(path) as f:
                state = json.load(f)["state"]
        with open(self.d.log) as f:
            lines = [l for l in f if "id=%s event=authenticated" % number in l]
        return mail, state, lines[0] if lines else ""


def mail(author="ann@pass.test", body="Hello\r\nworld\r\n", more="", token="x"):
    return ("From: Ann <%s>\r\nTo: bob@example.test\r\nSubject: test\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\nMessage-ID: <%s@pass.test>\r\n"
            "X-Token: %s\r\n%s\r\n%s" % (author, token, token, more, body)).encode()


def results(message):
    """Our Authentication-Results, unfolded."""
    head = message.partition(b"\r\n\r\n")[0].replace(b"\r\n\t", b" ").replace(b"\r\n ", b" ").decode("latin-1")
    return [l.partition(":")[2].strip() for l in head.split("\r\n") if l.lower().startswith("authentication-results:") and US in l]


def expect(message, *wanted):
    found = results(message)
    pepsi.check(len(found) == 1, "%d fields of ours: %s" % (len(found), found))
    for w in wanted:
        pepsi.check(w in found[0], "no %r in %s" % (w, found[0]))


def what_is_recorded(t):
    w = World(t, nsd(t))
    # no message waits for the name of a client that came by XCLIENT: with the answers in the cache it is known in time
    for name, kind in (("9.2.0.192.in-addr.arpa", "PTR"), ("client.test", "A"), ("10.2.0.192.in-addr.arpa", "PTR"), ("liar.test", "A")):
        code, out, err = w.d.cli("dns", name, kind)
        pepsi.check(code == 0, "%s %s: %d %s%s" % (name, kind, code, out, err))
    signed = signer.sign(t, mail(), [("dkim", "pass.test", "s", "rsa2048"), ("dkim", "pass.test", "e", "ed25519")])
    got, state, line = w.sent(signed, "ann@pass.test")
    expect(got, "iprev=pass (client.test) policy.iprev=192.0.2.9", "spf=pass (ip4:192.0.2.9 in the record of client.test) smtp.helo=client.test",
           "smtp.mailfrom=ann@pass.test", "dkim=pass (2048-bit key) header.d=pass.test", "header.a=ed25519-sha256", "arc=none",
           "dmarc=pass (p=reject dis=none) header.from=pass.test")
    pepsi.check(got.index(b"Received:") < got.index(b"Authentication-Results:") < got.index(b"DKIM-Signature:"), "the order of fields: %r" % got[:2000])
    pepsi.check(got.endswith(signed), "the message was changed")
    auth = state["auth"]
    pepsi.check([s["result"] for s in auth["spf"]] == ["pass", "pass"] and auth["spf"][0]["domain"] == "pass.test", auth)
    pepsi.check([(s["result"], s["domain"], s["aligned"]) for s in auth["dkim"]] == [("pass", "pass.test", True)] * 2, auth)
    pepsi.check(auth["dmarc"]["result"] == "pass" and auth["dmarc"]["published"]["p"] == "reject", auth)
    pepsi.check(state["origin"]["iprev"] == "pass", state)
    for word in ("spf=pass", "dkim=pass", "dmarc=pass", "arc=none", "us=", "queries="):
        pepsi.check(word in line, "no %s in %s" % (word, line))
    # what fails is recorded, not refused
    got, state, _ = w.sent(mail(), "ann@pass.test", ip="198.51.100.7")
    expect(got, "spf=fail", "dkim=none", "dmarc=fail (p=reject dis=none)")
    pepsi.check(state["auth"]["dmarc"]["disposition"] == "reject" and state["auth"]["dmarc"]["applied"] == "none" and "quarantine" not in state["auth"], state)
    got, _, _ = w.sent(signed + b"more\r\n", "ann@pass.test", ip="2001:db8::1")
    expect(got, "dkim=fail (2048-bit key) reason=\"the body is not what was signed\"", "spf=pass", "dmarc=pass")
    got, _, _ = w.sent(mail(), "", helo="client.test")
    expect(got, "spf=pass (ip4:192.0.2.9 in the record of client.test) smtp.helo=client.test", "dmarc=fail")
    # several authors, forged results
    forged = "".join("Authentication-Results: %s; spf=pass smtp.mailfrom=x@bank.test\r\n" % n for n in (US, US.upper() + " 1", "\"%s\"" % US, "other.test"))
    got, state, _ = w.sent(mail("a@none.test>, <b@pass.test", more=forged), "x@open.test", ip="192.0.2.10")
    expect(got, "dmarc=fail", "header.from=none.test", "header.from=pass.test", "iprev=fail")
    pepsi.check(state["auth"]["dmarc"]["domains"] == ["none.test", "pass.test"] and state["auth"]["dmarc"]["disposition"] == "reject", state)
    pepsi.check(b"x@bank.test" in got and got.count(b"x@bank.test") == 1 and b"other.test; spf=pass" in got, "forged ones: %r" % got)
    # a first line that begins with a blank would continue the field that we put in front of it: it is body, and all behind it
    for lead in (" ; dmarc=pass header.from=bank.test\r\n", "\t\r\n ; dmarc=pass header.from=bank.test\r\n"):
        for how in ("enforce", "off"):
            text = lead.encode() + mail("a@open.test", token="blank")
            got, _, _ = w.sent(text, "a@open.test", listener=how)
            pepsi.check(got.endswith(b"\r\n\r\n" + text) and not any("bank.test" in r for r in results(got)), "a blank at the front: %r" % got)
    # clients of ours are let alone, and who is not looked at at all has no say either
    code, text = w.d.send("ann@pass.test", "bob@example.test", mail(more=forged, token="own"))
    pepsi.check(code == 250, text)
    got, state, line = w.found(re.search(r"queued as (\d+)", text).group(1))
    pepsi.check(got.count(b"x@bank.test") == 4 and "auth" not in state and not line, "our own client: %r %s" % (got, state))
    got, state, line = w.sent(mail(more=forged), "ann@pass.test", listener="off")
    pepsi.check(got.count(b"x@bank.test") == 1 and not results(got) and "auth" not in state and not line, "off: %r" % got)
    m = w.d.metrics()
    pepsi.check(m['pepsi_authentication_total{method="dmarc",result="pass"}'] == 2 and m["pepsi_authentication_forged_total"] == 6
                and m["pepsi_authentication_messages_total"] == 7, {k: v for k, v in m.items() if "authentication" in k})
    code, out, _ = w.d.cli("status")
    pepsi.check(re.search(r"(?m)^authors +messages 7, passed 7", out), out)
    w.d.stop()


def what_is_enforced(t):
    w = World(t, nsd(t))
    signed = signer.sign(t, mail(), [("dkim", "pass.test", "s", "rsa2048")])
    cases = (
        ("SPF fails", mail("a@open.test"), "a@pass.test", "198.51.100.7", 550, "5.7.23"),
        ("SPF fails, with words", mail("a@open.test"), "a@strict.test", "198.51.100.7", 550, "that domain; the domain strict.test explains: "
         "198.51.100.7 is none of the hosts of strict.test, says mx.example.test: see http://strict.test/?s=a%40strict.test"),
        ("SPF of HELO fails", mail("a@open.test"), "", "192.0.2.77", 550, "5.7.23"),
        ("DMARC rejects", mail(), "a@open.test", "198.51.100.7", 550, "5.7.26"),
        ("a subdomain", mail("a@www.pass.test"), "a@open.test", "198.51.100.7", 550, "5.7.26"),
        ("a broken body", signed + b"x\r\n", "a@open.test", "198.51.100.7", 550, "5.7.26"),
        ("several authors", mail("a@none.test>, <b@pass.test"), "a@open.test", "198.51.100.7", 550, "5.7.26"),
        ("no From at all", b"Subject: x\r\n\r\nx\r\n", "a@open.test", "192.0.2.9", 250, "queued"),
        ("SPF fails but it is signed", signed, "a@strict.test", "198.51.100.7", 250, "queued"),
        ("nothing is known", mail("a@open.test"), "a@open.test", "192.0.2.9", 250, "queued"),
        ("p=none", mail("a@none.test"), "a@open.test", "192.0.2.9", 250, "queued"),
        ("an SPF loop", mail("a@open.test"), "a@loop.test", "192.0.2.9", 250, "queued"),
        ("a DKIM signature that fails", signer.sign(t, mail("a@open.test"), [("dkim", "pass.test", "s", "rsa2048")]) + b"x\r\n", "a@open.test", "192.0.2.9",
         550, "5.7.20"),
    )
    for what, data, sender, ip, code, word in cases:
        helo = "client.test" if ip != "198.51.100.7" else "nobody.test"
        got = w.send(data, sender, "enforce", ip, helo)
        pepsi.check(got[0] == code and word in got[1], "%s: %d %s" % (what, got[0], got[1]))
    # siblings of one public suffix: by the tree walk two organizations, by a list one
    beside = (mail("a@www.org.test"), "a@mail.org.test")
    code, text = w.send(*beside, "enforce")
    pepsi.check(code == 550 and "5.7.26" in text, "by the tree walk: %d %s" % (code, text))
    if PSL:
        got, state, _ = w.sent(*beside, listener="later")
        expect(got, "dmarc=pass")
        pepsi.check(state["auth"]["dmarc"]["discovery"] == "psl" and state["auth"]["dmarc"]["spf_aligned"], state)
        got, state, _ = w.sent(mail(), "a@pass.test", listener="later")
        pepsi.check(state["auth"]["dmarc"]["result"] == "pass", state)
    # quarantine: another beginning, and the state says it where there is none
    code, text = w.send(mail("a@quar.test"), "a@open.test", "enforce")
    pepsi.check(code == 250, text)
    got, _, line = w.found(re.search(r"queued as (\d+)", text).group(1), "aside")
    expect(got, "dmarc=fail (p=quarantine dis=quarantine)")
    pepsi.check("quarantine=1" in line, line)
    # ARC: a list changed the message; its seal is on the list, the stranger's is not
    arc = signer.sign(t, mail(body="changed\r\n"), [("arc", "list.test", "l", "rsa2048", "dmarc=pass header.from=pass.test")])
    got, state, _ = w.sent(arc, "list@open.test", listener="enforce", ip="198.51.100.7", helo="nobody.test")
    pepsi.check(b"Received-SPF: neutral (mx.example.test: ?all" in got.replace(b"\r\n\t", b" "), "Received-SPF: %r" % got[:1500])
    expect(got, "arc=pass (i=1)", "dmarc=fail (p=reject dis=none arc=override)")
    pepsi.check(state["auth"]["dmarc"]["override"]["comment"] == "arc=pass as[1].d=list.test as[1].s=l", state)
    arc = signer.sign(t, mail(body="changed\r\n"), [("arc", "stranger.test", "x", "rsa2048", "dmarc=pass header.from=pass.test")])
    code, text = w.send(arc, "list@open.test", "enforce", "198.51.100.7", "nobody.test")
    pepsi.check(code == 550 and "5.7.26" in text, "a stranger's seal: %d %s" % (code, text))
    broken = signer.sign(t, mail("a@open.test"), [("arc", "list.test", "l", "rsa2048", "spf=pass")]) + b"x\r\n"
    code, text = w.send(broken, "list@open.test", "enforce")
    pepsi.check(code == 550 and "5.7.29" in text, "a broken chain: %d %s" % (code, text))
    # one refusal ends nothing: the session goes on, and BDAT is as DATA
    s = w.session("enforce", "198.51.100.7", "nobody.test")
    pepsi.check(s.send("a@open.test", "bob@example.test", mail())[0] == 550, "refused")
    for data, code in ((mail(), 550), (signed, 250)):
        pepsi.check(s.cmd("MAIL FROM:<a@open.test>")[0] == 250 and s.cmd("RCPT TO:<bob@example.test>")[0] == 250, "envelope")
        for i in range(0, len(data), 100):
            part = data[i:i + 100]
            s.raw(b"BDAT %d%s\r\n" % (len(part), b" LAST" if i + 100 >= len(data) else b"") + part)
            got = s.reply()
        pepsi.check(got[0] == code, "BDAT: %d %s" % got)
    s.close()
    # LMTP: an answer for each recipient
    for data, code in ((mail(), 550), (signed, 250)):
        s = w.session("lmtp", "198.51.100.7", "nobody.test")
        first = s.send("a@open.test", ["bob@example.test", "carol@example.test"], data)
        second = s.reply()
        pepsi.check(first[0] == code and second[0] == code, "LMTP: %s %s" % (first, second))
        s.close()
    # a stage before acceptance sees the verdict
    for data, folder in ((signed, "welcome"), (mail("a@open.test"), "example.test")):
        code, text = w.send(data, "a@open.test", "before")
        pepsi.check(code == 250, text)
        w.found(re.search(r"queued as (\d+)", text).group(1), folder if folder == "welcome" else "example.test")
    m = w.d.metrics()
    pepsi.check(m['pepsi_authentication_refused_total{method="spf"}'] == 3 and m['pepsi_smtp_rejected_total{reason="dmarc"}'] == 9
                and m["pepsi_authentication_overridden_total"] == 1 and m["pepsi_authentication_quarantined_total"] == 1,
                {k: v for k, v in m.items() if "authentication" in k or "rejected" in k})
    w.d.stop()


def however_it_is_cut(t):
    """Refused unless its signature holds: in two pieces, cut at every place where headers and body could be confused."""
    w = World(t, nsd(t))
    signed = signer.sign(t, mail(body=".\r\n..dots\r\n\r\nlast\r\n"), [("dkim", "pass.test", "s", "rsa2048")])
    end = signed.index(b"\r\n\r\n")
    s = w.session("enforce", "198.51.100.7", "nobody.test")
    for cut in sorted(set(range(0, len(signed), 97)) | set(range(end - 3, end + 9)) | {len(signed)}):
        pieces = [signed[:cut], signed[cut:]]
        s.raw(b"MAIL FROM:<a@open.test>\r\nRCPT TO:<bob@example.test>\r\n" + b"BDAT %d\r\n" % len(pieces[0]) + pieces[0]
              + b"BDAT %d LAST\r\n" % len(pieces[1]) + pieces[1])
        got = [s.reply() for _ in range(4)]
        pepsi.check(got[3][0] == 250, "cut at %d of %d: %s" % (cut, end, got))
    got = s.send("a@open.test", "bob@example.test", signed)
    pepsi.check(got[0] == 250, "with dots: %d %s" % got)
    s.close()
    # a large body, which does not stay in memory; and messages that are all header, or have none
    large = signer.sign(t, mail(body="all work and no play\r\n" * 20000), [("dkim", "pass.test", "s", "rsa2048")])
    for data, ip, code in ((large, "198.51.100.7", 250), (large[:-3] + b"!\r\n", "198.51.100.7", 550),
                           (mail("a@pass.test").partition(b"\r\n\r\n")[0] + b"\r\n", "198.51.100.7", 550),
                           (b"no header at all\r\n", "192.0.2.9", 250)):
        got = w.send(data, "a@open.test", "enforce", ip, "nobody.test" if ip != "192.0.2.9" else "client.test")
        pepsi.check(got[0] == code, "%r: %d %s" % (data[-30:], got[0], got[1]))
    w.d.stop()


def when_the_dns_is_silent(t):
    lab = dnslab.Lab({"slow.test": {"DO": "silent"}, "*.slow.test": {"DO": "silent"}, "client.test": {"TXT": ["v=spf1 -all"]}})
    t.cleanup(lab.close)
    w = World(t, lab.server)
    begun = time.monotonic()
    code, text = w.send(mail("a@slow.test"), "a@slow.test", "later")
    took = time.monotonic() - begun
    pepsi.check(code == 451 and "4.7.0" in text and took < 9 * pepsi.PATIENCE, "tempfail: %d %s after %.1f s" % (code, text, took))
    # who waits for the DNS waits alone
    waiting = [w.session() for _ in range(20)]
    answers = []

    def slow(s, i):
        answers.append(s.send("a@x%d.slow.test" % i, "bob@example.test", mail("a@y%d.slow.test" % i)))
    threads = [threading.Thread(target=slow, args=(s, i)) for i, s in enumerate(waiting)]
    for x in threads:
        x.start()
    times = []
    plain = pepsi.Smtp(w.d.port)
    while any(x.is_alive() for x in threads) and len(times) < 400:
        begun = time.monotonic()
        code, text = plain.send("sender@example.test", "bob@example.test", pepsi.message("beside"))
        times.append(time.monotonic() - begun)
        pepsi.check(code == 250, text)
    for x in threads:
        x.join()
    pepsi.check([a[0] for a in answers] == [250] * 20, answers)
    pepsi.check(len(times) > 10 and statistics.median(times) < 0.05 * pepsi.SLACK, "beside them: %s" % sorted(times)[-5:])
    got, state, _ = w.found(re.search(r"queued as (\d+)", answers[0][1]).group(1))
    expect(got, "spf=temperror", "dmarc=temperror")
    pepsi.check(state["auth"]["dmarc"]["result"] == "temperror", state)
    # a client that leaves takes its message along; one that resets asks anew
    before = w.d.status()["accepted"]
    s = w.session("later")
    s.envelope("a@slow.test", "bob@example.test")
    s.raw(mail("a@slow.test") + b".\r\n")
    s.sock.close()
    s.file.close()
    s = w.session()
    s.cmd("MAIL FROM:<a@slow.test>")
    s.cmd("RCPT TO:<bob@example.test>")
    s.cmd("RSET")
    pepsi.check(s.send("", "bob@example.test", mail("a@other.test"))[0] == 250, "after RSET")
    s.close()
    time.sleep(0.5)
    pepsi.check(w.d.status()["accepted"] == before + 1, "accepted: %s, before %s" % (w.d.status()["accepted"], before))
    # questions are counted: a hundred look-ups are none
    zone = {"big.test": {"TXT": ["v=spf1 " + " ".join("a:a%d.big.test" % i for i in range(10)) + " -all"]}}
    zone.update({"a%d.big.test" % i: {"MX": ["10 m.big.test"], "A": ["203.0.113.%d" % i]} for i in range(10)})
    lab.zone.update(zone)
    lab.asked.clear()
    many = "".join("DKIM-Signature: v=1; a=rsa-sha256; d=d%d.test; s=s; h=from; bh=AAAA; b=AAAA\r\n" % i for i in range(60))
    w.sent(mail("a@a.b.c.d.e.f.g.h.i.j.k.test", more=many), "a@big.test", helo="big.test")
    pepsi.check(lab.count() <= 45, "%d questions" % lab.count())  # 40, and those of iprev
    w.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [what_is_recorded, what_is_enforced, however_it_is_cut, when_the_dns_is_silent])
