"""What the extensions of SMTP promise is carried out behind the 250, too: held mail is a paused row and goes out in its time, deadlines return
or report, priorities order a sender's own mail, TLS all the way or a report, binary mail by BDAT or a report."""
import email
import os
import re
import ssl
import subprocess
import time

import pepsi

FROM = "alice@example.test"
ALL = ("PIPELINING", "8BITMIME", "SIZE 52428800", "SMTPUTF8", "ENHANCEDSTATUSCODES", "DSN", "DELIVERBY", "MT-PRIORITY", "CHUNKING", "BINARYMIME")


def utc(at):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def certificate(t, name="hop"):
    """An authority and a certificate for 127.0.0.1 that it vouches for."""
    openssl, at = pepsi.need("openssl"), lambda f: os.path.join(t.dir, name + f)

    def run(*args):
        subprocess.run([openssl] + list(args), check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *curve, "-days", "30", "-subj", "/CN=authority", "-keyout", at(".cakey"), "-out", at(".ca"))
    run("req", *curve, "-subj", "/CN=127.0.0.1", "-keyout", at(".key"), "-out", at(".csr"))
    with open(at(".ext"), "w") as f:
        f.write("subjectAltName=IP:127.0.0.1,DNS:mx.example.test\nbasicConstraints=CA:FALSE\n")
    run("x509", "-req", "-in", at(".csr"), "-CA", at(".ca"), "-CAkey", at(".cakey"), "-CAcreateserial", "-days", "30", "-extfile", at(".ext"), "-out", at(".pem"))
    for f in (".ca", ".pem", ".key"):
        os.chmod(at(f), 0o644)
    os.chmod(t.dir, 0o755)
    return at(".ca"), at(".pem"), at(".key")


def starttls(s):
    code, text = s.cmd("STARTTLS")
    pepsi.check(code == 220, "STARTTLS: %d %s" % (code, text))
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    s.file.close()
    s.sock = context.wrap_socket(s.sock)
    s.file = s.sock.makefile("rb")
    s.extensions = s.cmd("EHLO client.example.test")[1].split("\n")[1:]


class Site:
    shared = None

    @classmethod
    def of(cls, t):
        cls.shared = cls.shared or cls(t)
        return cls.shared

    def __init__(self, t):
        ca, cert, key = certificate(t)
        self.full, self.plain = pepsi.Sink(t, extensions=ALL), pepsi.Sink(t)
        self.secure = pepsi.Sink(t, extensions=ALL + ("STARTTLS",), tls=(cert, key))
        self.secure.tls_extensions = ALL + ("REQUIRETLS",)
        self.stranger = pepsi.Sink(t, extensions=ALL + ("STARTTLS",), tls=certificate(t, "stranger")[1:])
        self.stranger.tls_extensions = ALL + ("REQUIRETLS",)
        stages = pepsi.route("init", [("full.test", "full"), ("plain.test", "plain"), ("secure.test", "secure"), ("may.test", "may"),
                                      ("stranger.test", "stranger"), ("example.test", "maildir"), ("nobody.test", "nobody")], "plain")
        tls = lambda name, port, mode, more="": pepsi.smarthost(name, port, more).replace("TLS = none", "TLS = %s\nTLS_CA_FILE = %s" % (mode, ca))
        self.d = d = pepsi.Pepsid(t, "", start=False)
        d.write_config(stages + pepsi.maildir("maildir", d.mail) + pepsi.smarthost("full", self.full.port, "PARALLELISM = 1\nQUEUE_LIMIT = 1\nALLOW_FUSION = NO\n")
                       + pepsi.smarthost("plain", self.plain.port)
                       + tls("secure", self.secure.port, "require") + tls("may", self.secure.port, "may") + tls("stranger", self.stranger.port, "may")
                       + pepsi.smarthost("nobody", pepsi.free_port(), "MAX_LIFETIME = 1 h\n").replace("RETRY_MIN = 1 s\nRETRY_MAX = 2 s", "RETRY_MIN = 10 min\nRETRY_MAX = 1 h")
                       + pepsi.bounce(),
                       listener="TLS_CERT = %s\nTLS_KEY = %s\nMAX_HOLD = 1 d\nMIN_DELIVER_BY = 2 s\n" % (cert, key))
        d.keep = True
        d.start()

    def send(self, token, to, params="", code=250, tls=False, data=None):
        s = pepsi.Smtp(self.d.port)
        if tls:
            starttls(s)
        got = s.send(FROM, to, data or pepsi.message(token, sender=FROM), params)
        s.close()
        pepsi.check(got[0] == code, "%s: %d %s" % (token, *got))
        return int(got[1].rsplit(" ", 1)[1]) if code == 250 else got[1]

    def report(self, token, status):
        def there():
            return [m for m in self.d.maildir(FROM) if b"X-Token: %s\r\n" % token.encode() in m and b"Status: " + status.encode() in m]
        return pepsi.wait_for("report of %s with %s" % (token, status), there, 25)[0]

    def at(self, sink, token, seconds=20):
        return pepsi.wait_for("%s at the next hop" % token, lambda: [m for m in sink.messages if m.token == token], seconds)[0]


def announced(t):
    site = Site.of(t)
    s = pepsi.Smtp(site.d.port)
    have = {e.split()[0]: e for e in s.extensions}
    for name in ("FUTURERELEASE", "DELIVERBY", "MT-PRIORITY", "CHUNKING", "BINARYMIME"):
        pepsi.check(name in have, "%s is not announced: %s" % (name, s.extensions))
    pepsi.check(have["DELIVERBY"] == "DELIVERBY 2", have["DELIVERBY"])
    pepsi.check(re.match(r"FUTURERELEASE 86400 20\d\d-", have["FUTURERELEASE"]), have["FUTURERELEASE"])
    pepsi.check("REQUIRETLS" not in have, "REQUIRETLS outside TLS")
    starttls(s)
    pepsi.check("REQUIRETLS" in s.extensions, "no REQUIRETLS inside TLS: %s" % s.extensions)
    s.close()


def held(t):
    """A hold is a paused row that the queue shows, over a restart too; it goes out in its time and not before."""
    site = Site.of(t)
    d = site.d
    began = time.time()
    soon = site.send("soon", "x@full.test", "HOLDFOR=4")
    far = site.send("far", "x@full.test", "HOLDUNTIL=" + utc(began + 3600))
    past = site.send("past", "x@full.test", "HOLDUNTIL=2020-01-01T00:00:00Z")
    site.send("toofar", "x@full.test", "HOLDFOR=86401", code=501)
    site.send("both", "x@full.test", "HOLDFOR=60 BY=10;R", code=501)
    rows = {m["id"]: m for m in d.queue()}
    pepsi.check(far in rows and rows[far]["status"] == "paused" and rows[far]["hold"] == "sender" and rows[far]["next_attempt_at"], rows)
    site.at(site.full, "past")
    m = site.at(site.full, "soon")
    pepsi.check(m.at >= began + 3.9, "it came after %.2f s, not 4" % (m.at - began))
    pepsi.check(m.at <= began + 30, "it came after %.2f s, not 4" % (m.at - began))
    code, out, err = d.cli("queue", "show", str(far))
    pepsi.check(code == 0 and "hold" in out, "pepsi queue show: %s%s" % (out, err))
    pepsi.check("far" not in site.full.tokens(), "it went out at once")
    code, out, err = d.cli("queue", "retry", str(far))
    pepsi.check(code == 0, "pepsi queue retry: %s%s" % (out, err))
    site.at(site.full, "far")
    text = d.metrics()
    pepsi.check(int(text["pepsi_smtp_held_total"]) == 2, "pepsi_smtp_held_total is %s" % text["pepsi_smtp_held_total"])
    pepsi.check(past not in {m["id"] for m in d.queue()}, "what was to be held until 2020 waits")


def deadlines(t):
    """R comes back when its time is over, although the next try is far; N is told once and goes on; the time left is told to the next hop, and
    who does not know of deadlines gets no R."""
    site = Site.of(t)
    site.send("late", "x@nobody.test", "BY=3;R")
    site.send("lateN", "x@nobody.test", "BY=3;N")
    site.send("short", "x@full.test", "BY=1;R", code=555)
    site.send("passed", "x@full.test", "BY=600;R")
    site.send("deaf", "x@plain.test", "BY=600;R")
    site.send("trace", "x@plain.test", "BY=600;NT")
    left = int(re.search(r"BY=(\d+);R", site.at(site.full, "passed").mail_params).group(1))
    pepsi.check(590 < left <= 600, "BY=%d was told to the next hop" % left)
    pepsi.check(b"Action: failed" in site.report("deaf", "5.3.3"), "the report of deaf")
    pepsi.check(b"Action: relayed" in site.report("trace", "2."), "no Action: relayed")
    pepsi.check("BY=" not in site.at(site.plain, "trace").mail_params, "BY to a hop without DELIVERBY")
    r = site.report("late", "5.4.7")
    pepsi.check(b"Action: failed" in r and b"delivery time expired" in r, "the report: %r" % r)
    r = site.report("lateN", "4.4.7")
    pepsi.check(b"Action: delayed" in r, "the report: %r" % r)
    waiting = [m for m in site.d.queue() if m["status"] == "paused"]
    pepsi.check(len(waiting) == 1, "what was told late goes on: %s" % waiting)
    site.d.cli("queue", "retry", str(waiting[0]["id"]))  # tried again, late, and not told again
    pepsi.wait_for("the next try", lambda: any(m["id"] == waiting[0]["id"] and m["status"] == "paused" and m["next_attempt_at"] != waiting[0]["next_attempt_at"]
                                               for m in site.d.queue()), 15)
    n = [m for m in site.d.maildir(FROM) if b"X-Token: lateN\r\n" in m]
    pepsi.check(len(n) == 1, "%d reports of delay" % len(n))
    site.d.cli("queue", "delete", str(waiting[0]["id"]))


def priorities(t):
    """Urgent mail of a sender overtakes his own, and its priority goes along."""
    site = Site.of(t)
    site.full.script = {"rcpt": "hang"}
    site.send("stopper", "x@full.test")  # the one worker is at this, so that the others gather
    pepsi.wait_for("the worker is busy", lambda: [m for m in site.d.queue() if m["stage"] == "full" and m["status"] == "running"], 15)
    site.send("second", "x@full.test")  # handed to the worker ahead
    tokens = ["low%d" % i for i in range(3)] + ["normal%d" % i for i in range(3)] + ["urgent%d" % i for i in range(3)]
    for token in tokens:
        site.send(token, "x@full.test", {"l": "MT-PRIORITY=-5", "n": "", "u": "MT-PRIORITY=6"}[token[0]])
    pepsi.wait_for("all wait at the stage", lambda: len([m for m in site.d.queue() if m["stage"] == "full"]) == 11, 15)
    seen = len(site.full.messages)
    site.full.script = {}
    site.full.down()
    site.full.up()
    pepsi.wait_for("all of them", lambda: len(site.full.messages) == seen + 11, 40)
    order = [m.token for m in site.full.messages[seen:] if m.token in tokens]
    urgent, low = [order.index("urgent%d" % i) for i in range(3)], [order.index("low%d" % i) for i in range(3)]
    # the FIFO share gives a place away by age now and then
    pepsi.check(sum(urgent) + 6 < sum(low), "the order: %s" % order)
    for m in site.full.messages[seen:]:
        want = {"l": "MT-PRIORITY=-5", "u": "MT-PRIORITY=6"}.get(m.token[0])
        pepsi.check((want in m.mail_params) if want else "MT-PRIORITY" not in m.mail_params, "%s: %s" % (m.token, m.mail_params))


def tls_all_the_way(t):
    """REQUIRETLS goes on to a hop that promises it and shows a certificate we trust; no other gets the message, and its report is header only."""
    site = Site.of(t)
    for token, to in (("tls1", "x@secure.test"), ("tls2", "x@may.test")):
        site.send(token, to, "REQUIRETLS", tls=True)
        pepsi.check("REQUIRETLS" in site.at(site.secure, token).mail_params, "REQUIRETLS was not passed on: %s" % token)
    site.send("tls3", "x@plain.test", "REQUIRETLS RET=FULL", tls=True)
    site.send("tls4", "x@stranger.test", "REQUIRETLS", tls=True)
    for token in ("tls3", "tls4"):
        r = site.report(token, "5.7.30")
        pepsi.check(b"all work and no play" not in r, "the report of %s holds the body" % token)
    pepsi.check(not {"tls3", "tls4"} & set(site.plain.tokens() + site.stranger.tokens()), "it went out all the same")
    site.send("tls5", "x@stranger.test", tls=True)
    site.at(site.stranger, "tls5")


def binary(t):
    """BINARYMIME goes by BDAT to a hop that takes it, octet for octet, else as base64."""
    site = Site.of(t)
    body = bytes(range(256)) * 40 + b"\n.\nno line end"
    head = (b"From: <%s>\r\nSubject: binary\r\nX-Token: %%s\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Transfer-Encoding: binary\r\n\r\n" % FROM.encode())
    for token, to in (("bin1", "x@full.test"), ("bin2", "x@plain.test")):
        s = pepsi.Smtp(site.d.port)
        data = head % token.encode() + body
        s.raw(b"MAIL FROM:<%s> BODY=BINARYMIME\r\nRCPT TO:<%s>\r\nBDAT %d LAST\r\n%s" % (FROM.encode(), to.encode(), len(data), data))
        codes = [s.reply()[0] for _ in range(3)]
        pepsi.check(codes == [250, 250, 250], "%s: %s" % (token, codes))
        s.close()
    m = site.at(site.full, "bin1")
    pepsi.check(m.data.endswith(b"\r\n\r\n" + body) and "BODY=BINARYMIME" in m.mail_params and "(BDAT)" in m.mail_params, "not the octets sent: %s" % m.mail_params)
    m = site.at(site.plain, "bin2")
    got = email.message_from_bytes(m.data)
    pepsi.check(got.get_payload(decode=True) == body and got["Content-Transfer-Encoding"] == "base64" and "BODY" not in m.mail_params, "not the same octets: %r" % m.data[:500])
    site.d.wait_empty(20)
    s = site.d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"], "the books: %s" % s)
    site.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [announced, held, deadlines, priorities, tls_all_the_way, binary])
