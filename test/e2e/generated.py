"""Everything that Pepsi itself makes leaves signed, in the name of the domain in its From, so that a receiver whose policy for that domain is "reject" takes it: reports
of failure, delay and success, aggregate and failure reports of DMARC, TLS reports. One domain of ours that asks for p=reject, with keys. Each message is judged by dkimpy and, DMARC and all, by our own engine."""
import base64
import email
import email.utils
import json
import os
import re
import shutil

import arc
import authority
import pepsi
import signing
from certs import Authority
from dmarc_reports import sql

PARTS = {
    "failure": lambda m: b"Action: failed" in m, "delay": lambda m: b"Action: delayed" in m, "success": lambda m: re.search(rb"Action: (?:delivered|relayed)", m),
    "dmarc": lambda m: b"application/gzip" in m, "dmarc-failure": lambda m: b"feedback-report" in m, "tls": lambda m: b"application/tlsrpt+gzip" in m,
}


class World:
    def __init__(self, t):
        self.t, ca = t, Authority(t)
        self.keys = signing.Keys(t)
        self.keys.make("example.test", "r")
        self.keys.make("example.test", "e", "ed25519")
        self.port = pepsi.free_port()
        self.server = authority.start(t, {
            "example.test": "".join("%s IN TXT %s\n" % (n[:-len(".example.test")], authority.strings(v)) for n, v in self.keys.records.items()) +
                            '_dmarc IN TXT "v=DMARC1; p=reject"\n@ IN TXT "v=spf1 -all"\n@ IN A 127.9.3.9\n',
            "far.test": '@ IN MX 10 mx\nmx IN A 127.9.3.1\n@ IN TXT "v=spf1 ip4:192.0.2.9 -all"\n_smtp._tls IN TXT "v=TLSRPTv1; rua=mailto:tls@far.test"\n'
                        '_dmarc IN TXT "v=DMARC1; p=none; fo=1; rua=mailto:dmarc@far.test; ruf=mailto:ruf@far.test"\n',
            "slow.test": "@ IN MX 10 mx\nmx IN A 127.9.3.2\n", "test": "ns IN A 127.0.0.1\nclient IN A 192.0.2.9\n"})
        offer = ("PIPELINING", "8BITMIME", "STARTTLS")
        self.far = pepsi.Sink(t, port=self.port, address="127.9.3.1", tls=ca.issue("mx.far.test", "DNS:mx.far.test"), extensions=offer)
        self.slow = pepsi.Sink(t, port=self.port, address="127.9.3.2")
        self.slow.script = {"rcpt": lambda argument: "450 4.2.0 later"}
        self.d = d = pepsi.Pepsid(t, "", start=False)
        mailboxes = os.path.join(d.mail, "example.test", "bob")
        for sub in ("new", "cur", "tmp"):
            os.makedirs(os.path.join(mailboxes, sub))
        if pepsi.ROOT:
            for folder, _, _ in os.walk(d.mail):
                os.chown(folder, pepsi.service_account().pw_uid, pepsi.service_account().pw_gid)
        d.write_config(
            pepsi.route("init", [("example.test", "maildir")], "sign") + pepsi.maildir("maildir", d.mail, "CREATE = NO\nORIGINATE_SUCCESS_DSN = YES\n")
            + "[stage-sign]\nPROGRAM = pepsi-stage-dkim-sign\nKEY_DIR = %s\nSUBDOMAINS = YES\nREQUIRE = example.test *.example.test\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\n" % self.keys.path
            + "[stage-out]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = NO\nTLS_CA_FILE = %s\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\nDELAY_WARNING = 1 s\n"
              "BOUNCE_STAGE = bounce\n" % (self.port, ca.cert) + pepsi.bounce(),
            listener="XCLIENT_FROM = 127.0.0.1\nDMARC = record\n",
            more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 2 s\n[pepsi-dmarc]\nREPORTS = YES\nFROM = dmarc@example.test\nORG_NAME = Example\nFAILURE_REPORTS = YES\n"
                 "[pepsi-tlsrpt]\nREPORTS = YES\nFROM = tls@example.test\nORG_NAME = Example\n" % self.server)
        d.start()

    def send(self, rcpt, ip, params=""):
        s = pepsi.Smtp(self.d.port, ehlo="proxy.test")
        if ip:
            s.cmd("XCLIENT ADDR=" + ip)
            s.cmd("EHLO client.test")
        got = s.send("ann@far.test", rcpt, b"From: <ann@far.test>\r\nTo: <x@y.test>\r\nSubject: x\r\nDate: Mon, 30 Nov 2026 21:00:00 +0000\r\nMessage-ID: <1@far.test>\r\n\r\nx\r\n",
                     rcpt_params=params)
        s.close()
        pepsi.check(got[0] == 250, "%s: %d %s" % (rcpt, got[0], got[1]))

    def tool(self, *args):
        code, out, err = self.d.cli("--json", *args)
        pepsi.check(code == 0, "%s: exit %d %s" % (args, code, err))
        return json.loads(out)

    def found(self, kind):
        return [m.data for m in list(self.far.messages) if PARTS[kind](m.data)]

    def judged(self, kind, data):
        """Signed by every key of the domain in From, aligned, and taken under p=reject."""
        names, addresses = zip(*email.utils.getaddresses(email.message_from_bytes(data).get_all("From")))
        domain = addresses[0].rsplit("@", 1)[1]
        pepsi.check(len(addresses) == 1 and (domain == "example.test" or domain.endswith(".example.test")), "%s is from %s" % (kind, addresses))
        signatures = [(arc.tag(f, b"d"), arc.tag(f, b"s")) for f in arc.fields(data, b"dkim-signature")]
        pepsi.check(sorted(signatures) == [("example.test", "e"), ("example.test", "r")], "%s (%s) has the signatures %s:\n%s" % (kind, addresses, signatures, data[:3000].decode("utf-8", "replace")))
        py = signing.run_json([signing.signer.python("dkim"), "-c", signing.DKIMPY], [], [self.keys.records, base64.b64encode(data).decode()])
        pepsi.check(py == [True, True], "%s: dkimpy says %s" % (kind, py))
        path = os.path.join(self.t.dir, "judged.eml")
        with open(path, "wb") as f:
            f.write(data)
        code, out, err = self.d.cli("--json", "auth-check", "--server", self.server, "--as-is", "--ip", "192.0.2.77", "--helo", "mx.example.test", "--from", "", path)
        verdict = json.loads(out)["auth"]["dmarc"]
        pepsi.check(verdict["result"] == "pass" and verdict["dkim_aligned"] and verdict["policy"] == "reject" and not verdict["spf_aligned"], "%s: %s%s" % (kind, verdict, err))
        return addresses[0]


def all_of_them(t):
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    w = World(t)
    d = w.d
    w.send("bob@example.test", "192.0.2.9", "NOTIFY=SUCCESS")        # success; passes DMARC: counted
    w.send("nobody@example.test", "192.0.2.9")                       # failure
    w.send("bob@example.test", "198.51.100.7")                       # fails DMARC: a failure report
    w.send("x@slow.test", None, "NOTIFY=DELAY,FAILURE")              # delay
    for kind in ("failure", "success", "delay"):
        pepsi.wait_for("the report of " + kind, lambda: w.found(kind), 60)
    # what the days brought, told to those who ask
    counted = lambda: sum(r["messages"] for r in w.tool("dmarc", "list")["reports"] if r["domain"] == "far.test")  # noqa: E731
    pepsi.wait_for("counts", lambda: counted() >= 3, 30, .5)
    pepsi.wait_for("TLS counts", lambda: [r for r in w.tool("tlsrpt", "list")["reports"] if r["domain"] == "far.test" and r["sessions"]], 60, .5)
    sql(d, "UPDATE pepsi.dmarc_period SET begin_at = begin_at - interval '1 day', end_at = end_at - interval '1 day' WHERE outcome IS NULL")
    sql(d, "UPDATE pepsi.tlsrpt_report SET day = day - 1")
    w.tool("dmarc", "send")
    w.tool("tlsrpt", "send")
    for kind in ("dmarc", "dmarc-failure", "tls"):
        pepsi.wait_for("the report " + kind, lambda: w.found(kind), 60)
    seen = {}
    for kind in PARTS:
        for data in w.found(kind):
            seen.setdefault(kind, set()).add(w.judged(kind, data))
    pepsi.check(seen["dmarc"] == seen["dmarc-failure"] == {"dmarc@example.test"} and seen["tls"] == {"tls@example.test"}, "%s" % seen)
    pepsi.check(seen["failure"] == seen["delay"] == seen["success"] == {"MAILER-DAEMON@example.test"}, "%s" % seen)
    for m in list(w.far.messages):  # and nothing else left
        pepsi.check(any(look(m.data) for look in PARTS.values()), "what is this? %r" % m.data[:2000])
    with open(d.log) as f:
        log = f.read()
    pepsi.check("not signed" not in log, "something waited, or left unsigned")

    def counted():
        text = d.http_get("/metrics")[1]
        total = sum(int(n) for n in re.findall(r'pepsi_module_dkim_messages_total\{stage="sign",result="signed"\} (\d+)', text))
        return total >= len(w.far.messages) and re.search(r'pepsi_module_dkim_signatures_total\{stage="sign",algorithm="ed25519"\} \d', text)
    pepsi.wait_for("all are counted as signed", counted, 20, 0.5)
    w.slow.script = {}
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [all_of_them])
