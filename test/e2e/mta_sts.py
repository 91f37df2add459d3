"""The fetching child (core/fetch) and pepsi sts: policies of MTA-STS over HTTPS from servers of the test's, under an authority of the test's, names
from a DNS of the test's. What is well is fetched and kept; what is not is refused for the reason RFC 8460 has a word for; what leads inside is never
connected to, whatever the DNS says at which moment."""
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import threading
import time

import certs
import dnslab
import pepsi

POLICY = "version: STSv1\nmode: enforce\nmx: mx.%s\nmx: *.mail.%s\nmax_age: 604800\n"


class Web:
    """An HTTPS server on one port of loopback; which certificate and what answer, by the name that is asked for (SNI)."""

    def __init__(self, t, ca):
        self.ca, self.hosts, self.seen, self.lock = ca, {}, [], threading.Lock()
        self.heads = []
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(100)
        self.port = self.socket.getsockname()[1]
        self.connections = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*ca.issue("default.test", "DNS:default.test"))
        self.context.sni_callback = self.sni
        threading.Thread(target=self.accept, daemon=True).start()
        t.cleanup(self.close)

    def add(self, domain, answer=None, identity=None):
        name = "mta-sts." + domain
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*(identity or self.ca.issue(name, "DNS:" + name)))
        self.hosts[name] = (context, answer or ok(POLICY % (domain, domain)))

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def sni(self, connection, name, context):
        with self.lock:
            self.seen.append(name)
        if name in self.hosts:
            connection.context = self.hosts[name][0]

    def count(self, domain):
        with self.lock:
            return self.seen.count("mta-sts." + domain)

    def accept(self):
        while True:
            try:
                c, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.settimeout(150)
            c = self.context.wrap_socket(c, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                octets = c.recv(4096)
                if not octets:
                    return
                head += octets
            with self.lock:
                self.heads.append(head.decode("latin-1"))
            host = re.search(r"(?im)^host: *(\S+)", head.decode("latin-1")).group(1)
            self.hosts[host][1](c)
            c.close()
        except (OSError, ssl.SSLError, KeyError, AttributeError):
            pass


def ok(body, kind="text/plain", status="200 OK", more=""):
    octets = body if isinstance(body, bytes) else body.encode()
    return lambda c: c.sendall(("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" % (status, kind, len(octets), more)).encode() + octets)


def endless(c):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nversion: STSv1\nmode: none\nmax_age: 1\n")
    while True:
        c.sendall(b"x-more: " + b"y" * 1000 + b"\n")


def drip(c):
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        c.sendall(b"v")
        time.sleep(0.5)


def silent(c):
    time.sleep(25)


def record(zone, domain, ident="1", address="127.0.0.1"):
    zone["_mta-sts." + domain] = {"TXT": ["v=STSv1; id=%s;" % ident]}
    if address:
        zone["mta-sts." + domain] = {"AAAA" if ":" in address else "A": [address]}


class Site:
    def __init__(self, t, allow="127.0.0.0/8", more="", timeout="3 s"):
        self.ca = certs.Authority(t)
        os.chmod(self.ca.cert, 0o644)
        self.web = Web(t, self.ca)
        self.zone = {}
        self.dns = dnslab.Lab(self.zone)
        t.cleanup(self.dns.close)
        self.section = "[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 1 s\nMAX_TTL = 1 s\nMAX_NEGATIVE_TTL = 1 s\n[pepsi-mta-sts]\nFETCH = yes\nCA_FILE = %s\nPORT = %d\nFETCH_TIMEOUT = %s\n%s%s" % (
            self.dns.server, self.ca.cert, self.web.port, timeout, "ALLOW_NETWORKS = %s\n" % allow if allow else "", more)
        self.d = pepsi.Pepsid(t, "", start=False)
        self.configure(t)
        self.d.start()
        if "built without libcurl" in open(self.d.log, errors="replace").read():
            raise pepsi.Skip("built without libcurl")
        pepsi.wait_for("the fetching child is there", lambda: "event=fetch-ready" in self.log(), 60)

    def configure(self, t):
        self.d.write_config(pepsi.maildir("init", self.d.mail) + pepsi.bounce(), more=self.section)

    def add(self, domain, ident="1", address="127.0.0.1", **kw):
        record(self.zone, domain, ident, address)
        self.dns.zone = {k.lower(): v for k, v in self.zone.items()}
        if kw.get("web", True):
            kw.pop("web", None)
            self.web.add(domain, **kw)

    def log(self):
        with open(self.d.log, errors="replace") as f:
            return f.read()

    def fetch(self, domain):
        code, out, err = self.d.cli("--json", "sts", "fetch", domain)
        pepsi.check(out.strip().startswith("{"), "pepsi sts fetch %s: %d %s %s" % (domain, code, out, err))

        o = json.loads(out)
        pepsi.check((code == 0) == (o["result"] == "ok"), "exit status %d: %s" % (code, o))
        return o

    def children(self):
        return [p for p in pepsi.proc_tree(self.d.process.pid) if pepsi.proc_comm(p) == "pepsi-fetch"]


def fetched(t):
    s = Site(t)
    other = certs.Authority(t, "other")
    s.add("good.test")
    s.add("bom.test", answer=ok("version: STSv1\r\nmode: testing\r\nmx: a.test\r\nmax_age: 86400\r\n", "text/plain; charset=utf-8"))
    s.add("moved.test", answer=ok("", status="301 Moved", more="Location: https://mta-sts.good.test/.well-known/mta-sts.txt\r\n"))
    s.add("missing.test", answer=ok("no", status="404 Not Found"))
    s.add("html.test", answer=ok(POLICY % ("html.test", "html.test"), "text/html"))
    s.add("large.test", answer=ok("version: STSv1\nmode: none\nmax_age: 1\n" + "x: y\n" * 20000))
    s.add("endless.test", answer=endless)
    s.add("drip.test", answer=drip)
    s.add("silent.test", answer=silent)
    s.add("noise.test", answer=ok("this is not a policy\n"))
    s.add("nomx.test", answer=ok("version: STSv1\nmode: enforce\nmax_age: 86400\n"))
    s.add("wrongname.test", identity=s.ca.issue("mta-sts.else.test", "DNS:mta-sts.else.test", file="wrongname"))
    s.add("selfsigned.test", identity=other.issue("mta-sts.selfsigned.test", "DNS:mta-sts.selfsigned.test"))
    s.add("wild.test", identity=s.ca.issue("wild.test", "DNS:*.wild.test"))
    s.add("expired.test", identity=expired_certificate(s.ca, "mta-sts.expired.test"))
    s.add("norecord.test")
    s.zone.pop("_mta-sts.norecord.test")
    s.add("nohost.test", address=None)
    s.add("closed.test", address="127.0.0.9", web=False)
    s.dns.zone = dict(s.zone)
    for domain, result, why in (
            ("good.test", "ok", None), ("GOOD.test", "ok", None), ("bom.test", "ok", None), ("wild.test", "ok", None),
            ("moved.test", "sts-policy-fetch-error", "redirects"), ("missing.test", "sts-policy-fetch-error", "404"),
            ("html.test", "sts-policy-fetch-error", "text/html"), ("large.test", "sts-policy-fetch-error", "65536|size|exceed|large"),
            ("endless.test", "sts-policy-fetch-error", "65536"), ("drip.test", "sts-policy-fetch-error", "(?i)time"),
            ("silent.test", "sts-policy-fetch-error", "(?i)time"), ("noise.test", "sts-policy-invalid", "grammar"),
            ("nomx.test", "sts-policy-invalid", "mx"), ("wrongname.test", "sts-webpki-invalid", "(?i)subject|match"),
            ("selfsigned.test", "sts-webpki-invalid", "(?i)issuer|self|unable"), ("expired.test", "sts-webpki-invalid", "(?i)expired"),
            ("nohost.test", "sts-policy-fetch-error", "no address"), ("closed.test", "sts-policy-fetch-error", "(?i)connect")):
        began = time.monotonic()
        o = s.fetch(domain)
        pepsi.check(o["result"] == result and (not why or re.search(why, o["why"])), "%s: %s" % (domain, o))
        pepsi.check(o["kept"], "it is kept: %s" % o)
        pepsi.check(time.monotonic() - began < 12 * pepsi.SLACK, "%s took %.1f s" % (domain, time.monotonic() - began))
    o = s.fetch("norecord.test")
    pepsi.check(o["result"] == "ok" and not o["record"] and not o["kept"], "without a record nothing is kept: %s" % o)
    # what the servers saw: nothing of ours but the question
    head = next(h for h in s.web.heads if "mta-sts.good.test" in h)
    pepsi.check(head.startswith("GET /.well-known/mta-sts.txt HTTP/1.1\r\n") and not re.search(r"(?im)^(cookie|authorization|referer)", head), "the request: %s" % head)
    pepsi.check(s.web.count("good.test") == 2, "the redirect was not followed")
    # what is kept
    rows = {r["domain"]: r for r in s.d.json("sts", "list")}
    pepsi.check(rows["good.test"]["mode"] == "enforce" and rows["good.test"]["holds"] and rows["good.test"]["id"] == "1" and rows["good.test"]["failures"] == 0, "%s" % rows["good.test"])
    pepsi.check(rows["bom.test"]["mode"] == "testing" and rows["moved.test"]["failures"] == 1 and "mode" not in rows["moved.test"], "%s" % rows)
    pepsi.check(rows["wrongname.test"]["result"] == "sts-webpki-invalid", "%s" % rows["wrongname.test"])
    one = s.d.json("sts", "show", "good.test")
    pepsi.check(one["policy"] == POLICY % ("good.test", "good.test"), "%s" % one)
    code, out, _ = s.d.cli("sts", "show", "good.test")
    pepsi.check(code == 0 and "    mx: mx.good.test\n" in out and "enforce" in out, out)
    # a fetch that fails takes nothing away
    s.web.hosts["mta-sts.good.test"] = (s.web.hosts["mta-sts.good.test"][0], ok("no", status="503 No"))
    pepsi.check(s.fetch("good.test")["result"] == "sts-policy-fetch-error", "503")
    one = s.d.json("sts", "show", "good.test")
    pepsi.check(one["holds"] and one["mode"] == "enforce" and one["failures"] == 1 and "503" in one["why"], "%s" % one)
    # forgotten
    code, _, _ = s.d.cli("sts", "forget", "good.test")
    code2, _, err = s.d.cli("sts", "forget", "good.test")
    pepsi.check(code == 0 and code2 == 1 and "nothing was known" in err, "forget: %d %d %s" % (code, code2, err))
    pepsi.check(s.d.cli("sts", "show", "good.test")[0] == 1, "still there")
    for bad in ("", "not a name", "[192.0.2.1]", "a..b", "x" * 300):
        pepsi.check(s.d.cli("sts", "fetch", bad)[0] == 2, "\"%s\" is no domain" % bad)
    # status and metrics
    known = s.d.status()["destinations"]
    pepsi.check(known["sts_policies"] == 2 and known["sts_enforced"] == 1 and known["sts_failing"] >= 10 and known["weaker"] == 0, "status: %s" % known)
    text = s.d.http_get("/metrics")[1]
    text = text.decode() if isinstance(text, bytes) else text
    pepsi.check("pepsi_sts_policies 2\n" in text and "pepsi_sts_policies_enforced 1\n" in text and "pepsi_destinations_weaker 0\n" in text, "metrics")
    pepsi.check(re.search(r"elsewhere +MTA-STS policies 2 \(enforced 1", s.d.cli("status")[1]), s.d.cli("status")[1])
    pepsi.check(re.search(r"event=sts-not-fetched domain=\S*wrongname\.test\S* result=webpki", s.log()), "no line of the child's")
    if pepsi.ROOT:
        pepsi.check(pepsi.proc_status_uid(s.children()[0]) != 0, "the child runs as root")
    s.d.stop()
    pepsi.check("event=fetch-died" not in s.log(), "it died")


def expired_certificate(ca, name):
    """Valid from the day before yesterday to yesterday."""
    cert, key = ca.issue(name, "DNS:" + name)
    csr = ca.path("csr")
    day = lambda n: time.strftime("%Y%m%d000000Z", time.gmtime(time.time() - n * 86400))
    index = ca.path("index.txt")
    open(index, "w").close()
    with open(ca.path("ca.conf"), "w") as f:
        f.write("[ca]\ndefault_ca=x\n[x]\ndatabase=%s\nnew_certs_dir=%s\nserial=%s\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n"
                "[e]\nsubjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n" % (index, ca.dir, ca.path("serial"), name))
    certs.run(ca.openssl, "ca", "-batch", "-config", ca.path("ca.conf"), "-cert", ca.cert, "-keyfile", ca.key, "-in", csr, "-out", cert, "-rand_serial", "-notext",
              "-startdate", day(3), "-enddate", day(1))
    return cert, key


def inside(t):
    """Nothing inside is connected to: not what the DNS says at once, not what it says later, not through another form of an address."""
    s = Site(t, allow="")
    places = ("127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1",
              "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fd00::1", "64:ff9b::7f00:1", "2002:7f00:1::1", "::127.0.0.1", "2001:db8::1", "ff02::1", "::")
    for i, place in enumerate(places):
        s.add("p%d.test" % i, address=place, web=False)
    s.web.add("p0.test")
    before = s.web.connections
    for i, place in enumerate(places):
        o = s.fetch("p%d.test" % i)
        pepsi.check(o["result"] == "sts-policy-fetch-error" and "not connected to" in o["why"], "%s: %s" % (place, o))
    # an address that is ours although it is no special one
    own = [a for a in own_addresses() if not a.startswith("127.")]
    for i, a in enumerate(own[:3]):
        s.add("own%d.test" % i, address=a, web=False)
        pepsi.check("not connected to" in s.fetch("own%d.test" % i)["why"], "our own address %s" % a)
    pepsi.check(s.web.connections == before, "something was connected to")
    s.d.stop()


def own_addresses():
    """Of IPv4, those outside 127.0.0.0/8."""
    with open("/proc/net/fib_trie") as f:
        text = f.read()
    return sorted(set(re.findall(r"\|-- (\S+)\n\s+/32 host LOCAL", text)))


def rebinding(t):
    """A name that leads outside when it is looked at and inside when it is connected to. What libcurl is given is what was looked at."""
    s = Site(t, allow="127.0.0.1")
    turn = {"n": 0}

    def changing(name):
        turn["n"] += 1
        return {"A": ["127.0.0.1"] if turn["n"] % 2 else ["127.0.0.66"]}
    s.add("twice.test")
    s.zone["mta-sts.twice.test"] = changing
    # one good address and one that is not: the good one alone is used
    s.add("both.test")
    s.zone["mta-sts.both.test"] = {"A": ["127.0.0.66", "127.0.0.1", "10.9.8.7"]}
    s.dns.zone = dict(s.zone)
    inner = socket.socket()
    inner.bind(("127.0.0.66", s.web.port))
    inner.listen(10)
    inner.setblocking(False)
    t.cleanup(inner.close)
    for _ in range(4):
        s.fetch("twice.test")
        time.sleep(1.1)  # the answer's life in our cache
    pepsi.check(turn["n"] >= 4, "the name was looked up %d times" % turn["n"])
    pepsi.check(s.fetch("both.test")["result"] == "ok", "the address that is allowed")
    try:
        inner.accept()
        pepsi.check(False, "the address that is not allowed was connected to")
    except BlockingIOError:
        pass
    s.d.stop()


def crowd(t):
    """Many at once: a domain is fetched once for all who ask; the queue is bounded and says so; who asks nonsense is dropped; a child that is
    killed comes back."""
    s = Site(t, more="FETCHES = 2\nWAITING = 5\n", timeout="60 s")
    gate = threading.Event()
    s.add("slow.test", answer=lambda c: (gate.wait(120), ok(POLICY % ("slow.test", "slow.test"))(c)))
    for i in range(12):
        s.add("n%d.test" % i, answer=lambda c: (gate.wait(120), ok(POLICY % ("n.test", "n.test"))(c)))
    path = os.path.join(s.d.state, "run", "sts.sock")

    def question(octets):
        c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        c.settimeout(60)
        c.connect(path)
        c.send(octets)
        return c
    same = [question(b"STS1 slow.test\n") for _ in range(20)]
    pepsi.wait_for("it is being fetched", lambda: s.web.count("slow.test"), 30)
    many = [question(b"STS1 n%d.test\n" % i) for i in range(12)]
    # one runs beside slow.test, five wait, the rest is told so at once
    def told():
        return [c for c in select.select(many, [], [], 0)[0]]
    pepsi.wait_for("six are told", lambda: len(told()) >= 6, 30)
    first = told()
    pepsi.check(len(first) == 6 and all(c.recv(70000).startswith(b"busy\n") for c in first), "%d of 12 were answered at once" % len(first))
    for bad in (b"STS1 slow.test", b"GET / HTTP/1.0\r\n\r\n", b"STS1 UPPER.test\n", b"STS1 a b\n", b"STS1 127.0.0.1:80/x\n", b"\0" * 300, b"STS1 slow.test fresh please\n",
                b"x" * 5000):
        c = question(bad)
        pepsi.check(c.recv(10) == b"", "an answer to %r" % bad[:40])
    c = question(b"STS1 slow.test\n")
    c.send(b"STS1 slow.test\n")
    pepsi.check(c.recv(10) == b"", "a second question before the answer")
    same.pop().close()  # goes before its answer
    gate.set()
    for c in same:
        pepsi.check(c.recv(70000) == b"ok\n" + (POLICY % ("slow.test", "slow.test")).encode(), "the answer for all")
    pepsi.check(s.web.count("slow.test") == 1, "fetched %d times" % s.web.count("slow.test"))
    # a failure is remembered a while, unless a fresh one is asked for
    s.add("gone.test", answer=ok("no", status="410 Gone"))
    for _ in range(5):
        pepsi.check(question(b"STS1 gone.test\n").recv(70000).startswith(b"failed\n"), "410")
    pepsi.check(s.web.count("gone.test") == 1, "asked %d times" % s.web.count("gone.test"))
    pepsi.check(question(b"STS1 gone.test fresh\n").recv(70000).startswith(b"failed\n") and s.web.count("gone.test") == 2, "a fresh one")
    # killed
    old = s.children()[0]
    os.kill(old, signal.SIGKILL)
    pepsi.wait_for("another child", lambda: [p for p in s.children() if p != old] and s.log().count("event=fetch-ready") == 2, 60)
    pepsi.check(s.fetch("slow.test")["result"] == "ok", "after its death")
    # a reload makes a new one, with the new configuration
    s.d.write_config(pepsi.maildir("init", s.d.mail) + pepsi.bounce(), more=s.section.replace("FETCH = yes", "FETCH = auto"))
    s.d.cli("reload")
    pepsi.wait_for("there is none without a stage that wants it", lambda: not s.children(), 60)
    code, _, err = s.d.cli("sts", "fetch", "slow.test")
    pepsi.check(code == 1 and "cannot be asked" in err, "without a child: %d %s" % (code, err))
    s.d.stop()
    pepsi.check(s.log().count("event=fetch-died") == 1, "deaths: %s" % re.findall("event=fetch-.*", s.log()))


def renewed(t):
    """What grows old is fetched again by `pepsi sts renew` where no worker does it; one that cannot be fetched holds on."""
    s = Site(t)
    s.add("a.test", ident="one")
    s.add("b.test", ident="one")
    s.dns.zone = dict(s.zone)
    for domain in ("a.test", "b.test"):
        code, out, err = s.d.cli("sts", "fetch", domain)
        pepsi.check(code == 0 and "kept" in out, out + err)
    code, out, err = s.d.cli("sts", "renew")
    pepsi.check(code == 0 and out.startswith("0 policies renewed"), out + err)
    before = {x: s.web.count(x) for x in ("a.test", "b.test")}
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(s.d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c",
                        "UPDATE pepsi.sts_policy SET due_at = now() - interval '1 hour', fetched_at = fetched_at - interval '2 days'"], capture_output=True)
    pepsi.check(r.returncode == 0, "%s" % r.stderr)
    s.web.add("b.test", ok("gone", status="404 Not Found"))
    code, out, err = s.d.cli("sts", "renew")
    pepsi.check(code == 0 and "1 policy renewed, 1 could not be fetched" in out and "b.test: sts-policy-fetch-error" in out, out + err)
    pepsi.check(s.web.count("a.test") == before["a.test"] + 1, "a.test was not fetched")
    listed = {x["domain"]: x for x in s.d.json("sts", "list")}
    pepsi.check(listed["a.test"]["due"] > time.time() and listed["b.test"]["holds"] and listed["b.test"]["failures"] >= 1, "%s" % listed)


if __name__ == "__main__":
    pepsi.main(__file__, [fetched, inside, rebinding, renewed, crowd])
