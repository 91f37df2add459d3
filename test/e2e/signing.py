"""pepsi-stage-dkim-sign: what it signs verifies with dkimpy, with libopendkim and with our own engine; what it may not sign stays as it is; keys that
others could read, or that are none, are refused with the reason; a new key is used without a restart."""
import base64
import json
import os
import re
import subprocess
import sys

import authority
import pepsi
import signer

DIRECTORY = os.path.dirname(os.path.abspath(__file__))
DKIMPY = ("import dkim, json, sys, base64\nkeys, text = json.load(sys.stdin)\ntext = base64.b64decode(text)\n"
          "look = lambda name, timeout=5: keys.get(name.decode().rstrip('.'), '').encode()\n"
          "n = sum(1 for l in text.split(b'\\r\\n\\r\\n')[0].split(b'\\r\\n') if l.lower().startswith(b'dkim-signature:'))\n"
          "d = dkim.DKIM(text)\nprint(json.dumps([d.verify(idx=i, dnsfunc=look) for i in range(n)]))")
OPENDKIM = ("import sys, json, base64\nsys.path.insert(0, sys.argv[1])\nimport opendkim\nkeys, text = json.load(sys.stdin)\n"
            "o = opendkim.OpenDkim(keys, sys.argv[2])\nprint(json.dumps(o.verdict(base64.b64decode(text)) if o.lib else None))")


def run_json(program, args, value):
    r = subprocess.run(program + args, input=json.dumps(value).encode(), stdout=subprocess.PIPE, check=True, timeout=120)
    return json.loads(r.stdout)


def owned(path):
    if pepsi.ROOT:
        os.chown(path, pepsi.service_account().pw_uid, pepsi.service_account().pw_gid)


class Keys:
    """A KEY_DIR made by hand, with openssl: the other maker of keys."""

    def __init__(self, t):
        self.path = os.path.join(t.dir, "keys%d" % t.next_number())
        os.mkdir(self.path, 0o700)
        owned(self.path)
        self.records = {}

    def make(self, domain, selector, kind="rsa2048", mode=0o600):
        folder = os.path.join(self.path, domain)
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o700)
            owned(folder)
        path = os.path.join(folder, selector + ".pem")
        how = ["-algorithm", "ed25519"] if kind == "ed25519" else ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:" + kind[3:]]
        subprocess.run([pepsi.need("openssl"), "genpkey"] + how + ["-out", path], check=True, stderr=subprocess.DEVNULL)
        os.chmod(path, mode)
        owned(path)
        der = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"], stdout=subprocess.PIPE, check=True).stdout
        public = base64.b64encode(der[-32:] if kind == "ed25519" else der).decode()
        self.records["%s._domainkey.%s" % (selector, domain)] = "v=DKIM1; k=%s; p=%s" % ("ed25519" if kind == "ed25519" else "rsa", public)
        return path


def check_all(t, d, name, data, keys, n, server):
    """Every signature holds, everywhere."""
    value = [keys.records, base64.b64encode(data).decode()]
    found = re.findall(rb"(?mi)^dkim-signature:", data.split(b"\r\n\r\n")[0])
    pepsi.check(len(found) == n, "%s: %d signatures, expected %d: %r" % (name, len(found), n, data[:2000]))
    pepsi.check(b" l=" not in data.split(b"\r\n\r\n")[0], "%s: there is an l=" % name)
    py = run_json([signer.python("dkim"), "-c", DKIMPY], [], value)
    pepsi.check(py == [True] * n, "%s: dkimpy says %s: %r" % (name, py, data))
    od = run_json([sys.executable, "-B", "-c", OPENDKIM], [os.path.join(pepsi.SOURCE, "test", "vectors"), t.dir], value)
    pepsi.check(od in ("pass", None), "%s: libopendkim says %s: %r" % (name, od, data))
    path = os.path.join(t.dir, "signed.eml")
    with open(path, "wb") as f:
        f.write(data)
    code, out, err = d.cli("--json", "auth-check", "--server", server, "--as-is", "--ip", "127.0.0.1", "--helo", "x.test", "--from", "a@example.test", path)
    results = [s["result"] for s in json.loads(out)["dkim"]["signatures"]] if out.startswith("{") and "signatures" in out else re.findall(r'"result":"(\w+)"[^}]*"selector"', out)
    pepsi.check(results == ["pass"] * n, "%s: auth-check says %s (%d): %s%s" % (name, results, code, out, err))


def mail(subject="hello", body=b"hello\r\n", sender="a@example.test", more=b""):
    return (b"From: A <%s>\r\nTo: b@far.test\r\nSubject: %s\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <%d@example.test>\r\n%s\r\n%s"
            % (sender.encode(), subject.encode(), abs(hash((subject, body))), more, body))


def daemon(t, keys, more="", **kw):
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-dkim-sign\nKEY_DIR = %s\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\n%s\n" % (keys.path, more) +
                     pepsi.smarthost("out", sink.port) + pepsi.bounce(), **kw)
    return d, sink


def received(sink, subject, seconds=20):
    def look():
        for m in list(sink.messages):
            if b"Subject: " + subject.encode() in m.data:
                return m
        return None
    return pepsi.wait_for("the message " + subject, look, seconds)


def seven_bit(t):
    """SEVEN_BIT: encoded before it is signed, so that a hop without 8BITMIME gets it as it was signed."""
    keys = Keys(t)
    keys.make("example.test", "r")
    server = authority.start(t, {"example.test": "".join("%s IN TXT %s\n" % (n[:-len(".example.test")], authority.strings(v)) for n, v in keys.records.items())})
    d, sink = daemon(t, keys, "SEVEN_BIT = YES\n")
    sink.extensions = ["PIPELINING"]
    d.accept("a@example.test", "b@far.test", mail("eightbit", "grüße\r\n".encode()))
    data = received(sink, "eightbit").data
    pepsi.check(data.isascii() and b"gr=C3=BC=C3=9Fe" in data, "not made 7-bit: %r" % data)
    check_all(t, d, "seven", data, keys, 1, server)
    with open(d.log, errors="replace") as f:
        text = f.read()
    pepsi.check("event=made-7bit" in text and "event=downgraded" not in text, "converted by the relay, or not at all")
    d.stop()


def holds_everywhere(t):
    keys = Keys(t)
    keys.make("example.test", "r")
    keys.make("example.test", "e", "ed25519")
    server = authority.start(t, {"example.test": "".join("%s IN TXT %s\n" % (n[:-len(".example.test")], authority.strings(v)) for n, v in keys.records.items())})
    d, sink = daemon(t, keys, "EXPIRE = 10 d\n")
    cases = {
        "plain": mail("plain"), "spaces": mail("spaces  and\r\n\tfolds ", b"a  b \t\r\n \r\n\r\n\r\n"), "empty": mail("empty", b""),
        "eightbit": mail("eightbit", "grüße\r\n".encode()), "long": mail("long", b"x" * 900 + b"\r\n" + b"line\r\n" * 20000),
        "parts": mail("parts", b"--b\r\n\r\ntext\r\n--b--\r\n", more=b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n\tboundary=b\r\n"),
        "many": mail("many", more=b"Cc: c@far.test\r\nReply-To: r@far.test\r\nList-Unsubscribe: <https://x.test/u>\r\nSender: s@example.test\r\n"),
        "odd": mail("odd", more=b"X-Odd:\r\nReferences: <a@b>\r\n <c@d>\r\nsubject2: x\r\n"),
        # what would break libopendkim must never reach it
        "junk": mail("junk", more=b"DKIM-Signature: v=1; a=rsa-sha256; c=; d=example.test; s=r; h=" + b"from:" * 500 + b"; b=\r\n"),
    }
    for name, data in cases.items():
        d.accept("a@example.test", "b@far.test", data)
    for name in cases:
        if name != "junk":
            check_all(t, d, name, received(sink, name).data, keys, 2, server)
    junk = received(sink, "junk").data
    pepsi.check(len(re.findall(rb"(?mi)^dkim-signature:", junk)) == 3, "junk: %r" % junk[:3000])
    value = received(sink, "plain").data
    pepsi.check(b" x=" in value, "no x=: %r" % value)
    names = re.findall(r"[\w-]+", re.search(rb"\sh=([^;]+);", value).group(1).decode())
    for once in ("From", "To", "Subject", "Date", "Message-ID"):
        pepsi.check(names.count(once) == 2, "%s is not oversigned: %s" % (once, names))
    # through a second time: the same signatures hold, none is added
    d.accept("a@example.test", "b@far.test", value)
    twice = pepsi.wait_for("the message again", lambda: [m for m in list(sink.messages) if b"Subject: plain" in m.data][1:], 20)[0].data
    check_all(t, d, "again", twice, keys, 2, server)
    d.wait_empty()
    # a key more, without a restart
    keys.make("example.test", "later", "rsa3072")

    def third():
        d.accept("a@example.test", "b@far.test", mail("more%d" % len(sink.messages)))
        d.wait_empty()
        return b"s=later" in sink.messages[-1].data
    pepsi.wait_for("the new key", third, 20, 1)
    with open(d.log) as f:
        log = f.read()
    pepsi.check("signed domain=example.test selector=r algorithm=rsa2048 author=example.test" in log, "no line in the log")
    d.stop()


def who_is_ours(t):
    keys = Keys(t)
    keys.make("example.test", "r")
    d, sink = daemon(t, keys, "SUBDOMAINS = YES\n", pepsi="RELAY_NETWORKS = 127.0.0.2/32\nLOCAL_DOMAINS = example.test far.test\n")
    d.accept("x@outside.test", "b@far.test", mail("forged"))
    pepsi.check(b"DKIM-Signature" not in received(sink, "forged").data, "mail from outside was signed in our name")
    s = pepsi.Smtp(d.port, source="127.0.0.2")
    pepsi.check(s.send("a@example.test", "b@far.test", mail("relayed"))[0] == 250, "not accepted")
    s.close()
    pepsi.check(b"d=example.test" in received(sink, "relayed").data, "mail of our network was not signed")
    d.counts(1, "dkim_messages_total", result="signed")
    d.counts(1, "dkim_messages_total", result="from_outside")
    d.stop()
    # a report that Pepsi makes: its From is of the domain that HOSTNAME is in, which signs, aligned
    d, sink = daemon(t, keys, "SUBDOMAINS = YES\n", pepsi="LOCAL_DOMAINS = example.test far.test\n")
    sink.script["rcpt"] = lambda argument: "550 5.1.1 nobody" if "nobody@" in argument else None
    d.accept("a@outside.test", "nobody@far.test", mail("lost", sender="a@outside.test"))
    report = received(sink, "", 30).data
    pepsi.check(b"d=example.test" in report and re.search(rb"(?mi)^From: .*MAILER-DAEMON@example\.test", report), "the report: %r" % report[:2000])
    d.stop()


def trial(d, keys, data, *options):
    path = os.path.join(d.dir, "trial.eml")
    with open(path, "wb") as f:
        f.write(data)
    args = ["--json", "stage", "run", "pepsi-stage-dkim-sign", "--message", path, "--from", "a@example.test", "--to", "b@far.test",
            "--set", "KEY_DIR=" + keys.path, "--set", "NEXT_STAGE=out"]
    for o in options:
        args += ["--set", o]
    code, out, err = d.cli(*args, uid=None if not pepsi.ROOT else pepsi.service_account().pw_uid)
    pepsi.check(out.startswith("{"), "stage run: %d %s%s" % (code, out, err))
    return json.loads(out)


def said(r):
    return " | ".join(x["text"] for x in r.get("log", []))


def expect(r, name, signed, text=""):
    """signed: how many; None: it waits; "no": given back."""
    diff = "\n".join(r.get("headers_diff", []))
    if signed is None:
        pepsi.check(r["returned"] == -1, "%s: does not wait: %s" % (name, r))
    elif signed == "no":
        pepsi.check(r.get("terminal") in ("fail", "reroute"), "%s: not given back: %s" % (name, r))
    else:
        pepsi.check(r["returned"] == 0 and diff.count("+DKIM-Signature:") == signed, "%s: not signed %d times: %s" % (name, signed, r))
    pepsi.check(text in said(r), "%s: says %r, not %r" % (name, said(r), text))


def what_is_signed(t):
    keys = Keys(t)
    keys.make("example.test", "r")
    keys.make("xn--mnchen-3ya.test", "i", "ed25519")
    d, sink = daemon(t, keys, start=False)
    sub = mail(sender="a@deep.sub.example.test")
    expect(trial(d, keys, mail()), "our domain", 1, "signed domain=example.test")
    expect(trial(d, keys, sub), "a domain below", 0)
    expect(trial(d, keys, sub, "SUBDOMAINS=YES"), "a domain below, by that above", 1, "signed domain=example.test selector=r algorithm=rsa2048 author=deep.sub.example.test")
    expect(trial(d, keys, mail(sender="a@münchen.test")), "a domain of U-labels", 1, "signed domain=xn--mnchen-3ya.test")
    expect(trial(d, keys, mail(sender="a@EXAMPLE.test")), "case", 1, "signed domain=example.test")
    expect(trial(d, keys, mail(sender="a@example.test>, <b@xn--mnchen-3ya.test")), "two authors", 2)
    expect(trial(d, keys, mail(sender="a@other.test")), "another's domain", 0)
    expect(trial(d, keys, mail(sender="a@other.test"), "REQUIRE=other.test"), "required, no key", None, "no active key")
    expect(trial(d, keys, mail(sender="a@x.other.test"), "REQUIRE=*.other.test"), "required below, no key", None, "no active key")
    expect(trial(d, keys, mail(sender="a@other.test"), "REQUIRE=*.other.test"), "not below", 0)
    expect(trial(d, keys, mail(more=b"From: evil@other.test\r\n")), "two From fields", 0, "several From fields")
    expect(trial(d, keys, mail(more=b"From: evil@other.test\r\n"), "REQUIRE=example.test"), "two From fields, required", "no", "several From fields")
    expect(trial(d, keys, mail(sender="../../etc@example.test/../x")), "a path for a domain", 0)
    inside = os.path.join(keys.path, "x")
    os.mkdir(inside, 0o700)
    os.rename(os.path.join(keys.path, "xn--mnchen-3ya.test"), os.path.join(inside, "y"))
    owned(inside)
    expect(trial(d, keys, mail(sender="a@x/y")), "a folder below a folder for a domain", 0, "an author's domain is none")
    expect(trial(d, keys, mail(sender="a@[127.0.0.1]")), "a literal", 0)
    expect(trial(d, keys, mail(more=b"Cc: x@y.test\r\n" * 5000)), "thousands of fields", 0, "too many header fields")
    expect(trial(d, keys, mail(body=b"no line end")), "no line end", 1)
    expect(trial(d, keys, mail(body=b"\x80\xff\r\n. \t\r\n")), "binary", 1)
    for c in ("relaxed/simple", "simple/relaxed", "simple/simple"):
        r = trial(d, keys, mail("f  g\r\n\th "), "CANONICALIZATION=" + c)
        expect(r, c, 1)
        pepsi.check("c=" + c in "".join(r["headers_diff"]), "%s: %s" % (c, r))
    r = trial(d, keys, mail(), "HEADERS=Subject To", "OVERSIGN=Subject")
    expect(r, "chosen fields", 1)
    pepsi.check("h=To:Subject:From:Subject" in "".join(r["headers_diff"]) or sorted(re.search(r"h=([\w:-]+);", "".join(r["headers_diff"])).group(1).split(":")) ==
                ["From", "From", "Subject", "Subject", "To"], "chosen fields: %s" % r["headers_diff"])


def faults_of_keys(t):
    keys = Keys(t)
    d, sink = daemon(t, keys, start=False)
    path = keys.make("example.test", "r")
    folder = os.path.dirname(path)
    with open(path, "rb") as f:
        good = f.read()

    def broken(name, text, change, repair):
        change()
        expect(trial(d, keys, mail()), name, None, text)
        repair()
        expect(trial(d, keys, mail()), name + ", repaired", 1)

    def write(data):
        with open(path, "wb") as f:
            f.write(data)

    for mode, text in ((0o644, "may be read or changed by others"), (0o640, "may be read or changed by others")):
        broken("mode %o" % mode, text, lambda: os.chmod(path, mode), lambda: os.chmod(path, 0o600))
    broken("an open folder", "may be changed by others", lambda: os.chmod(folder, 0o777), lambda: os.chmod(folder, 0o700))
    broken("garbage", "no private key in PEM", lambda: write(b"hello\n"), lambda: write(good))
    broken("nothing", "empty", lambda: write(b""), lambda: write(good))
    broken("far too much", "too long", lambda: write(good * 100), lambda: write(good))
    small = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    broken("1024 bits", "fewer than 2048 bits", lambda: write(small), lambda: write(good))
    locked = subprocess.run(["openssl", "pkcs8", "-topk8", "-in", path, "-passout", "pass:x"], stdout=subprocess.PIPE, check=True).stdout
    broken("a pass phrase", "pass phrase", lambda: write(locked), lambda: write(good))
    curve = subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], stdout=subprocess.PIPE, check=True).stdout
    broken("another kind", "neither an RSA key nor an Ed25519 key", lambda: write(curve), lambda: write(good))

    def link():
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
    broken("a symbolic link", "symbolic link", link, lambda: os.rename(path + ".real", path))
    if pepsi.ROOT:
        broken("another's", "another account", lambda: (os.chown(path, 0, 0), os.chmod(path, 0o604)), lambda: (owned(path), os.chmod(path, 0o600)))
        broken("unreadable", "may not be read", lambda: os.chown(path, 0, 0), lambda: owned(path))
    ring = os.path.join(folder, "keys")
    with open(ring, "w") as f:
        f.write("r rsa2048 sleeping 1\n")
    owned(ring)
    expect(trial(d, keys, mail()), "a ring of no sense", None, "line 1: a state is")
    with open(ring, "w") as f:
        f.write("r rsa2048 waiting 1\n")
    expect(trial(d, keys, mail()), "a waiting key", 0)
    with open(ring, "w") as f:
        f.write("r rsa2048 active 1\nlost rsa2048 active 1\n")
    expect(trial(d, keys, mail()), "one of two", 1, "lost.pem is not there")


if __name__ == "__main__":
    pepsi.main(__file__, [holds_everywhere, seven_bit, who_is_ours, what_is_signed, faults_of_keys])
