"""TLS reports (RFC 8460): mail goes to exchangers with and without TLS, what came of it is counted by the relay, and the reports go to those that ask: by mail
over the same relay, by POST to a web server. They say what was seen, are read by Python and by the server that they are about, once. Who takes none is
tried again, then muted; what leads inside is never connected to; hostile reports do no harm."""
import base64
import email
import gzip
import http.server
import json
import os
import re
import shutil
import ssl
import subprocess
import threading

import authority
import pepsi
from certs import Authority

US = "mx.example.test"


def sql(d, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", text], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    pepsi.check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().strip()


class Web:
    """An HTTPS server that takes reports, or does not."""

    def __init__(self, t, identity):
        self.posts, self.status = [], 201
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                web.posts.append((self.path, dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(web.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *a):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*identity)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        t.cleanup(self.server.shutdown)


def zone(host, address, rua=None, more=""):
    return "@ IN MX 10 %s\n%s IN A %s\n%s%s" % (host, host, address, "_smtp._tls IN TXT \"v=TLSRPTv1; rua=%s\"\n" % rua if rua else "", more)


class Reporter:
    def __init__(self, t):
        ca = Authority(t)
        self.port = pepsi.free_port()
        self.web = Web(t, ca.issue("reports.plain.test", "DNS:reports.plain.test"))
        self.dns = authority.start(t, {
            "sender.test": zone("mx", "127.9.2.9"),
            "safe.test": zone("mx", "127.9.2.1", "mailto:tls@safe.test,https://reports.plain.test/safe"),
            "plain.test": zone("mx", "127.9.2.2", "https://reports.plain.test/v1/tls?d=1", "reports IN A 127.0.0.1\n"),
            "quiet.test": zone("mx", "127.9.2.3"),
            "inside.test": zone("mx", "127.9.2.4", "https://hidden.inside.test/x", "hidden IN A 10.1.2.3\n"),
            "not.test": zone("mx", "127.9.2.5", "mailto:tls@not.test")})
        offer = ("PIPELINING", "8BITMIME", "STARTTLS")
        self.safe = pepsi.Sink(t, port=self.port, address="127.9.2.1", tls=ca.issue("mx.safe.test", "DNS:mx.safe.test"), extensions=offer)
        self.others = [pepsi.Sink(t, port=self.port, address="127.9.2.%d" % i) for i in (2, 3, 4, 5, 9)]
        self.d = pepsi.Pepsid(
            t, "[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = NO\nPARALLELISM = 1\nTLS_CA_FILE = %s\n"
               "RETRY_MIN = 1 s\nRETRY_MAX = 2 s\nBOUNCE_STAGE = bounce\n" % (self.port, ca.cert) + pepsi.bounce(),
            more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 2 s\n[pepsi-tlsrpt]\nREPORTS = YES\nFROM = tls@sender.test\nORG_NAME = Example & Sons\nEXCLUDE = not.test\n"
                 "ALLOW_NETWORKS = 127.0.0.0/8\nCA_FILE = %s\nHTTPS_PORT = %d\nHTTPS_TIMEOUT = 10 s\n" % (self.dns, ca.cert, self.web.port))

    def tls(self, *args, code=0):
        rc, out, err = self.d.cli("--json", "tlsrpt", *args)
        pepsi.check(rc == code, "tlsrpt %s: exit %d %s" % (args, rc, err))
        return json.loads(out) if out.strip() and code == 0 else err

    def reports(self):
        return {r["domain"]: r for r in self.tls("list")["reports"]}

    def due(self):
        """An attempt may be made now."""
        sql(self.d, "UPDATE pepsi.tlsrpt_report SET next_at = '-infinity' WHERE outcome IS NULL")


def valid(data):
    """What RFC 8460 4.4 asks of a report, looked at without our own reader."""
    r = json.loads(gzip.decompress(data))
    pepsi.check(r["organization-name"] == "Example & Sons" and r["contact-info"] == "postmaster@sender.test" and re.match(r"^[0-9a-f]{32}@" + US + "$", r["report-id"]), r)
    begin, end = r["date-range"]["start-datetime"], r["date-range"]["end-datetime"]
    pepsi.check(re.match(r"^\d{4}-\d\d-\d\dT00:00:00Z$", begin) and end == begin[:10] + "T23:59:59Z", r)
    for p in r["policies"]:
        s = p["summary"]
        pepsi.check(p["policy"]["policy-type"] in ("tlsa", "sts", "no-policy-found") and p["policy"]["policy-domain"], p)
        pepsi.check(s["total-failure-session-count"] == sum(f["failed-session-count"] for f in p.get("failure-details", [])), p)
    return r


def to_others(t):
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    w = Reporter(t)
    d = w.d
    for n in range(3):
        d.accept("me@sender.test", ["x@safe.test"], pepsi.message("s%d" % n, sender="me@sender.test"))
        pepsi.wait_for("it is there", lambda: "s%d" % n in w.safe.tokens(), 30)
    for domain in ("plain.test", "quiet.test", "inside.test", "not.test"):
        d.accept("me@sender.test", ["x@" + domain], pepsi.message(domain, sender="me@sender.test"))
    got = pepsi.wait_for("all five are counted", lambda: len(w.reports()) == 5 and w.reports(), 60, 0.5)
    safe, plain = got["safe.test"], got["plain.test"]
    pepsi.check(1 <= safe["sessions"] <= 3 and safe["failures"] == 0 and safe["outcome"] == "counting", safe)
    pepsi.check(plain["sessions"] == plain["failures"] == 1, plain)
    rows = w.tls("show", str(plain["id"]))["items"]
    pepsi.check(len(rows) == 1 and rows[0]["policy"]["type"] == "no-policy-found" and rows[0]["failure"]["result"] == "starttls-not-supported"
                and rows[0]["failure"]["mx"] == "mx.plain.test" and rows[0]["failure"]["receiving_ip"] == "127.9.2.2", rows)
    code, out, _ = d.cli("tlsrpt", "show", str(plain["id"]), "--report")
    valid(gzip.compress(out.encode()))
    # not before its day is over; a dry run changes nothing
    pepsi.check(w.tls("send")["reports"] == [], "sent before the day was over")
    sql(d, "UPDATE pepsi.tlsrpt_report SET day = day - 1")
    dry = {r["domain"]: (r["result"], r.get("to", "")) for r in w.tls("send", "--dry-run")["reports"]}
    pepsi.check(dry["safe.test"] == ("would be sent", "tls@safe.test; https://reports.plain.test/safe") and not w.web.posts, dry)
    # one server says no for now: the other targets have it, and that one later
    w.web.status = 503
    result = w.tls("send")
    got = {r["domain"]: r for r in result["reports"]}
    pepsi.check(got["safe.test"]["result"] == "later" and "503" in got["safe.test"]["why"] and got["safe.test"]["to"] == "tls@safe.test", got)
    pepsi.check(got["plain.test"]["result"] == "later" and got["quiet.test"]["result"] == "nowhere" and got["not.test"]["result"] == "excluded", got)
    pepsi.check(got["inside.test"]["result"] == "later" and "not connected to" in got["inside.test"]["why"], got)
    pepsi.check(w.tls("send")["reports"] == [], "tried again at once")
    pepsi.wait_for("the report by mail", lambda: len(w.safe.messages) == 4, 30)
    m = w.safe.messages[3]
    pepsi.check(m.mail_from == "tls@sender.test" and "tls@safe.test" in str(m.rcpts[0]), m.rcpts)
    mail = email.message_from_bytes(m.data)
    part = [p for p in mail.walk() if p.get_content_type() == "application/tlsrpt+gzip"][0]
    r = valid(part.get_payload(decode=True))
    pepsi.check(r["policies"][0]["summary"]["total-successful-session-count"] == safe["sessions"] and r["policies"][0]["policy"]["policy-domain"] == "safe.test", r)
    pepsi.check(mail.get_content_type() == "multipart/report" and mail.get_param("report-type") == "tlsrpt" and mail["TLS-Required"] == "No"
                and mail["TLS-Report-Domain"] == "safe.test" and mail["TLS-Report-Submitter"] == US, mail.as_string()[:900])
    pepsi.check(re.match(re.escape(US) + r"!safe\.test!\d+!\d+![0-9a-f]{32}\.json\.gz$", part.get_filename()), part.get_filename())
    # again, when it is time: the POSTs alone, with the same id
    w.web.status, before = 201, len(w.web.posts)
    w.due()
    got = {r["domain"]: r for r in w.tls("send")["reports"]}
    pepsi.check(got["safe.test"]["result"] == got["plain.test"]["result"] == "sent", got)
    posts = {p: (h, body) for p, h, body in w.web.posts[before:]}
    pepsi.check(set(posts) == {"/safe", "/v1/tls?d=1"} and len(w.web.posts) == before + 2, w.web.posts)
    again = valid(posts["/safe"][1])
    pepsi.check(again["report-id"] == r["report-id"] and posts["/safe"][0]["Content-Type"] == "application/tlsrpt+gzip", again)
    told = valid(posts["/v1/tls?d=1"][1])["policies"][0]
    pepsi.check(told["summary"] == {"total-successful-session-count": 0, "total-failure-session-count": 1}
                and told["failure-details"][0]["result-type"] == "starttls-not-supported" and told["failure-details"][0]["receiving-mx-hostname"] == "mx.plain.test", told)
    pepsi.check(len(w.safe.messages) == 4 and w.reports()["safe.test"]["posted"] == ["https://reports.plain.test/safe"], "twice by mail")
    # what took nothing for a day is muted, and gets nothing more until it is taken back
    sql(d, "UPDATE pepsi.tlsrpt_report SET first_at = first_at - interval '25 hours'")
    w.due()
    got = {r["domain"]: r for r in w.tls("send")["reports"]}
    pepsi.check(list(got) == ["inside.test"] and got["inside.test"]["result"] == "nowhere", got)
    pepsi.check([a["address"] for a in w.tls("list")["muted"]] == ["https://hidden.inside.test/x"], w.tls("list")["muted"])
    pepsi.check(w.tls("unmute", "https://hidden.inside.test/x")["ok"] and w.tls("mute", "Tls@Safe.test")["ok"], "mute")
    pepsi.check([a["address"] for a in w.tls("list")["muted"]] == ["tls@safe.test"], w.tls("list")["muted"])
    w.tls("unmute", "nobody@safe.test", code=1)
    code, out, _ = d.cli("tlsrpt", "list")
    pepsi.check(code == 0 and "tls@safe.test +1" in out and "Muted:" in out, out)
    pepsi.check("pepsi_tlsrpt_waiting" in str(d.metrics().keys()), "metrics")
    d.stop()
    received(t, m.data)


def wrapped(data, kind="application/tlsrpt+gzip"):
    return ("From: <tls@far.test>\r\nTo: <tls@safe.test>\r\nSubject: Report Domain: safe.test\r\nTLS-Report-Domain: safe.test\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/report; report-type=tlsrpt; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b\r\nContent-Type: %s\r\n"
            "Content-Transfer-Encoding: base64\r\n\r\n" % kind).encode() + base64.encodebytes(data).replace(b"\n", b"\r\n") + b"\r\n--b--\r\n"


def foreign(ident="1", domain="safe.test", good=90, bad=7, part=7, org="far"):
    return json.dumps({"organization-name": org, "date-range": {"start-datetime": "2026-11-29T00:00:00Z", "end-datetime": "2026-11-29T23:59:59Z"},
                       "contact-info": "a@far.test", "report-id": ident, "policies": [{
                           "policy": {"policy-type": "sts", "policy-string": ["version: STSv1"], "policy-domain": domain, "mx-host": "*.safe.test"},
                           "summary": {"total-successful-session-count": good, "total-failure-session-count": bad},
                           "failure-details": [{"result-type": "certificate-expired", "sending-mta-ip": "192.0.2.7", "receiving-mx-hostname": "mx2.safe.test",
                                                "receiving-ip": "198.51.100.4", "failed-session-count": part}]}]}).encode()


def received(t, ours):
    """The server of the domain that the reports are about."""
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [("tls@safe.test", "reports"), ("safe.test", "maildir")], "maildir") + pepsi.maildir("maildir", d.mail)
                   + "[stage-reports]\nPROGRAM = pepsi-stage-tlsrpt-report\nNEXT_STAGE = maildir\nBOUNCE_STAGE = bounce\n" + pepsi.bounce(),
                   pepsi="LOCAL_DOMAINS = safe.test\n")
    d.start()

    def summary(*args):
        code, out, err = d.cli("--json", "tlsrpt", "received", *args)
        pepsi.check(code == 0, err)
        return json.loads(out)

    def feed(data):
        code, text = d.send("tls@sender.test", "tls@safe.test", data)
        pepsi.check(code == 250, text)
    feed(ours)
    pepsi.wait_for("the report is kept", lambda: summary()["reports"], 30, 0.3)
    feed(ours)
    feed(wrapped(gzip.compress(foreign())))
    feed(wrapped(foreign("2", good=10, bad=1, part=1, org="near"), "application/tlsrpt+json"))
    pepsi.wait_for("three reports", lambda: len(summary()["reports"]) == 3, 30, 0.3)
    got = summary()
    pepsi.check({r["org"] for r in got["reports"]} == {"Example & Sons", "far", "near"}, got)
    pepsi.check([(f["mx"], f["result"], f["ip"], f["sessions"], f["organisations"]) for f in got["failures"]] ==
                [("mx2.safe.test", "certificate-expired", "198.51.100.4", 8, 2)], got["failures"])
    pepsi.check(got["domains"][0] == dict(got["domains"][0], domain="safe.test", type="sts", successes=100, failures=8, reports=2), got["domains"])
    # hostile ones, and what is none, go on to the next stage
    for data in (wrapped(gzip.compress(b" " * 50000000)), wrapped(gzip.compress(foreign("3"))[:-20]), wrapped(gzip.compress(foreign("4", domain="strange.test"))),
                 wrapped(gzip.compress(foreign("5", part=8))), wrapped(gzip.compress(b"[" * 200000)), wrapped(gzip.compress(foreign("6", good=10**18))),
                 wrapped(os.urandom(3 << 20)), b"From: <a@far.test>\r\nSubject: hello\r\n\r\nIs anybody there?\r\n"):
        feed(data)
    pepsi.wait_for("what is none is delivered", lambda: len(d.maildir("tls@safe.test")) == 8, 60, 0.3)
    d.wait_empty()
    with open(d.log, errors="replace") as f:
        log = f.read()
    for words in ("tls report stored", "tls report duplicate", "it is too large", "what is attached is too large", "damaged", "not JSON", "tls report foreign", "more sessions failed in one way than in all", "more sessions than there are", "no tls report"):
        pepsi.check(words in log, "no %r in the log" % words)
    for result, n in (("stored", 3), ("duplicate", 1), ("foreign", 1), ("other", 2), ("refused", 5)):
        d.counts(n, "reports_total", "reports", result=result)
    code, out, err = d.cli("tlsrpt", "received", "--failures")
    pepsi.check(code == 0 and re.search(r"mx2\.safe\.test +198\.51\.100\.4 +certificate-expired", out), out)
    code, out, _ = d.cli("tlsrpt", "received")
    pepsi.check(code == 0 and "Example & Sons" in out and "not verified" in out, out)
    pepsi.check(summary("--since", "2100-01-01")["reports"] == [] and summary("--domain", "other.test")["reports"] == [], "selection")
    code, out, _ = d.cli("status")
    pepsi.check(re.search(r"(?m)^tlsrpt +waiting 0, received within two days \d+ \(failed sessions \d+\)", out), out)
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [to_others])
