"""pepsi-stage-arc: mail from outside that two hosts of ours pass on keeps its author. Every chain that leaves holds for dkimpy, for Mail::DKIM where that
is there, and for our own engine; one that was broken on the way is closed with cv=fail, and not taken up again; what may not be sealed passes as it is."""
import base64
import json
import os
import re
import subprocess
import time

import authority
import pepsi
import signer
from signing import Keys, run_json

DKIMPY = ("import dkim, json, sys, base64\nkeys, text = json.load(sys.stdin)\ntext = base64.b64decode(text)\n"
          "look = lambda name, timeout=5: keys.get(name.decode().rstrip('.'), '').encode()\n"
          "cv, sets, why = dkim.ARC(text).verify(dnsfunc=look)\nprint(json.dumps([(cv or b'none').decode(), str(why)]))")
SETS = (b"arc-seal", b"arc-message-signature", b"arc-authentication-results")


def fields(data, name):
    head = data.split(b"\r\n\r\n")[0] + b"\r\n"
    return [re.sub(rb"\r\n(?=[ \t])", b"", v) for n, v in re.findall(rb"(?ms)^([!-9;-~]+)[ \t]*:(.*?)\r\n(?![ \t])", head) if n.lower() == name.lower()]


def tag(value, name):
    found = re.search(rb"(?:^|;)\s*%s\s*=\s*([^;]*)" % name, value)
    return re.sub(rb"\s", b"", found.group(1)).decode() if found else None


def seals(data):
    """[(instance, cv, domain)], from the top."""
    return [(int(tag(v, b"i") or 0), tag(v, b"cv"), tag(v, b"d")) for v in fields(data, b"arc-seal")]


class Lab:
    """Two hosts, a.test before b.test, and a sink behind; the author is ann@author.test, whose domain wants what is forged to be refused."""

    def __init__(self, t, a_stages="", a_first="seal", b_options="", a_options="", key="rsa2048", b_arc="", a_arc="", more_keys=(), a_local=""):
        self.t = t
        self.keys = {"a.test": Keys(t), "b.test": Keys(t)}
        for domain, k in self.keys.items():
            k.make(domain, "s", key)
        for domain in more_keys:
            self.keys["a.test"].make(domain, "s", key)
        self.records = {n: v for k in self.keys.values() for n, v in k.records.items()}
        self.records["s._domainkey.author.test"] = signer.record(t, "rsa2048")
        zone = "".join("%s IN TXT %s\n" % (n[:-len(".test")], authority.strings(v)) for n, v in self.records.items())
        zone += 'author IN TXT "v=spf1 ip4:192.0.2.9 -all"\n_dmarc.author IN TXT "v=DMARC1; p=reject"\nauthor IN A 192.0.2.9\nns IN A 127.0.0.1\nmx.a IN A 127.0.0.1\n'
        self.server = authority.start(t, {"test": zone})
        self.sink = pepsi.Sink(t)
        self.b = self.host("b.test", "far.test", self.sink.port, "DMARC = enforce\nARC_SEALERS = a.test\n" + b_options, arc=b_arc)
        self.a = self.host("a.test", "b.test", self.b.port, "XCLIENT_FROM = 127.0.0.1\n" + a_options, a_stages, a_first, a_arc, a_local)

    def host(self, domain, following, port, listener, stages="", first="seal", arc="", local=""):
        d = pepsi.Pepsid(self.t, "", start=False)
        aliases = os.path.join(d.dir, "aliases")
        with open(aliases, "w") as f:
            f.write("bob: bob@%s\ncarl: carl@%s\n" % (following, following))
        d.write_config("[stage-init]\nPROGRAM = pepsi-stage-aliases\nFILE = %s\nNEXT_STAGE = %s\nBOUNCE_STAGE = bounce\n%s\n" % (aliases, first, stages) +
                       "[stage-seal]\nPROGRAM = pepsi-stage-arc\nKEY_DIR = %s\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\n%s\n" % (self.keys[domain].path, arc) +
                       pepsi.smarthost("out", port) + pepsi.bounce(), pepsi="LOCAL_DOMAINS = %s %s\nRELAY_NETWORKS = 127.0.0.99\n" % (domain, local), listener=listener,
                       more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 2 s\nLOOKUP_DEADLINE = 4 s\n" % self.server)
        with open(d.config) as f:
            text = f.read()
        with open(d.config, "w") as f:
            f.write(text.replace("HOSTNAME = mx.example.test", "HOSTNAME = mx." + domain))
        d.start()
        return d

    def mail(self, subject, body=b"hello\r\n", sign=True, more=b""):
        text = (b"From: Ann <ann@author.test>\r\nTo: bob@a.test\r\nSubject: %s\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <%s@author.test>\r\n%s\r\n%s"
                % (subject.encode(), subject.encode(), more, body))
        return signer.sign(self.t, text, [("dkim", "author.test", "s", "rsa2048")]) if sign else text

    def send(self, data, to="a", rcpt="bob", ip="192.0.2.9"):
        d = self.a if to == "a" else self.b
        s = pepsi.Smtp(d.port, ehlo="client.test")
        if to == "a":
            pepsi.check(s.cmd("XCLIENT ADDR=" + ip)[0] == 220, "XCLIENT")
            s.cmd("EHLO client.test")
        r = s.send("ann@author.test", rcpt if "@" in rcpt or isinstance(rcpt, list) else "%s@%s.test" % (rcpt, to), data)
        s.close()
        return r

    def through(self, subject, data, **kw):
        r = self.send(data, **kw)
        pepsi.check(r[0] == 250, "%s: %s" % (subject, r))
        return self.received(subject)

    def received(self, subject):
        def look():
            for m in list(self.sink.messages):
                if b"Subject: %s\r\n" % subject.encode() in m.data:
                    self.sink.messages.remove(m)
                    return m.data
            return None
        return pepsi.wait_for("the message " + subject, look, 30)

    def verdicts(self, data):
        """What each verifier says of the chain."""
        value = [self.records, base64.b64encode(data).decode()]
        out = {"dkimpy": run_json([signer.python("dkim"), "-c", DKIMPY], [], value)[0]}
        path = os.path.join(self.t.dir, "sealed.eml")
        with open(path, "wb") as f:
            f.write(data)
        code, text, err = self.b.cli("--json", "auth-check", "--server", self.server, "--as-is", "--ip", "127.0.0.1", "--helo", "x.test", "--from", "a@author.test", path)
        out["auth-check"] = json.loads(text)["auth"]["arc"]["result"] if text.startswith("{") else text + err
        perl = mail_dkim(self.records, data)
        if perl:
            out["Mail::DKIM"] = perl
        return out

    def holds(self, name, data, chain):
        pepsi.check(seals(data) == chain, "%s: the seals are %s, not %s" % (name, seals(data), chain))
        for kind in SETS:
            pepsi.check(len(fields(data, kind)) == len(chain), "%s: %d %s" % (name, len(fields(data, kind)), kind.decode()))
        says = self.verdicts(data)
        pepsi.check(set(says.values()) == {"pass"}, "%s: %s\n%s" % (name, says, data.decode("utf-8", "replace")))

    def log(self, d):
        with open(d.log) as f:
            return f.read()

    def stop(self):
        self.a.stop()
        self.b.stop()


def mail_dkim(records, data):
    """Mail::DKIM's verdict on the chain; None where it is not installed."""
    try:
        script = os.path.join(pepsi.SOURCE, "test", "vectors", "mail_dkim.pl")
        perl = pepsi.need("perl")
    except pepsi.Skip:
        return None
    if subprocess.run([perl, "-MMail::DKIM::ARC::Verifier", "-MJSON::PP", "-MNet::DNS", "-e", "1"], capture_output=True).returncode:
        return None
    questions = json.dumps({"zone": {n: {"TXT": [[v[i:i + 255] for i in range(0, len(v), 255)]]} for n, v in records.items()}, "apex": ["test"]}) + "\n"
    questions += json.dumps({"op": "verify", "message": base64.b64encode(data).decode()}) + "\n"
    out = subprocess.run([perl, script], input=questions.encode(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True).stdout.decode()
    return json.loads(out.splitlines()[-1]).get("arc", out)


def two_hosts(t):
    lab = Lab(t)
    if not mail_dkim(lab.records, lab.mail("probe")):
        pepsi.say("Mail::DKIM is not installed: its opinion is left out")
    got = lab.through("plain", lab.mail("plain"))
    lab.holds("two hosts", got, [(2, "pass", "b.test"), (1, "none", "a.test")])
    # what each found on arrival is in its set
    first, second = fields(got, b"arc-authentication-results")[::-1]
    for text, words in ((first, (b"i=1;", b"mx.a.test", b"spf=pass", b"dkim=pass", b"dmarc=pass", b"arc=none")), (second, (b"i=2;", b"mx.b.test", b"spf=fail", b"dkim=pass", b"arc=pass"))):
        pepsi.check(all(w in text for w in words), "%r lacks one of %s" % (text, words))
    names = re.sub(rb"\s", b"", re.search(rb"[; ]h=([^;]*)", fields(got, b"arc-message-signature")[0]).group(1)).decode().split(":")
    for once in ("from", "to", "subject", "date", "message-id", "mime-version"):
        pepsi.check(names.count(once) == (1 if once == "mime-version" else 2), "%s is not oversigned: %s" % (once, names))
    pepsi.check("dkim-signature" in names and not [n for n in names if n.startswith(("arc-", "auth", "received"))], "h= is %s" % names)
    # on and on: the message comes back to the first host again and again
    chain = [(2, "pass", "b.test"), (1, "none", "a.test")]
    for hop in range(3, 9, 2):
        got = lab.through("plain", got, ip="192.0.2.77")
        chain = [(hop + 1, "pass", "b.test"), (hop, "pass", "a.test")] + chain
        lab.holds("%d hops" % (hop + 1), got, chain)
    cases = {"spaces": lab.mail("spaces", b"a  b \t\r\n \r\n\r\n\r\n"), "empty": lab.mail("empty", b""), "eightbit": lab.mail("eightbit", "grüße\r\n".encode()),
             "long": lab.mail("long", b"line of text\r\n" * 20000), "dots": lab.mail("dots", b".\r\n..\r\n"), "unsigned": lab.mail("unsigned", sign=False),
             "many": lab.mail("many", more=b"Cc: c@far.test\r\nReply-To: r@far.test\r\nList-Unsubscribe: <https://x.test/u>\r\nReferences: <a@b>\r\n <c@d>\r\n"),
             "forged": lab.mail("forged", more=b"Authentication-Results: mx.a.test; dmarc=pass (forged)\r\n")}
    for name, data in cases.items():
        if name == "unsigned":  # its author is known by SPF alone: behind the first host only the chain still knows
            got = lab.through(name, data)
            pepsi.check(b"arc=override" in fields(got, b"authentication-results")[0], "not overridden: %s" % fields(got, b"authentication-results"))
        else:
            got = lab.through(name, data)
        lab.holds(name, got, [(2, "pass", "b.test"), (1, "none", "a.test")])
        pepsi.check(b"forged)" not in b"".join(fields(got, b"arc-authentication-results")), "a forged result was sealed")
    log = lab.log(lab.a)
    pepsi.check("sealed domain=a.test selector=s algorithm=rsa2048 instance=1 cv=none" in log, "no line in the log")
    counts = lambda: dict(re.findall(r'pepsi_module_arc_messages_total\{stage="seal",result="(\w+)"\} (\d+)', lab.a.http_get("/metrics")[1]))  # noqa: E731
    pepsi.wait_for("counts", lambda: counts() == {"sealed_none": str(1 + len(cases)), "sealed_pass": "3"}, 20, .5)
    lab.stop()


def changed_on_the_way(t):
    lab = Lab(t)
    good = lab.through("first", lab.mail("first"))
    # by a stranger, between the hosts: the next host closes the chain, and nobody adds to it
    data = lab.mail("broken")
    sealed = lab.through("broken", data)
    broken = sealed.replace(b"\r\n\r\nhello\r\n", b"\r\n\r\nhello, buy this\r\n")
    pepsi.check(broken != sealed, "nothing was changed")
    # by way of the second host it would be refused: its author wants that. Nobody's list lets it in any more
    r = lab.send(broken, to="b")
    pepsi.check(r[0] == 550, "a changed message was taken: %s" % (r,))
    got = lab.through("broken", broken.replace(b"ann@author.test>\r\nTo", b"ann@nobody.test>\r\nTo"))
    pepsi.check(seals(got) == [(3, "fail", "a.test"), (2, "pass", "b.test"), (1, "none", "a.test")], "the seals: %s" % seals(got))
    pepsi.check("fail" in lab.verdicts(got).values() and "pass" not in lab.verdicts(got).values(), "a closed chain holds: %s" % lab.verdicts(got))
    pepsi.check("its chain had failed before" in lab.log(lab.b), "the second host took the chain up")
    pepsi.check(b"arc=fail" in fields(got, b"arc-authentication-results")[0], "%s" % fields(got, b"arc-authentication-results"))
    # the seal of a closed chain covers its own set alone: it holds when all others are taken away
    pepsi.check(closed_seal_holds(lab, got), "the closing seal does not hold")
    # a chain without its first set, and one with a set twice
    head, body = good.split(b"\r\n\r\n", 1)
    lines = re.findall(rb"(?ms)^.*?\r\n(?![ \t])", head + b"\r\n")
    first = [l for l in lines if re.match(rb"(?is)arc-.*?[\s;]i=1;", l)]
    pepsi.check(len(first) == 3, "no first set: %s" % lines)
    for name, changed in (("gap", [l for l in lines if l not in first]), ("twice", first + lines), ("half", [l for l in lines if l not in first[:1]])):
        text = b"".join(changed).replace(b"Subject: first", b"Subject: " + name.encode()).replace(b"ann@author.test>\r\nTo", b"ann@nobody.test>\r\nTo") + b"\r\n" + body
        got = lab.through(name, text)
        pepsi.check(seals(got)[0] == (3, "fail", "a.test"), "%s: %s" % (name, seals(got)))
    lab.stop()


def closed_seal_holds(lab, data):
    """By openssl: the digest of the three fields of the newest set, relaxed."""
    def relaxed(name, value, last=False):
        return name.encode() + b":" + re.sub(rb"[ \t]+", b" ", value).strip() + (b"" if last else b"\r\n")
    seal, message, results = (fields(data, k)[0] for k in SETS)
    signature = base64.b64decode(tag(seal, b"b"))
    text = relaxed("arc-authentication-results", results) + relaxed("arc-message-signature", message) + relaxed("arc-seal", re.sub(rb"([; ]b=)[^;]*", rb"\1", seal), True)
    key = os.path.join(lab.keys["a.test"].path, "a.test", "s.pem")
    for name, octets in (("text", text), ("sig", signature)):
        with open(os.path.join(lab.t.dir, name), "wb") as f:
            f.write(octets)
    return subprocess.run(["openssl", "dgst", "-sha256", "-prverify", key, "-signature", os.path.join(lab.t.dir, "sig"), os.path.join(lab.t.dir, "text")],
                          stdout=subprocess.DEVNULL).returncode == 0


def changed_by_us(t):
    """A list's footer: the author's signature breaks, the chain tells that it held, and the next host believes it."""
    script = os.path.join(t.dir, "footer")
    with open(script, "w") as f:
        f.write("#!/usr/bin/python3\nimport json, sys\nsys.stdin.buffer.read()\n"
                "json.dump({'action': 'accept', 'remove_headers': ['Subject'], 'add_headers': [{'name': 'Subject', 'value': '[list] changed'}]}, sys.stdout)\n")
    os.chmod(script, 0o755)
    filters = "[stage-footer]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nINPUT = json\nNEXT_STAGE = seal\nBOUNCE_STAGE = bounce\n" % script
    lab = Lab(t, a_stages=filters, a_first="footer")
    r = lab.send(lab.mail("changed"))
    pepsi.check(r[0] == 250, "%s" % (r,))
    got = lab.received("[list] changed")
    lab.holds("a changed subject", got, [(2, "pass", "b.test"), (1, "none", "a.test")])
    own = fields(got, b"authentication-results")[0]
    pepsi.check(b"dkim=fail" in own and b"arc=pass" in own and b"arc=override" in own, "the second host: %s" % own)
    lab.stop()


def with_ed25519(t):
    lab = Lab(t, key="ed25519")
    got = lab.through("short", lab.mail("short"))
    pepsi.check(seals(got) == [(2, "pass", "b.test"), (1, "none", "a.test")], "%s" % seals(got))
    pepsi.check(tag(fields(got, b"arc-seal")[0], b"a") == "ed25519-sha256", "%s" % fields(got, b"arc-seal"))
    says = lab.verdicts(got)
    pepsi.check(says["auth-check"] == "pass", "%s" % says)  # others do not know it in ARC
    lab.stop()


def who_is_sealed(t):
    lab = Lab(t, b_arc="SEAL_FOR = far.test\nNOT_FOR = carl@far.test\n")
    pepsi.check(len(seals(lab.through("bob", lab.mail("bob")))) == 2, "not sealed for bob")
    pepsi.check(len(seals(lab.through("carl", lab.mail("carl"), rcpt="carl"))) == 1, "sealed for carl")
    # our own: nothing was found out about them
    s = pepsi.Smtp(lab.b.port, source="127.0.0.99")
    pepsi.check(s.send("x@b.test", "bob@b.test", lab.mail("own", sign=False).replace(b"author.test", b"b.test"))[0] == 250, "not taken")
    s.close()
    pepsi.check(not seals(lab.received("own")), "our own mail was sealed")
    # nothing may change a message behind its seal
    bad = os.path.join(t.dir, "bad.conf")
    with open(lab.b.config) as f:
        text = f.read().replace("NEXT_STAGE = out\n", "NEXT_STAGE = late\n") + "[stage-late]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = /bin/true\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\n"
    with open(bad, "w") as f:
        f.write(text)
    code, out, err = lab.b.cli("-c", bad, "config", "check")
    pepsi.check(code and "[stage-late] runs pepsi-stage-pipe, which may change messages, but [stage-seal] has signed them" in out + err, "config check: %d %s%s" % (code, out, err))
    # keys that go away, and come back: nothing leaves unsealed in between
    path = os.path.join(lab.keys["b.test"].path, "b.test")
    os.rename(path, path + ".away")
    sent = []

    def waits():  # what is known of the folder is a second old at most
        sent.append("later%d" % len(sent))
        pepsi.check(lab.send(lab.mail(sent[-1]))[0] == 250, "not taken")
        return "not sealed yet domain=mx.b.test: KEY_DIR has no active key of it" in lab.log(lab.b)
    pepsi.wait_for("the line about the key", waits, 20, 1)
    os.rename(path + ".away", path)
    pepsi.wait_for("it waits", lambda: "paused" in json.dumps(lab.b.queue()), 20)
    code, out, err = lab.b.cli("queue", "retry", "--all")
    pepsi.check(code == 0, "%s%s" % (out, err))
    for subject in sent:
        pepsi.check(len(seals(lab.received(subject))) == 2, "%s left unsealed" % subject)
    lab.stop()


def by_own_domain(t):
    """Which of our domains it was sent to says whether it is sealed, and by whom: what the aliases replaced is remembered. Two names of one folder of keys."""
    lab = Lab(t, a_arc="NOT_SENT_TO = quiet.test\nSEALER_1 = shop.test self/s\nSEALER_2 = *.club.test club.test\n", more_keys=("shop.test", "club.test"),
              a_local="quiet.test shop.test www.club.test", b_arc="SEAL_FOR = nobody.test\n")
    expected = {"bob@a.test": [(1, "none", "a.test")], "bob@shop.test": [(1, "none", "shop.test")], "bob@www.club.test": [(1, "none", "club.test")], "bob@quiet.test": []}
    for n, (to, chain) in enumerate(expected.items()):
        subject = "own%d" % n
        r = lab.send(lab.mail(subject), rcpt=to)
        pepsi.check(r[0] == 250, "%s: %s" % (to, r))
        got = lab.received(subject)
        pepsi.check(seals(got) == chain, "%s: the seals are %s, not %s" % (to, seals(got), chain))
        if chain:
            lab.holds(to, got, chain)
    # several at once: the first that is chosen says by whom
    r = lab.send(lab.mail("several"), rcpt=["carl@quiet.test", "bob@shop.test"])
    pepsi.check(r[0] == 250, "%s" % (r,))
    pepsi.check(seals(lab.received("several")) == [(1, "none", "shop.test")], "several")
    lab.stop()


def hostile(t):
    """Cost is that of the size, whatever is sent; what cannot be sealed passes."""
    lab = Lab(t)
    good = lab.through("good", lab.mail("good"))
    head, body = good.split(b"\r\n\r\n", 1)
    away = lambda name: b"From: Eve <eve@nobody.test>\r\nSubject: %s\r\n" % name.encode()  # noqa: E731
    seal = b"ARC-Seal: i=%d; a=rsa-sha256; cv=pass; d=x.test; s=s; t=1; b=AAAA\r\n"
    cases = {
        "thousands": b"".join(seal % (i % 60) for i in range(9000)),
        "fifty": b"".join(b"ARC-Authentication-Results: i=%d; x.test; none\r\nARC-Message-Signature: i=%d; a=rsa-sha256; d=x.test; s=s; h=from; bh=AAAA; b=AAAA\r\n" % (i, i) + seal % i
                          for i in range(50, 0, -1)),
        "giant": b"ARC-Seal: i=1; a=rsa-sha256; cv=none; d=x.test; s=s; b=" + b"\r\n ".join([b"A" * 900] * 300) + b"\r\n",
        "nonsense": b"ARC-Seal: ;;;=\r\nARC-Message-Signature:\r\nARC-Authentication-Results: i=x\r\nARC-Seal: i=99999999999999999999; cv=fail\r\n",
        "copies": b"Cc: x@y.test\r\n" * 3000,
    }
    worst = {}
    for name, text in cases.items():
        begun = time.monotonic()
        r = lab.send(text + away(name) + b"\r\n" + body)
        if r[0] != 250:
            pepsi.check(r[0] in (552, 554, 550), "%s: %s" % (name, r))
            continue
        got = lab.received(name)
        worst[name] = time.monotonic() - begun
        pepsi.check(name != "fifty" or len(seals(got)) == 50, "fifty: %d" % len(seals(got)))
        pepsi.check(not got.startswith(b"ARC-Seal") or seals(got)[0][1] in ("fail", "none"), "%s: %s" % (name, seals(got)[:3]))
    pepsi.check("its chain has fifty sets" in lab.log(lab.a), "no line about fifty sets")
    pepsi.check("too many header fields that would be covered" in lab.log(lab.a), "no line about too many fields")
    pepsi.check(max(worst.values()) < 10 * pepsi.SLACK, "it took too long: %s" % worst)
    lab.holds("still there", lab.through("after", lab.mail("after")), [(2, "pass", "b.test"), (1, "none", "a.test")])
    lab.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [two_hosts, changed_on_the_way, changed_by_us, with_ed25519, who_is_sealed, by_own_domain, hostile])
