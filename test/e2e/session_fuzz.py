"""Sessions at random against the running daemon: verbs, parameters, lines too long, octets that are none, DATA and BDAT with true and false
ends, AUTH, STARTTLS with records broken on purpose, PROXY headers, any segmentation, ends in the middle. On a sanitized build whatever is
reported fails the test; on any build the daemon must be the same processes with the same descriptors afterwards, take honest mail all the
while, and have a book that adds up.

    PEPSI_FUZZ_SECONDS=300     how long (default 15)
    PEPSI_FUZZ_SEED=N          the same choices again (what the daemon's timing makes of them may differ)
"""
import base64
import os
import random
import resource
import select
import socket
import ssl
import struct
import threading
import time

import pepsi
from certs import Authority

SECONDS = float(os.environ.get("PEPSI_FUZZ_SECONDS") or 15)
SEED = int(os.environ.get("PEPSI_FUZZ_SEED") or random.SystemRandom().getrandbits(32))
THREADS = 6
PASSWORD = "a secret, truly"

ADDRESSES = [b"<a@example.test>", b"<rcpt@example.test>", b"<>", b"<x@elsewhere.test>", b"<\"q uoted\"@example.test>", b"<@r,@s:a@example.test>", b"<a@[127.0.0.1]>",
             b"<a@[IPv6:::1]>", "<\u00fc@example.test>".encode(), b"<a@" + b"b" * 250 + b">", b"<a\0@example.test>", b"a@example.test", b"<a..b@c>", b" <a@example.test>", b"<postmaster>"]
MAIL = [b"SIZE=100", b"SIZE=99999999999", b"SIZE=", b"BODY=8BITMIME", b"BODY=BINARYMIME", b"BODY=7BIT", b"SMTPUTF8", b"RET=FULL", b"RET=HDRS", b"ENVID=a+2Bb", b"ENVID=+0A",
        b"AUTH=<>", b"AUTH=a+3D", b"REQUIRETLS", b"HOLDFOR=1", b"HOLDUNTIL=2030-01-01T00:00:00Z", b"BY=100;R", b"BY=-1;NT", b"MT-PRIORITY=9", b"MT-PRIORITY=-3", b"PRDR", b"X=1", b"=",
        b"SIZE=1 SIZE=1", b"x" * 600]
RCPT = [b"NOTIFY=NEVER", b"NOTIFY=SUCCESS,DELAY", b"NOTIFY=", b"ORCPT=rfc822;a+2Bb", b"ORCPT=rfc822;+C3+A4", b"ORCPT=utf-8;\\x{E4}", b"ORCPT=;", b"ORCPT=utf-8;\xff", b"Y"]
NEAR = [b"\r\n.\r\n", b"\n.\n", b"\r\n.\n", b"\n.\r\n", b"\r.\r", b"\r\n..\r\n", b"\r\n.\0\r\n", b"\r\r\n.\r\r\n", b"\0", b"\r", b"\n", b".", b"\r\n", b"\r\n.", b"\xff\xfe"]


class Speaker:
    """What one session says; the choices are its own generator's."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def some(self, table, most=3):
        return b"".join(b" " + self.r.choice(table) for _ in range(self.r.randrange(most)))

    def octets(self, n):
        return bytes(self.r.getrandbits(8) for _ in range(n))

    def content(self):
        r = self.r
        parts = [r.choice((b"Subject: x\r\nX-Token: fuzz\r\n\r\n", b"", b"no header\r\n", b"A: b\r\n folded\r\n\r\n", b"Received: x\r\n" * r.choice((1, 130))))]
        for _ in range(r.randrange(6)):
            parts.append(r.choice((b"text\r\n", b".dot\r\n", b"line\r\n" * r.choice((1, 100, 30000)), b"MAIL FROM:<a@example.test>\r\n")
                                  + (b"x" * r.choice((10, 998, 1100, 5000, 70000)), self.octets(r.randrange(40)), r.choice(NEAR)) * (r.random() < 0.3)))
        return b"".join(parts)

    def auth(self):
        r = self.r
        b64 = base64.b64encode
        good, bad = b64(b"\0alice\0" + PASSWORD.encode()), b64(b"\0alice\0" + self.octets(r.randrange(20)))
        return r.choice((b"AUTH PLAIN " + good + b"\r\n", b"AUTH PLAIN\r\n" + good + b"\r\n", b"AUTH PLAIN " + bad + b"\r\n", b"AUTH LOGIN\r\n" + b64(b"alice") + b"\r\n" + b64(PASSWORD.encode()) + b"\r\n",
                         b"AUTH LOGIN " + b64(b"alice") + b"\r\n*\r\n", b"AUTH SCRAM-SHA-256 " + b64(b"n,,n=alice,r=" + b64(self.octets(18))) + b"\r\n" + b64(self.octets(30)) + b"\r\n",
                         b"AUTH SCRAM-SHA-256-PLUS " + b64(b"p=tls-exporter,,n=alice,r=abc") + b"\r\n*\r\n", b"AUTH OAUTHBEARER " + b64(b"n,a=alice,\x01auth=Bearer x\x01\x01") + b"\r\nAQ==\r\n",
                         b"AUTH EXTERNAL =\r\n", b"AUTH X\r\n", b"AUTH PLAIN ====\r\n", b"AUTH PLAIN " + b"A" * 14000 + b"\r\n", b"AUTH PLAIN\r\n" + self.octets(60).replace(b"\n", b"") + b"\r\n"))

    def data(self):
        return b"DATA\r\n" + self.content() + self.r.choice((b"\r\n.\r\n", b"\r\n.\r\n", b"\r\n.\r\n", b"", b"\n.\n"))

    def bdat(self):
        r, out = self.r, b""
        for i in range(1 + r.randrange(3)):
            c = self.content() if r.random() < 0.7 else b""
            n = len(c) if r.random() < 0.85 else r.choice((0, 1, len(c) + 5, 99999, -1, 1 << 63, 1 << 64))
            out += b"BDAT %d%s\r\n" % (n, b" LAST" if r.random() < 0.5 else b"") + c
        return out

    def transaction(self):
        r = self.r
        out = b"MAIL FROM:" + (r.choice(ADDRESSES[:2]) if r.random() < 0.7 else r.choice(ADDRESSES)) + (self.some(MAIL) if r.random() < 0.5 else b"") + b"\r\n"
        for _ in range(r.choice((0, 1, 1, 1, 2, 5, 120 if r.random() < 0.05 else 3))):
            out += b"RCPT TO:" + (ADDRESSES[1] if r.random() < 0.7 else r.choice(ADDRESSES)) + (self.some(RCPT) if r.random() < 0.4 else b"") + b"\r\n"
        return out + r.choice((self.data, self.data, self.data, self.bdat, self.bdat, lambda: b""))()

    def line(self):
        r = self.r
        return r.choice((b"NOOP\r\n", b"RSET\r\n", b"VRFY a\r\n", b"EXPN a\r\n", b"HELP\r\n", b"HELO x.test\r\n", b"EHLO y.test\r\n", b"LHLO z.test\r\n", b"EHLO [IPv6:::1]\r\n", b"EHLO \xff\r\n",
                         b"STARTTLS\r\n", b"QUIT\r\n" if r.random() < 0.2 else b"NOOP x\r\n", b"x" * r.choice((1, 600, 5000)) + b"\r\n", self.octets(r.randrange(80)), b"\r\n", b"GET / HTTP/1.1\r\n",
                         b"XCLIENT ADDR=192.0.2.%d NAME=x.test\r\n" % r.randrange(300), b"XCLIENT ADDR=+0A\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n", b"NOOP\n", b"NOOP\r", r.choice(NEAR)))

    def apart(self, said):
        """What ends a group of pipelined commands is sent alone, most of the time: with more behind it the session ends."""
        if self.r.random() < 0.12:
            return [said]
        if said.startswith(b"AUTH"):
            return [x + b"\r\n" for x in said.split(b"\r\n")[:-1]]
        at = said.find(b"DATA\r\n")
        return [said[:at], said[at:at + 6], said[at + 6:]] if at > 0 and b"BDAT" not in said[:at] else [said]

    def script(self):
        r = self.r
        out = [r.choice((b"EHLO fuzz.test\r\n",) * 4 + (b"HELO fuzz.test\r\n", b"LHLO fuzz.test\r\n", b""))]
        for _ in range(1 + r.randrange(8)):
            out += self.apart(r.choice((self.transaction, self.transaction, self.transaction, self.line, self.auth))())
        return out

    def proxy(self):
        r = self.r
        v2 = b"\r\n\r\n\0\r\nQUIT\n"
        tlvs = b"".join(bytes([r.choice((1, 2, 3, 4, 5, 0x20, 0x30, r.randrange(256)))]) + struct.pack(">H", n) + self.octets(n) for n in [r.randrange(20) for _ in range(r.randrange(4))])
        body = self.octets(12) + tlvs
        return r.choice((b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 25\r\n", b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 25\r\n", b"PROXY UNKNOWN\r\n", b"PROXY UNKNOWN " + b"x" * r.randrange(120) + b"\r\n",
                         b"PROXY TCP4 1.2.3.4\r\n", v2 + b"\x21\x11" + struct.pack(">H", len(body)) + body, v2 + b"\x21\x21" + struct.pack(">H", 36 + len(tlvs)) + self.octets(36) + tlvs,
                         v2 + b"\x20\0\0\0", v2 + bytes([r.randrange(256), r.randrange(256)]) + struct.pack(">H", r.randrange(65536)) + self.octets(r.randrange(300)), v2 + b"\x21\x11\0\x0c" + self.octets(5),
                         self.octets(r.randrange(60)), b"EHLO x\r\n"))


class Fuzzer:
    def __init__(self, site):
        self.site, self.over = site, time.monotonic() + SECONDS
        self.lock, self.next = threading.Lock(), 0
        self.sessions = self.octets = self.replies = self.accepted = self.secured = self.broken = 0
        self.wrong = []

    def run(self):
        while time.monotonic() < self.over:
            with self.lock:
                n, self.next = self.next, self.next + 1
            try:
                self.session(Speaker(SEED * 1000003 + n), n)
            except (OSError, ValueError):
                self.broken += 1
            except Exception as e:
                with self.lock:
                    self.wrong.append("session %d: %s: %s" % (n, type(e).__name__, e))

    def session(self, sp, n):
        r = sp.r
        name, where = r.choice(self.site.ways)
        s = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        with s:
            s.settimeout(10)
            s.connect(where)
            with self.lock:
                self.sessions += 1
            if name == "proxy" and r.random() < 0.95:
                self.say(s, sp.proxy(), r)
            if name == "submissions":
                s = self.secure(s, sp, r)
                if not s:
                    return
            if r.random() < 0.9 and not self.hear(s):
                return
            for part in sp.script():
                if part == b"STARTTLS\r\n" and not isinstance(s, ssl.SSLSocket) and r.random() < 0.9:
                    s.sendall(part)
                    if b"220" in (self.hear(s) or b""):
                        s = self.secure(s, sp, r)
                        if not s:
                            return
                    continue
                if not self.say(s, part, r):
                    return
                if part == b"DATA\r\n" or part.startswith(b"AUTH") or r.random() < 0.6:
                    got = self.hear(s, 0.02 if r.random() < 0.8 else 0.2)
                    if got is None:
                        return
            if r.random() < 0.3:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif r.random() < 0.3 and not isinstance(s, ssl.SSLSocket):
                s.shutdown(socket.SHUT_WR)
                self.hear(s, 0.3)
            else:
                self.hear(s, 0.05)
            s.close()

    def secure(self, s, sp, r):
        """The handshake, or something like it; None when the session is over."""
        if r.random() < 0.25:
            hello = self.site.hello()
            at = r.randrange(len(hello))
            broken = r.choice((hello[:at], hello[:at] + bytes([hello[at] ^ (1 << r.randrange(8))]) + hello[at + 1:], sp.octets(r.randrange(100)), b"\x16\x03\x01\xff\xff" + sp.octets(50), hello + sp.octets(40),
                               b"EHLO plain.test\r\n"))
            self.say(s, broken, r)
            self.hear(s, 0.05, smtp=False)
            s.close()
            return None
        s = self.site.context.wrap_socket(s, server_hostname="mx.example.test")
        with self.lock:
            self.secured += 1
        return s

    def say(self, s, octets, r):
        how = r.random()
        step = len(octets) if how < 0.6 or len(octets) > 3000 else 1 if how < 0.75 else 1 + r.randrange(40)
        try:
            for i in range(0, len(octets), max(1, step)):
                s.sendall(octets[i:i + step])
        except OSError:
            return False
        with self.lock:
            self.octets += len(octets)
        return True

    def hear(self, s, seconds=0.3, smtp=True):
        """What comes within so much time; None: the session is over."""
        got = b""
        while True:
            if not (isinstance(s, ssl.SSLSocket) and s.pending()) and not select.select([s], [], [], seconds)[0]:
                break
            try:
                more = s.recv(65536)
            except OSError:
                return None
            if not more:
                break
            got += more
            seconds = 0.002
        with self.lock:
            self.replies += got.count(b"\n")
            self.accepted += got.count(b"queued as")
        # whatever is said to it, what it says are replies
        if got and smtp and not (got[:3].isdigit() and got[3:4] in (b" ", b"-")):
            with self.lock:
                self.wrong.append("no reply: %r" % got[:80])
        return got if got else None if select.select([s], [], [], 0)[0] else got


class Site:
    def __init__(self, t):
        self.ca = Authority(t)
        tls = "TLS_CERT = %s\nTLS_KEY = %s\n" % self.ca.issue("mx.example.test", "DNS:mx.example.test")
        ports = {n: pepsi.free_port() for n in ("submission", "submissions", "lmtp", "proxy")}
        unix = os.path.join(t.dir, "in")
        limits = "MAX_CONNECTIONS_PER_ADDRESS = 1000\nMESSAGE_SIZE_LIMIT = 256 KiB\n"
        every = ("EXTENSIONS = pipelining size 8bitmime smtputf8 dsn enhancedstatuscodes chunking binarymime starttls requiretls limits deliverby futurerelease mt-priority prdr "
                 "help expn xclient\nXCLIENT_FROM = 127.0.0.1\n")
        more = "".join("[listener-%s]\nBIND = 127.0.0.1:%d\nPROTOCOL = %s\n%s%s" % (n, p, n, limits, tls) for n, p in ports.items() if n not in ("proxy", "lmtp"))
        more += "[listener-lmtp]\nBIND = 127.0.0.1:%d unix:%s\nPROTOCOL = lmtp\n%s" % (ports["lmtp"], unix, limits)
        more += "[listener-proxy]\nBIND = 127.0.0.1:%d\nPROXY_FROM = 127.0.0.1\n%s%s" % (ports["proxy"], limits, tls)
        more += "[pepsi-signin]\nFAIL_DELAY = 0\n"
        os.chmod(t.dir, 0o755)
        self.d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-discard\n", listener=limits + tls + every + "MAX_ERRORS = 30\n", more=more)
        self.ways = [("mx", ("127.0.0.1", self.d.port))] * 4 + [(n, ("127.0.0.1", p)) for n, p in ports.items()] + [("lmtp", unix)]
        self.context = self.ca.context()
        deadline = time.monotonic() + 60
        while self.d.cli("account", "add", "alice", "--password-stdin", stdin=PASSWORD.encode() + b"\n")[0]:
            pepsi.check(time.monotonic() < deadline, "no account can be made")
            time.sleep(0.2)

    def hello(self):
        out = ssl.MemoryBIO()
        o = self.context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="mx.example.test")
        try:
            o.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return out.read()


def descriptors(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def session_fuzz(t):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    pepsi.say("      seed %d" % SEED)
    site = Site(t)
    d = site.d
    d.accept("sender@example.test", "rcpt@example.test", pepsi.message("before"))
    d.wait_empty()
    reactor, spawner = d.reactor_pid(), d.spawner_pid()
    signin = [p for p in pepsi.proc_tree(spawner) if pepsi.proc_comm(p) == "pepsi-signin"]
    before = (descriptors(reactor), descriptors(spawner))
    f = Fuzzer(site)
    threads = [threading.Thread(target=f.run, daemon=True) for _ in range(THREADS)]
    for x in threads:
        x.start()
    honest, slowest = 0, 0.0
    while time.monotonic() < f.over:
        began = time.monotonic()
        d.accept("sender@example.test", "rcpt@example.test", pepsi.message("honest-%d" % honest))
        slowest = max(slowest, time.monotonic() - began)
        honest += 1
        time.sleep(0.1)
    for x in threads:
        x.join(60)
        pepsi.check(not x.is_alive(), "a session hangs")
    pepsi.say("      %d sessions, %d within TLS, %d broken off, %d octets said, %d lines of replies, %d messages accepted; %d honest ones beside them, the slowest %.0f ms"
              % (f.sessions, f.secured, f.broken, f.octets, f.replies, f.accepted, honest, slowest * 1000))
    pepsi.check(not f.wrong, "%d wrong, e.g. %s" % (len(f.wrong), f.wrong[:5]))
    pepsi.check(f.accepted and f.secured and f.sessions > SECONDS, "the fuzzer did not get anywhere")
    pepsi.wait_for("no session is left", lambda: d.status()["ingress"]["sessions"] == 0, 30)
    d.wait_empty(60)
    pepsi.check(d.running() and d.reactor_pid() == reactor, "the reactor is another one")
    pepsi.check(all(pepsi.alive(p) for p in signin), "the admin child is another one")
    # what pools keep, and the worker that is waiting, may come on top; a leak would grow with the sessions
    after = pepsi.wait_for("descriptors as before (%s)" % (before,), lambda: (descriptors(reactor) <= before[0] + 4 and descriptors(spawner) <= before[1] + 2)
                           and (descriptors(reactor), descriptors(spawner)), 70)
    strangers = [p for p in pepsi.proc_tree(spawner) if pepsi.proc_exe(p).startswith(pepsi.BIN) and p not in signin + [reactor] and not pepsi.proc_comm(p).startswith(("init", "pepsi-"))]
    pepsi.say("      descriptors of reactor and spawner: %d and %d before, %d and %d after" % (before + after))
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"] + s["queue"]["total"], "the book does not add up: %s" % s)
    pepsi.check(not strangers, "left running: %s" % [pepsi.proc_cmdline(p) for p in strangers])
    d.accept("sender@example.test", "rcpt@example.test", pepsi.message("after"))
    d.stop()


pepsi.main(__file__, [session_fuzz])
