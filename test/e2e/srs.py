"""pepsi-stage-srs: mail of a p=reject domain that we forward passes DKIM and SPF at the next hop, and its bounce comes home; chains of two forwarders; what is
forged, expired or no bounce is refused at RCPT; caps, keys that change, senders that do not fit. Return addresses are made by a second implementation, too."""
import base64
import hmac
import json
import os
import re
import time

import dnslab
import pepsi
import signer
from signing import DKIMPY, owned, run_json

SRS = "srs.home.test"
# pyspf over a zone: [{name: {type: [texts]}}, [[ip, helo, sender], …]] → [result, …]; names are asked for nowhere else
PYSPF = """import json, sys, spf
zone, questions = json.load(sys.stdin)
def look(name, kind, *_):
    found = zone.get(name.lower().rstrip("."), {}).get(kind, [])
    return [((name, kind), (text.encode(),) if kind == "TXT" else text) for text in found]
spf.DNSLookup = look
print(json.dumps([spf.query(i=i, s=s, h=h, strict=True).check()[0] for i, h, s in questions]))"""
BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def zone(t):
    return dnslab.Lab({
        "author.test": {"TXT": ["v=spf1 ip4:127.0.0.9 -all"]},
        "_dmarc.author.test": {"TXT": ["v=DMARC1; p=reject"]},
        "s._domainkey.author.test": {"TXT": [signer.record(t, "rsa2048")]},
        SRS: {"TXT": ["v=spf1 ip4:127.0.0.1 -all"], "MX": ["10 mx.home.test"]},
        "srs.second.test": {"TXT": ["v=spf1 ip4:127.0.0.1 -all"]},
    })


def section(domain, keys, more=""):
    return ("[stage-srs]\nPROGRAM = pepsi-stage-srs\nDOMAIN = %s\nKEY_DIR = %s\nNEXT_STAGE = route\nBOUNCE_STAGE = bounce\n%s\n"
            "[domain-%s]\nRECIPIENTS = stage:srs\n" % (domain, keys, more, domain))


class Site:
    """A forwarder: aliases → srs → route → sinks. Strangers come from 127.0.0.9."""

    def __init__(self, t, lab, home, srs, aliases, routes, more="", add=True):
        self.t, self.srs = t, srs
        self.folder = os.path.join(t.dir, "site%d" % t.next_number())
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o755)
        self.aliases = os.path.join(self.folder, "aliases")
        with open(self.aliases, "w") as f:
            f.write(aliases)
        self.keys = os.path.join(t.dir, "srs%d" % t.next_number())
        stages = "[stage-init]\nPROGRAM = pepsi-stage-aliases\nFILE = %s\nNEXT_STAGE = srs\n" % self.aliases + section(srs, self.keys, more)
        stages += pepsi.route("route", [(home, "local")] + [(d, name) for d, name, port in routes])
        self.d = pepsi.Pepsid(t, "", start=False)
        for d, name, port in routes:
            stages += pepsi.smarthost(name, port)
        stages += pepsi.maildir("local", self.d.mail) + pepsi.bounce()
        self.d.write_config(stages, pepsi="LOCAL_DOMAINS = %s %s\nRELAY_NETWORKS = 127.0.0.2/32\n" % (home, srs), listener="LIMIT_EXEMPT = 127.0.0.0/8\n",
                            more="[pepsi-dns]\nSERVERS = %s\n" % lab.server)
        if add:
            self.tool("add", "first")
        code, said, err = self.d.cli("config", "check")
        pepsi.check(code == 0 and not err, "config check: %s%s" % (said, err))
        self.d.start()

    def tool(self, *args, want=0):
        code, said, err = self.d.cli("keys", "srs", *args)
        pepsi.check(code == want, "keys srs %s: %d %s%s" % (args, code, said, err))
        return said + err

    def key(self, state="active"):
        with open(os.path.join(self.keys, "keys")) as f:
            return next(bytes.fromhex(line.split()[3]) for line in f if len(line.split()) == 4 and line.split()[1] == state)

    def send(self, mail_from, rcpts, data, source="127.0.0.9", want=250):
        s = pepsi.Smtp(self.d.port, source=source)
        try:
            code, text = s.send(mail_from, rcpts, data)
        finally:
            s.close()
        pepsi.check(code == want, "from %s to %s: %d %s" % (mail_from, rcpts, code, text))
        return text

    def rcpt(self, to, mail_from="", source="127.0.0.9"):
        """What a RCPT is told; the session ends there."""
        s = pepsi.Smtp(self.d.port, source=source)
        try:
            s.cmd("MAIL FROM:<%s>" % mail_from)
            return s.cmd("RCPT TO:<%s>" % to)
        finally:
            s.close()

    def log(self):
        with open(self.d.log, errors="replace") as f:
            return f.read()


def tag(key, kind, sep, day, host, user):
    """By another hand: HMAC-SHA-256 over what proto/srs says it covers, 80 bits of it in base32."""
    low = "".join(c.lower() if c.isascii() else c for c in user)
    text = "SRS%s%s:%s:%d:%d:%s%d:%s" % (kind, sep, "U" if any("A" <= c <= "Z" for c in user) else "l", day, len(host), host.lower(), len(low.encode()), low)
    bits = int.from_bytes(hmac.new(key, text.encode(), "sha256").digest()[:10], "big")
    return "".join(BASE32[bits >> (75 - 5 * i) & 31] for i in range(16))


def make(key, domain, host, user, age=0, sep="="):
    day = int(time.time()) // 86400 - age
    return "SRS0%s%s=%s=%s=%s@%s" % (sep, tag(key, "0", sep, day, host, user), BASE32[day >> 5 & 31] + BASE32[day & 31], host, user, domain)


def mail(token, sender="ann@author.test", to="alice@home.test"):
    return ("From: Ann <%s>\r\nTo: %s\r\nSubject: %s\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <%s@author.test>\r\n\r\nhello\r\n"
            % (sender, to, token, token)).encode()


def bounce(token, to="x"):
    return ("From: Mail <mailer-daemon@away.test>\r\nTo: %s\r\nSubject: %s\r\nAuto-Submitted: auto-replied\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\n"
            "Message-ID: <%s@away.test>\r\n\r\nno such user\r\n" % (to, token, token)).encode()


def got(sink, subject, seconds=20):
    def look():
        return next((m for m in list(sink.messages) if b"\r\nSubject: " + subject.encode() in m.data), None)
    return pepsi.wait_for("the message " + subject, look, seconds)


def to_of(m):
    return [r[0] for r in m.rcpts]


def verdicts(site, lab, m, ip="127.0.0.1"):
    path = os.path.join(site.folder, "at-next-hop.eml")
    with open(path, "wb") as f:
        f.write(m.data)
    code, out, err = site.d.cli("--json", "auth-check", "--server", lab.server, "--as-is", "--ip", ip, "--helo", "mx.home.test", "--from", m.mail_from, path)
    pepsi.check(out.startswith("{"), "auth-check: %d %s%s" % (code, out, err))
    return json.loads(out)["auth"]


def pyspf(lab, questions):
    """What python3-spf says; None where it is not installed."""
    try:
        python = signer.python("spf")
    except pepsi.Skip:
        pepsi.say("      skipped: pyspf (python3-spf) is not installed, SPF is judged by auth-check alone")
        return None
    return run_json([python, "-c", PYSPF], [], [{n: r for n, r in lab.zone.items() if isinstance(r, dict)}, questions])


def there_and_home(t):
    """The whole story, once: signed, p=reject, forwarded; then its bounce."""
    lab, away, author = zone(t), pepsi.Sink(t), pepsi.Sink(t)
    site = Site(t, lab, "home.test", SRS, "alice: alice@away.test, carol@home.test\n", [("author.test", "author", author.port), ("*", "out", away.port)])
    signed = signer.sign(t, mail("story"), [("dkim", "author.test", "s", "rsa2048")])
    site.send("ann@author.test", "alice@home.test", signed)
    m = got(away, "story")
    pepsi.check(to_of(m) == ["alice@away.test"] and re.fullmatch(r"SRS0=[A-Z2-7]{16}=[A-Z2-7]{2}=author\.test=ann@srs\.home\.test", m.mail_from), "%s %s" % (m.mail_from, m.rcpts))
    # the other maker's HMAC says the same, and the mailbox here keeps the sender
    day = m.mail_from.split("=")[2]
    pepsi.check(m.mail_from == make(site.key(), SRS, "author.test", "ann") or day != make(site.key(), SRS, "author.test", "ann").split("=")[2], m.mail_from)
    copy = pepsi.wait_for("carol's copy", lambda: site.d.maildir("carol@home.test"), 20)[0]
    pepsi.check(b"Return-Path: <ann@author.test>" in copy, "Return-Path of the copy: %r" % copy[:300])
    # at the next hop: DKIM by dkimpy, SPF of our domain, DMARC of the author's
    keys = {"s._domainkey.author.test": signer.record(t, "rsa2048")}
    ok = run_json([signer.python("dkim"), "-c", DKIMPY], [], [keys, base64.b64encode(m.data).decode()])
    pepsi.check(ok == [True], "dkimpy: %s" % ok)
    v = verdicts(site, lab, m)
    pepsi.check([(s["result"], s["domain"]) for s in v["spf"] if s["identity"] == "mailfrom"] == [("pass", SRS)], "SPF: %s" % v["spf"])
    pepsi.check(v["dmarc"]["result"] == "pass" and v["dmarc"]["policy"] == "reject" and v["dmarc"]["dkim_aligned"], "DMARC: %s" % v["dmarc"])
    pepsi.check(b"srs.home.test" not in m.data.split(b"\r\n\r\n")[0].replace(b"for <", b""), "the message itself was changed: %r" % m.data[:800])
    # without SRS, the same message: SPF fails there
    m.mail_from, kept = "ann@author.test", m.mail_from
    v = verdicts(site, lab, m)
    pepsi.check([s["result"] for s in v["spf"] if s["identity"] == "mailfrom"] == ["fail"], "SPF without SRS: %s" % v["spf"])
    # and by another hand: with SRS, without, from somebody else's host, and at a second forwarder
    second = pyspf(lab, [["127.0.0.1", "mx.home.test", kept], ["127.0.0.1", "mx.home.test", "ann@author.test"], ["127.0.0.9", "mx.home.test", kept],
                         ["127.0.0.9", "mx.author.test", "ann@author.test"]])
    pepsi.check(second in (None, ["pass", "fail", "fail", "pass"]), "pyspf: %s" % second)
    # the bounce of a server that took it, in whatever case it likes
    for i, to in enumerate((kept, kept.lower(), kept.upper())):
        site.send("", to, bounce("home%d" % i, to))
        b = got(author, "home%d" % i)
        pepsi.check(b.mail_from == "" and to_of(b) == ["ann@author.test" if i < 2 else "ANN@AUTHOR.TEST"], "%s %s" % (b.mail_from, b.rcpts))
    # our own report, of a server that did not take it
    away.script["rcpt"] = lambda argument: "550 5.1.1 nobody" if "alice@" in argument else None
    site.send("ann@author.test", "alice@home.test", mail("lost"))
    b = pepsi.wait_for("the report", lambda: next((x for x in list(author.messages) if b"multipart/report" in x.data and b"lost" in x.data), None), 40)
    pepsi.check(b.mail_from == "" and to_of(b) == ["ann@author.test"], "%s %s" % (b.mail_from, b.rcpts))
    site.d.wait_empty()
    log = site.log()
    pepsi.check(re.search(r"message=\d+.*srs forwarded from=<ann@author.test> as=<SRS0=\S+> rcpts=1 of=2", log) or "srs forwarded from=<ann@author.test>" in log, "no line in the log")
    pepsi.check("home=<ann@author.test>" in log, "no line of the bounce")
    pepsi.check(site.key().hex() not in log, "the key is in the log")
    # null senders, our own senders, and mail that our network relays are left alone
    away.script.pop("rcpt")
    site.send("", "alice@home.test", mail("null"))
    pepsi.check(got(away, "null").mail_from == "", "the null sender was rewritten")
    site.send("dave@home.test", "alice@home.test", mail("ours"))
    pepsi.check(got(away, "ours").mail_from == "dave@home.test", "our sender was rewritten")
    site.send("x@author.test", "bob@away.test", mail("relayed"), source="127.0.0.2")
    pepsi.check(got(away, "relayed").mail_from == "x@author.test", "relayed mail was rewritten")
    site.send("x@author.test", "alice@home.test", mail("internal"), source="127.0.0.2")
    pepsi.check(got(away, "internal").mail_from.startswith("SRS0="), "an alias's mail for our network was not rewritten")
    m = site.d.metrics()
    asked = {k: v for k, v in m.items() if k.startswith("pepsi_recipient_stage_total")}
    pepsi.check(asked.get('pepsi_recipient_stage_total{stage="srs",answer="known"}', 0) >= 3, "metrics: %s" % asked)
    code, said, err = site.d.cli("status")
    pepsi.check("stage srs" in said and "known" in said, "status: %s" % said)
    lab.close()


def chain(t):
    """Two forwarders: SRS1 at the second where it fits, else a kept sender; either way the bounce goes home by way of the first."""
    lab = zone(t)
    for n, (author_domain, srs, form) in enumerate((("a.test", "s.h.test", r"SRS1=[A-Z2-7]{18}=s\.h\.test==[A-Z2-7]{16}=..=a\.test=al@s\.second\.test"),
                                                    ("author.test", SRS, r"SRS0=[A-Z2-7]{16}=..==[a-z2-7]{26}@s\.second\.test"))):
        away, author = pepsi.Sink(t), pepsi.Sink(t)
        first = Site(t, lab, "home.test", srs, "alice: bob@second.test\n", [(author_domain, "author", author.port), ("*", "out", pepsi.free_port())])
        second = Site(t, lab, "second.test", "s.second.test", "bob: carol@away.test\n", [(srs, "first", first.d.port), ("*", "out", away.port)])
        with open(first.d.config) as f:
            text = f.read()
        with open(first.d.config, "w") as f:
            f.write(re.sub(r"(\[stage-out\][^\[]*PORT = )\d+", r"\g<1>%d" % second.d.port, text))
        pepsi.check(first.d.cli("reload")[0] == 0, "reload")
        # 127.0.0.1 is a stranger to both: they know each other by no network
        first.send("al@" + author_domain, "alice@home.test", mail("two%d" % n))
        m = got(away, "two%d" % n, 40)
        pepsi.check(re.fullmatch(form, m.mail_from), m.mail_from)
        second.send("", m.mail_from, bounce("back%d" % n))
        b = got(author, "back%d" % n, 40)
        pepsi.check(b.mail_from == "" and to_of(b) == ["al@" + author_domain], "%s %s" % (b.mail_from, b.rcpts))
        for s in (first, second):
            s.d.wait_empty()
            s.d.stop()
    lab.close()


def refusals(t):
    """At RCPT, in words; what cannot be told now is 4xx; nothing becomes a relay."""
    lab, away, author = zone(t), pepsi.Sink(t), pepsi.Sink(t)
    site = Site(t, lab, "home.test", SRS, "alice: alice@away.test\n", [("author.test", "author", author.port), ("*", "out", away.port)],
                more="BOUNCES_EACH = 3\n")
    key = site.key()
    good = make(key, SRS, "author.test", "ann")

    def told(to, want, text="", mail_from=""):
        code, said = site.rcpt(to, mail_from)
        pepsi.check(code == want and text in said, "%s: %d %s" % (to, code, said))
    told(good, 250)
    for sep in "+-":
        told(make(key, SRS, "author.test", "ann", sep=sep), 250)
    told(make(key, SRS, "author.test", "ann", 21), 250)
    told(make(key, SRS, "author.test", "ann", 22), 550, "5.1.1 This return address has expired")
    told(make(key, SRS, "author.test", "ann", 1024), 550, "5.1.1 No such return address")   # the same two letters
    told(make(key, SRS, "author.test", "ann", -2), 550, "5.1.1 No such return address")
    told(make(bytes(32), SRS, "author.test", "ann"), 550, "5.1.1 No such return address")
    told(make(key, SRS, "author.test", "ann").replace("=ann@", "=bob@"), 550, "5.1.1 No such return address")
    told(make(key, SRS, "author.test", "ann").replace("author", "victim"), 550, "5.1.1 No such return address")
    told(good.replace("SRS0", "SRS1"), 550, "5.1.1 No such return address")
    told("SRS0=@" + SRS, 550, "5.1.1 No such return address")
    told("somebody@" + SRS, 550, "5.1.1 No such recipient here")
    told("postmaster@" + SRS, 250)
    # somebody's mail, and a sender's own check of it: not without the null sender
    told(good, 550, "5.7.1 This is a return address", mail_from="spammer@away.test")
    told(good, 550, "5.7.1 This is a return address", mail_from="postmaster@away.test")
    pepsi.check(site.rcpt(good, "x@author.test", source="127.0.0.2")[0] == 550, "our network may write to return addresses")
    # the letters themselves are no way out of anything
    for evil in ('"SRS0=a\\"b=c"@' + SRS, "SRS0=%s@%s" % ("A" * 59, SRS), "SRS0=a=b=c=d%away.test@" + SRS, '"SRS0=x event=forged srs forwarded"@' + SRS):
        code, said = site.rcpt(evil)
        pepsi.check(500 <= code < 600, "%s: %d %s" % (evil, code, said))
    pepsi.check(not re.search(r"(?m)^[^\"]*event=forged", site.log()), "an address became words of the log")
    # three bounces an hour to one author; the next is told to come again, whatever address it was sent to; others are not affected
    for i in range(3):
        site.send("", good, bounce("cap%d" % i))
        got(author, "cap%d" % i)
    told(make(key, SRS, "author.test", "ANN", 1), 451)
    told(make(key, SRS, "author.test", "other"), 250)
    # and a list of addresses in one message does not get around it: it waits in the queue
    more = [make(key, SRS, "author.test", "o%d" % i) for i in range(2)]
    s = pepsi.Smtp(site.d.port, source="127.0.0.9")
    code, said = s.send("", more, bounce("list"))
    s.close()
    pepsi.check(code == 250, "%d %s" % (code, said))
    pepsi.check(sorted(to_of(got(author, "list"))) == ["o0@author.test", "o1@author.test"], "the list")
    for i in range(2):
        site.send("", more[0], bounce("again%d" % i))
    got(author, "again1")
    told(more[0], 451)
    told(more[1], 250)
    site.d.wait_empty()
    # many sessions that asked while there was room: three get through, the others wait in the queue, where everybody can see why
    flood = make(key, SRS, "author.test", "flooded")
    sessions = [pepsi.Smtp(site.d.port, source="127.0.0.9") for _ in range(6)]
    for s in sessions:
        s.cmd("MAIL FROM:<>")
        pepsi.check(s.cmd("RCPT TO:<%s>" % flood)[0] == 250, "the flood begins")
    for i, s in enumerate(sessions):
        s.cmd("DATA")
        pepsi.check(s.cmd((bounce("flood%d" % i) + b".").decode())[0] == 250, "the flood")
        s.close()
    rows = pepsi.wait_for("the rest to wait", lambda: (lambda q: q if len(q) == 3 and all(r["status"] == "paused" for r in q) else None)(site.d.queue()), 30)
    pepsi.check(all("more bounces of forwarded mail within the hour" in r["last_error"] for r in rows), "rows: %s" % rows)
    pepsi.check(len([m for m in author.messages if b"Subject: flood" in m.data]) == 3, "three of the flood, not more")

    # told a second late: 3 of one author, 2 and 2 of the list and after it, 3 of the flood
    want = {"capped": 3, "home": 10, "forged": 0}
    found = {}

    def counted():
        m = site.d.metrics()
        found.update((k, m.get('pepsi_module_srs_total{stage="srs",result="%s"}' % k)) for k in want)
        return found == want
    try:
        pepsi.wait_for("the counters", counted, 30)
    except pepsi.Failed:
        raise pepsi.Failed("counters: %s, not %s" % (found, want))
    code, said, err = site.d.cli("status")
    pepsi.check("capped" in said, "status: %s" % said)
    # `pepsi recipient test` says what a bounce would be told
    code, said, err = site.d.cli("recipient", "test", more[1])
    pepsi.check(code == 0 and "stage:srs" in said, "recipient test: %d %s%s" % (code, said, err))
    code, said, err = site.d.cli("recipient", "test", "SRS0=AAAAAAAAAAAAAAAA=AA=author.test=ann@" + SRS)
    pepsi.check(code == 1 and "refused by stage:srs, 550 5.1.1 No such return address" in said, "recipient test of a forged one: %d %s%s" % (code, said, err))
    pepsi.check(not away.messages, "mail went outside")
    lab.close()


def new_keys(t):
    """Rotation: the old key's addresses are taken until it is removed. Keys that cannot be used: mail waits, bounces are told to come again."""
    lab, away, author = zone(t), pepsi.Sink(t), pepsi.Sink(t)
    site = Site(t, lab, "home.test", SRS, "alice: alice@away.test\n", [("author.test", "author", author.port), ("*", "out", away.port)], add=False)
    path = os.path.join(site.keys, "keys")
    site.tool("list", want=1)
    site.send("ann@author.test", "alice@home.test", mail("early"))  # there is no key yet: it waits
    pepsi.wait_for("a word of it", lambda: "pepsi-keys srs add makes it" in site.log(), 20)
    pepsi.check(not away.messages, "it left without a key")
    site.tool("add", "Not_a_name", want=2)
    site.tool("add")
    site.tool("add", want=1)
    pepsi.check(os.stat(path).st_mode & 0o777 == 0o600 and os.stat(site.keys).st_mode & 0o777 == 0o700, "modes")
    site.d.cli("queue", "retry", "--all")
    got(away, "early", 90)
    old = make(site.key(), SRS, "author.test", "ann")
    said = site.tool("rotate", "second")
    pepsi.check("second makes return addresses from now on" in said, said)
    pepsi.check(site.rcpt(old)[0] == 250 and site.rcpt(make(site.key(), SRS, "author.test", "ann"))[0] == 250, "one of both keys is not taken")
    site.send("ann@author.test", "alice@home.test", mail("later"))
    m = got(away, "later")
    pepsi.check(m.mail_from == make(site.key(), SRS, "author.test", "ann"), "not made with the new key: %s" % m.mail_from)
    pepsi.check("a third key has no place" in site.tool("rotate", want=1), "a key in use was thrown away")
    listed = site.d.json("keys", "srs", "list")
    pepsi.check([(k["key"], k["state"]) for k in listed][0] == ("second", "active") and listed[1]["state"] == "retired" and
                listed[1]["needed_until"] - listed[1]["since"] == 23 * 86400, "list: %s" % listed)
    secrets = [site.key().hex(), site.key("retired").hex()]
    pepsi.check("rotate first" in site.tool("remove", "second", want=1), "the active key was removed")
    site.tool("remove", listed[1]["key"])
    pepsi.check(site.rcpt(old)[0] == 550, "a removed key is still taken")
    # a file that others could read is no key
    os.chmod(path, 0o644)
    code, said = site.rcpt(m.mail_from)
    pepsi.check(code == 451 and "key" not in said and site.keys not in said, "with a readable key: %d %s" % (code, said))
    pepsi.check("keys that are no secret are not used" in site.log(), "the log does not say why")
    os.chmod(path, 0o600)
    pepsi.check(site.rcpt(m.mail_from)[0] == 250, "not taken again")
    out = "".join("".join(site.d.cli(*a)[1:]) for a in (("keys", "srs", "list"), ("--json", "keys", "srs", "list"), ("config", "show"), ("status",)))
    pepsi.check(not any(s in site.log() + out for s in secrets), "a key is shown")
    if pepsi.ROOT:
        code, said, err = site.d.cli("keys", "srs", "list", uid=65533)
        pepsi.check(code == 1, "another account reads the keys: %s" % said)
    lab.close()


def before(t):
    """postsrsd made the addresses until yesterday: their bounces come home until the day that was named, and not one day longer."""
    lab, author, away = zone(t), pepsi.Sink(t), pepsi.Sink(t)
    secret = os.path.join(t.dir, "postsrsd.secret")
    with open(secret, "w") as f:
        f.write("sqUEamish ossifrage\n")
    owned(secret)
    os.chmod(secret, 0o600)
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86400 * 3))
    site = Site(t, lab, "home.test", SRS, "", [("author.test", "author", author.port), ("*", "out", away.port)],
                more="BEFORE = %s\nBEFORE_UNTIL = %s\n" % (secret, day))

    def weak(user, key=b"sqUEamish ossifrage", age=0):
        stamp = int(time.time()) // 86400 - age
        stamp = BASE32[stamp >> 5 & 31] + BASE32[stamp & 31]
        mac = base64.b64encode(hmac.new(key, (stamp + "author.test" + user).lower().encode(), "sha1").digest())[:4].decode()
        return "SRS0=%s=%s=author.test=%s@%s" % (mac, stamp, user, SRS)
    for i, to in enumerate((weak("ann"), weak("Ann", age=20))):
        site.send("", to, bounce("old%d" % i))
        pepsi.check([a.lower() for a in to_of(got(author, "old%d" % i))] == ["ann@author.test"], "home: %s" % to)
    for to, want in ((weak("ann", age=22), "has expired"), (weak("ann", key=b"another"), "No such return address"), (weak("ann").replace("=ann@", "=eve@"), "No such return address")):
        code, said = site.rcpt(to)
        pepsi.check(code == 550 and want in said, "%s: %d %s" % (to, code, said))
    pepsi.check(site.rcpt(weak("ann"), "x@away.test")[0] == 550, "somebody's mail to an old address")
    pepsi.check(site.rcpt(make(site.key(), SRS, "author.test", "ann"))[0] == 250, "our own addresses")
    # a secret that cannot be read: nobody can tell, nothing is refused that might be genuine; and then it is over
    with open(site.d.config) as f:
        text = f.read()
    for until, mode, want in ((day, 0o644, 451), ("2026-01-31", 0o600, 550), (day, 0o600, 250)):
        os.chmod(secret, mode)
        with open(site.d.config, "w") as f:
            f.write(text.replace("BEFORE_UNTIL = " + day, "BEFORE_UNTIL = " + until))
        pepsi.check(site.d.cli("reload")[0] == 0, "reload")
        pepsi.wait_for("%s, mode %o: %d" % (until, mode, want), lambda want=want: site.rcpt(weak("ann"))[0] == want, 30, .5)
    pepsi.check("sqUEamish" not in site.log() and "others may read it" in site.log(), "the log")
    site.d.wait_empty()
    site.d.counts(2, "srs_total", "srs", result="before")
    lab.close()


def odd_senders(t):
    """What does not fit is kept in the database, within a bound; quoted and international local parts come home as they were."""
    lab, away, author = zone(t), pepsi.Sink(t), pepsi.Sink(t)
    site = Site(t, lab, "home.test", SRS, "alice: alice@away.test\n", [("author.test", "author", author.port), ("*", "out", away.port)], more="MOST_KEPT = 2\n")
    long = ["bounces+1234567-%d-a-long-reader=example.com@author.test" % i for i in range(3)]
    for i, sender in enumerate(long + long[:1]):
        site.send(sender, "alice@home.test", mail("long%d" % i))
        got(away, "long%d" % i)
    kept = [got(away, "long%d" % i).mail_from for i in range(4)]
    pepsi.check(all(re.fullmatch(r"SRS0=[A-Z2-7]{16}=..==[a-z2-7]{26}@srs\.home\.test", k) for k in (kept[0], kept[1], kept[3])), "kept: %s" % kept)
    pepsi.check(kept[3].split("==")[1] == kept[0].split("==")[1], "one sender is kept twice: %s" % kept)
    pepsi.check(kept[2] == long[2] and "MOST_KEPT senders are kept already" in site.log(), "over the bound: %s" % kept[2])
    site.send("", kept[1].lower(), bounce("longhome"))
    pepsi.check(to_of(got(author, "longhome")) == [long[1]], "home: %s" % to_of(got(author, "longhome")))
    code, said = site.rcpt(kept[0].replace("==" + kept[0].split("==")[1][:4], "==aaaa"))
    pepsi.check(code == 550, "another's reference: %d %s" % (code, said))
    for i, sender in enumerate(('"a b"@author.test', '"x\\"y=z"@author.test', "a=b+c-d@author.test", "SRS0=short@author.test")):
        site.send(sender, "alice@home.test", mail("odd%d" % i))
        m = got(away, "odd%d" % i)
        pepsi.check("@" + SRS in m.mail_from and m.mail_from.lstrip('"').startswith("SRS"), "%s became %s" % (sender, m.mail_from))
        site.send("", m.mail_from, bounce("oddhome%d" % i))
        pepsi.check(to_of(got(author, "oddhome%d" % i)) == [sender], "%s came home as %s" % (sender, to_of(got(author, "oddhome%d" % i))))
    s = pepsi.Smtp(site.d.port, source="127.0.0.9")
    code, said = s.send("grüße@author.test", "alice@home.test", mail("utf8"), params=" SMTPUTF8")
    s.close()
    pepsi.check(code == 250, "%d %s" % (code, said))
    m = got(away, "utf8")
    pepsi.check(m.mail_from.endswith("=author.test=grüße@" + SRS), m.mail_from)
    s = pepsi.Smtp(site.d.port, source="127.0.0.9")
    code, said = s.send("", m.mail_from, bounce("utf8home"), params=" SMTPUTF8")
    s.close()
    pepsi.check(code == 250 and to_of(got(author, "utf8home")) == ["grüße@author.test"], "%d %s" % (code, said))
    site.d.wait_empty()
    lab.close()


if __name__ == "__main__":
    pepsi.main(__file__, [there_and_home, chain, refusals, new_keys, before, odd_senders])
