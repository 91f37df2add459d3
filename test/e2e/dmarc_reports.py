"""DMARC aggregate reports: mail is judged and counted, the reports go to those who asked and agreed, say what was seen, fit the schema of
RFC 9990, and are read by a second server that they are about. Who they come back from is left alone; what is no report does no harm."""
import base64
import email
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import zipfile

import dnslab
import pepsi

US = "mx.example.test"
SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report", "aggregate.xsd")
PUBLISHED = os.path.join(os.environ.get("PEPSI_VECTORS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared", "vectors")),
                         "dmarc-reports", "xsd", "dmarc-xml-0.2.xsd")
AGREED = "_report._dmarc.collector.test"
ZONE = {
    "client.test": {"TXT": ["v=spf1 ip4:192.0.2.9 -all"]},
    # two addresses of its own, one of them too small
    "pass.test": {"TXT": ["v=spf1 ip4:192.0.2.9 -all"]},
    "_dmarc.pass.test": {"TXT": ["v=DMARC1; p=reject; sp=quarantine; rua=mailto:dmarc@pass.test,mailto:small@pass.test!1k,https://pass.test/r"]},
    # outside, agreed
    "ext.test": {"TXT": ["v=spf1 -all"]},
    "_dmarc.ext.test": {"TXT": ["v=DMARC1; p=quarantine; t=y; rua=mailto:r@collector.test"]},
    "ext.test." + AGREED: {"TXT": ["v=DMARC1"]},
    # outside, not agreed
    "_dmarc.victim.test": {"TXT": ["v=DMARC1; p=none; rua=mailto:x@stranger.test"]},
    # failure reports: its own address, one that agreed, one that did not
    "_dmarc.ruf.test": {"TXT": ["v=DMARC1; p=reject; fo=1; ruf=mailto:ruf@ruf.test,mailto:r@collector.test,mailto:x@stranger.test"]},
    "ruf.test." + AGREED: {"TXT": ["v=DMARC1"]},
    "_dmarc.two.test": {"TXT": ["v=DMARC1; p=none; ruf=mailto:ruf@two.test; rua=mailto:rua@two.test"]},
    # does not ask
    "_dmarc.quiet.test": {"TXT": ["v=DMARC1; p=none"]},
    # not wanted here
    "_dmarc.not.test": {"TXT": ["v=DMARC1; p=none; rua=mailto:d@not.test"]},
}


def sql(d, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", text], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    pepsi.check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().strip()


class Reporter:
    """The server that judges and reports. What is for others goes to a sink."""

    def __init__(self, t):
        lab = dnslab.Lab({k: dict(v) for k, v in ZONE.items()})
        t.cleanup(lab.close)
        self.lab, self.sink, self.record = lab, pepsi.Sink(t), pepsi.free_port()
        self.d = d = pepsi.Pepsid(t, "", start=False)
        d.write_config(
            pepsi.route("init", [("dmarc@example.test", "reports"), ("example.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail)
            + "[stage-reports]\nPROGRAM = pepsi-stage-dmarc-report\nNEXT_STAGE = maildir\nBOUNCE_STAGE = bounce\n"
            + pepsi.smarthost("relay", self.sink.port) + pepsi.bounce(), listener="XCLIENT_FROM = 127.0.0.1\nDMARC = enforce\n",
            more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 1 s\n[pepsi-dmarc]\nREPORTS = YES\nFROM = dmarc@example.test\nREPORT_ADDRESS = dmarc@example.test\n"
                 "ORG_NAME = Example & Sons\nEXCLUDE = not.test\nFAILURE_REPORTS = YES\nMAX_FAILURES_DOMAIN = 3\n"
                 "[listener-record]\nBIND = 127.0.0.1:%d\nXCLIENT_FROM = 127.0.0.1\nDMARC = record\n" % (lab.server, self.record))
        d.start()

    def send(self, author, mail_from, ip, rcpt="bob@example.test", code=250, more="", port=None):
        s = pepsi.Smtp(port or self.d.port, ehlo="proxy.test")
        s.cmd("XCLIENT ADDR=%s" % ("IPV6:" + ip if ":" in ip else ip))
        s.cmd("EHLO client.test")
        got = s.send(mail_from, rcpt, ("From: <%s>\r\nTo: <bob@example.test>\r\nSubject: x\r\n%s\r\nx\r\n" % (author, more)).encode())
        s.close()
        pepsi.check(got[0] == code, "%s from %s: %d %s" % (author, ip, got[0], got[1]))

    def dmarc(self, *args, code=0):
        rc, out, err = self.d.cli("--json", "dmarc", *args)
        pepsi.check(rc == code, "dmarc %s: exit %d %s" % (args, rc, err))
        return json.loads(out) if out.strip() and code == 0 else err

    def reports(self):
        return {r["domain"]: r for r in self.dmarc("list")["reports"] if r["outcome"] in ("counting", "waiting")}

    def counted(self, **want):
        want = {k.replace("_", "."): v for k, v in want.items()}

        def there():
            got = {k: v["messages"] for k, v in self.reports().items()}
            return got if got == want else None
        pepsi.wait_for("counts %s" % want, there, 30, 0.5)

    def over(self):
        """Today's periods are yesterday's."""
        sql(self.d, "UPDATE pepsi.dmarc_period SET begin_at = begin_at - interval '1 day', end_at = end_at - interval '1 day' WHERE outcome IS NULL")


def attached(raw):
    """(message, name, XML) of a report in a message."""
    m = email.message_from_bytes(raw)
    parts = [p for p in m.walk() if p.get_content_type() == "application/gzip"]
    pepsi.check(len(parts) == 1, "parts: %s" % [p.get_content_type() for p in m.walk()])
    return m, parts[0].get_filename(), gzip.decompress(parts[0].get_payload(decode=True))


def valid(t, xml):
    path = os.path.join(t.dir, "report%d.xml" % t.next_number())
    with open(path, "wb") as f:
        f.write(xml)
    if not shutil.which("xmllint"):
        pepsi.say("xmllint is not there: the schema is not looked at")
        return
    for schema in (SCHEMA, PUBLISHED):
        if not os.path.exists(schema):
            pepsi.say("%s is not there: the published schema is not looked at" % schema)
            continue
        r = subprocess.run(["xmllint", "--nonet", "--noout", "--schema", schema, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        pepsi.check(r.returncode == 0, "%s\n%s" % (r.stdout.decode(), xml.decode()))


def records(xml):
    import xml.etree.ElementTree as tree
    ns = {"r": "urn:ietf:params:xml:ns:dmarc-2.0"}
    root = tree.fromstring(xml)
    out = []
    for rec in root.findall("r:record", ns):
        def get(path, rec=rec):
            e = rec.find("/".join("r:" + p for p in path.split("/")), ns)
            return e.text if e is not None else None
        out.append((get("row/source_ip"), int(get("row/count")), get("row/policy_evaluated/disposition"), get("row/policy_evaluated/dkim"),
                    get("row/policy_evaluated/spf"), get("row/policy_evaluated/reason/type"), get("identifiers/header_from"), get("identifiers/envelope_from"),
                    get("identifiers/envelope_to"), get("auth_results/spf/result")))
    return root, ns, sorted(out)


def to_the_queue(t):
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    w = Reporter(t)
    d = w.d
    for _ in range(3):
        w.send("ann@pass.test", "ann@pass.test", "192.0.2.9")
    w.send("ann@pass.test", "ann@pass.test", "198.51.100.7", code=550)
    w.send("ann@sub.pass.test", "x@client.test", "192.0.2.9")
    w.send("ann@ext.test", "x@client.test", "2001:db8::7")
    w.send("ann@victim.test", "", "198.51.100.8")
    w.send("ann@quiet.test", "", "198.51.100.8")
    w.send("ann@not.test", "", "198.51.100.8")
    w.send("ann@pass.test", "ann@pass.test", "192.0.2.9", rcpt="dmarc@example.test")  # to the report address: not counted
    w.counted(pass_test=5, ext_test=1, victim_test=1, not_test=1)
    got = w.reports()["pass.test"]
    pepsi.check(got["rows"] == 3 and got["outcome"] == "counting" and got["policy"] == "p=reject sp=quarantine np=quarantine adkim=r aspf=r fo=0 t=n by=treewalk",
                got)
    rows = w.dmarc("show", str(got["id"]))["items"]
    pepsi.check(rows[0]["messages"] == 3 and rows[0]["data"]["ip"] == "192.0.2.9" and rows[0]["data"]["spf_aligned"], rows)
    code, xml, _ = d.cli("dmarc", "show", str(got["id"]), "--xml")
    valid(t, xml.encode())
    # not before its period is over; then once, and a dry run changes nothing
    pepsi.check(w.dmarc("send")["reports"] == [], "sent before the period was over")
    w.over()
    dry = {r["domain"]: (r["result"], r.get("why", "")) for r in w.dmarc("send", "--dry-run")["reports"]}
    pepsi.check(dry["pass.test"] == ("would be sent", "dmarc@pass.test") and dry["ext.test"] == ("would be sent", "r@collector.test"), dry)
    pepsi.check(not w.sink.messages and len(w.reports()) == 4, "a dry run did something")
    code, out, err = d.cli("--json", "dmarc", "send")
    result = json.loads(out)
    got = {r["domain"]: (r["result"], r.get("why", "")) for r in result["reports"]}
    pepsi.check(got["pass.test"] == ("sent", "dmarc@pass.test") and got["ext.test"] == ("sent", "r@collector.test") and got["not.test"][0] == "excluded"
                and got["victim.test"][0] == "nowhere" and "does not agree" in got["victim.test"][1], got)
    pepsi.check("event=dmarc-report-sent domain=\"pass.test\"" in err or "event=dmarc-report-sent domain=pass.test" in err, err)
    pepsi.check(result["sent"] == 2 and w.dmarc("send")["reports"] == [], result)
    pepsi.wait_for("both reports arrive", lambda: len(w.sink.messages) == 2, 30)
    mails = {m.rcpts[0][0] if isinstance(m.rcpts[0], tuple) else m.rcpts[0]: m for m in w.sink.messages}
    pepsi.check(all(m.mail_from == "dmarc@example.test" and len(m.rcpts) == 1 for m in w.sink.messages), [m.mail_from for m in w.sink.messages])
    raw = {k.strip("<>"): m.data for k, m in mails.items()}
    pepsi.check(set(raw) == {"dmarc@pass.test", "r@collector.test"}, raw.keys())
    m, name, xml = attached(raw["dmarc@pass.test"])
    valid(t, xml)
    root, ns, rec = records(xml)
    pepsi.check(rec == [
        ("192.0.2.9", 1, "quarantine", "fail", "fail", None, "sub.pass.test", "client.test", "example.test", "pass"),
        ("192.0.2.9", 3, "pass", "fail", "pass", None, "pass.test", "pass.test", "example.test", "pass"),
        ("198.51.100.7", 1, "reject", "fail", "fail", None, "pass.test", "pass.test", "example.test", "fail")], rec)
    ident = root.find("r:report_metadata/r:report_id", ns).text
    begin, end = (int(root.find("r:report_metadata/r:date_range/r:" + x, ns).text) for x in ("begin", "end"))
    pepsi.check(name == "%s!pass.test!%d!%d!%s.xml.gz" % (US, begin, end, ident) and end - begin == 86399, name)
    pepsi.check(re.sub(r"\s+", " ", m["Subject"]) == "Report Domain: pass.test Submitter: %s Report-ID: <%s>" % (US, ident), m["Subject"])
    pepsi.check(m["Auto-Submitted"] == "auto-generated" and m["Date"] and ident in m["Message-ID"] and "dmarc@example.test" in m["From"], m.as_string()[:800])
    pepsi.check(root.find("r:report_metadata/r:org_name", ns).text == "Example & Sons" and root.find("r:policy_published/r:sp", ns).text == "quarantine", xml)
    _, _, xml = attached(raw["r@collector.test"])
    valid(t, xml)
    _, _, rec = records(xml)
    pepsi.check(rec == [("2001:db8::7", 1, "none", "fail", "fail", "policy_test_mode", "ext.test", "client.test", "example.test", "fail")], rec)
    # what they come back from is left alone
    w.sink.script = {"rcpt": lambda a: "550 5.1.1 no such user" if "collector" in a else None}
    w.send("ann@ext.test", "x@client.test", "2001:db8::7")
    w.counted(ext_test=1)
    sql(d, "UPDATE pepsi.dmarc_period SET begin_at = begin_at - interval '2 days', end_at = end_at - interval '2 days' WHERE outcome IS NULL")
    pepsi.check(w.dmarc("send")["sent"] == 1, "the second report")
    pepsi.wait_for("the address is muted", lambda: [a["address"] for a in w.dmarc("list")["muted"]] == ["r@collector.test"], 40, 0.5)
    w.send("ann@ext.test", "x@client.test", "2001:db8::7")
    w.counted(ext_test=1)
    sql(d, "UPDATE pepsi.dmarc_period SET begin_at = begin_at - interval '3 days', end_at = end_at - interval '3 days' WHERE outcome IS NULL")
    got = w.dmarc("send")["reports"]
    pepsi.check(len(got) == 1 and got[0]["result"] == "nowhere" and "muted" in got[0]["why"], got)
    pepsi.check(w.dmarc("unmute", "R@collector.test")["ok"] and not w.dmarc("list")["muted"], "unmute")
    w.dmarc("unmute", "r@collector.test", code=1)
    # what pepsid counted is seen
    m = d.metrics()
    pepsi.check(m["pepsi_dmarc_counted_total"] == 10 and m["pepsi_dmarc_lost_total"] == 0, {k: v for k, v in m.items() if "dmarc_" in k})
    code, out, _ = d.cli("status")
    pepsi.check(re.search(r"(?m)^reports +counted 10", out), out)
    # the last counts of a daemon that stops are there
    w.send("ann@pass.test", "ann@pass.test", "192.0.2.9")
    d.stop()
    d.start()
    w.counted(pass_test=1)
    failed = failures(w)
    d.stop()
    received(t, failed, raw["dmarc@pass.test"])


def wrapped(name, kind, data):
    return ("From: <reports@far.test>\r\nTo: <dmarc@pass.test>\r\nSubject: Report domain: pass.test\r\nMIME-Version: 1.0\r\nContent-Type: %s; name=\"%s\"\r\n"
            "Content-Transfer-Encoding: base64\r\n\r\n" % (kind, name)).encode() + base64.encodebytes(data).replace(b"\n", b"\r\n")


OLD = """<?xml version="1.0"?><feedback><report_metadata><org_name>%s</org_name><email>a@far.test</email><report_id>7</report_id><date_range><begin>1796000000</begin>
<end>1796086400</end></date_range></report_metadata><policy_published><domain>%s</domain><p>none</p><pct>100</pct></policy_published>%s</feedback>"""
ROW = """<record><row><source_ip>203.0.113.5</source_ip><count>40</count><policy_evaluated><disposition>reject</disposition><dkim>fail</dkim><spf>fail</spf></policy_evaluated>
</row><identifiers><header_from>pass.test</header_from></identifiers><auth_results><spf><domain>x.test</domain><result>fail</result></spf></auth_results></record>"""


SINGLE = b"""From: <reports@far.test>
Subject: FW: hello
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: text/plain

An authentication failure.
--b
Content-Type: message/feedback-report

Feedback-Type: auth-failure
User-Agent: far/1
Version: 1
Auth-Failure: dmarc
Delivery-Result: reject
Source-IP: 203.0.113.5
Reported-Domain: pass.test

--b
Content-Type: text/rfc822-headers

From: <ann@pass.test>
Subject: hello

--b--
""".replace(b"\n", b"\r\n")


def failures(w):
    """Single messages that failed: told to who asked and agreed, a few a day, without the person's name. Returns one such report."""
    d = w.d
    received_line = "Received: from a.test ([203.0.113.9]) by b.test for <bob.secret@example.test>; Mon, 30 Nov 2026 12:00:00 +0000\r\n"
    w.send("Ann.Secret@ruf.test", "ann.secret@ruf.test", "198.51.100.7", code=550, more=received_line)
    w.send("ann@two.test", "x@client.test", "198.51.100.8", port=w.record)       # accepted: recorded only
    # no report about a report, a machine's message, nor what came to the report address
    w.send("ann@ruf.test", "", "198.51.100.7", code=550)
    w.send("ann@ruf.test", "a@ruf.test", "198.51.100.7", code=550, more="Auto-Submitted: auto-replied\r\n")
    w.send("ann@ruf.test", "a@ruf.test", "198.51.100.7", code=550, rcpt="dmarc@example.test")
    waiting = lambda: w.dmarc("list", "--failures")
    pepsi.wait_for("two messages wait", lambda: len(waiting()) == 2, 30, 0.3)
    got = {f["domain"]: f["data"] for f in waiting()}
    pepsi.check(got["ruf.test"]["result"] == "reject" and got["two.test"]["result"] == "delivered" and got["ruf.test"]["failure"] == "dmarc"
                and got["ruf.test"]["alignment"] == "none", got)
    # what was done stands in the message, not what the owner asked for; and in the report about it, with the reason
    w.send("zoe@pass.test", "zoe@pass.test", "198.51.100.7", port=w.record)
    pepsi.wait_for("the recorded one is delivered", lambda: any(b"zoe@pass.test" in m for m in d.maildir("bob@example.test")), 30, 0.3)
    text = next(m for m in d.maildir("bob@example.test") if b"zoe@pass.test" in m)
    pepsi.check(re.search(rb"dmarc=fail\s+\(p=reject\s+dis=none\)", text), text.decode())
    w.counted(pass_test=2, two_test=1)
    rows = [r["data"] for r in w.dmarc("show", str(w.reports()["pass.test"]["id"]))["items"]]
    pepsi.check([(r["disposition"], r.get("reason")) for r in rows if r["ip"] == "198.51.100.7"] == [("none", "local_policy")], rows)
    with open(d.log) as f:
        pepsi.check(re.search(r"event=authenticated .*dmarc=fail policy=reject disposition=none", f.read()), "the log")
    # a flood in one name: three of an organisation, whatever the subdomain
    for i in range(5):
        w.send("ann@s%d.ruf.test" % i, "ann@ruf.test", "198.51.100.7", code=550)
    pepsi.wait_for("three of one organisation", lambda: len(waiting()) == 4 and d.metrics()["pepsi_dmarc_failures_total"] == 4, 30, 0.3)
    w.sink.script, before = {}, len(w.sink.messages)
    dry = w.dmarc("send", "--failures", "--dry-run")["reports"]
    pepsi.check(len(dry) == 4 and all(r["failure"] and r["result"] == "would be sent" for r in dry), dry)
    got = w.dmarc("send", "--failures")
    pepsi.check(got["sent"] == 4 and got["messages"] == 7 and w.dmarc("send", "--failures")["reports"] == [], got)
    pepsi.wait_for("failure reports arrive", lambda: len(w.sink.messages) == before + 7, 30)
    mails = [(m.rcpts[0][0] if isinstance(m.rcpts[0], tuple) else m.rcpts[0], m.data) for m in w.sink.messages[before:]]
    pepsi.check(sorted({a.strip("<>") for a, _ in mails}) == ["r@collector.test", "ruf@ruf.test", "ruf@two.test"], mails)
    pepsi.check(all(m.mail_from == "dmarc@example.test" for m in w.sink.messages[before:]), "the sender")
    raw = next(data for a, data in mails if "ruf@ruf" in a and b"Received: from a.test" in data)
    m = email.message_from_bytes(raw)
    parts = [p.get_content_type() for p in m.walk()]
    pepsi.check(parts[:3] == ["multipart/report", "text/plain", "message/feedback-report"] and "text/rfc822-headers" in parts and m["Auto-Submitted"] == "auto-generated", parts)
    pepsi.check(b"ecret" not in raw and b"bob@" not in raw and b"Subject: x" not in raw, raw.decode())
    for words in (b"Feedback-Type: auth-failure", b"Auth-Failure: dmarc", b"Delivery-Result: reject", b"Identity-Alignment: none", b"Source-IP: 198.51.100.7",
                  b"Reported-Domain: ruf.test", b"dis=reject"):
        pepsi.check(words in raw, "%r is not in %s" % (words, raw.decode()))
    # one that comes back mutes as an aggregate report does
    ident = re.search(r"<([0-9a-f]{32})\.(\d)@", m["Message-ID"])
    pepsi.check(sql(d, "SELECT pepsi.dmarc_mute('%s', %s, 30, 'test')" % ident.groups()) == "ruf@ruf.test", ident)
    pepsi.check([f["outcome"] for f in waiting()] == ["sent"] * 4 and not any("headers" in f for f in waiting()), waiting())
    code, out, _ = d.cli("dmarc", "list", "--failures")
    pepsi.check(code == 0 and "ruf.test" in out and "sent" in out, out)
    return raw


def received(t, failed, raw):
    """The server of the domain that the report is about."""
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [("dmarc@pass.test", "reports"), ("pass.test", "maildir")], "maildir") + pepsi.maildir("maildir", d.mail)
                   + "[stage-reports]\nPROGRAM = pepsi-stage-dmarc-report\nNEXT_STAGE = maildir\nBOUNCE_STAGE = bounce\n" + pepsi.bounce(),
                   pepsi="LOCAL_DOMAINS = pass.test\n")
    d.start()

    def summary(*args):
        code, out, err = d.cli("--json", "dmarc", "received", *args)
        pepsi.check(code == 0, err)
        return json.loads(out)

    def feed(data, sender="dmarc@example.test"):
        code, text = d.send(sender, "dmarc@pass.test", data)
        pepsi.check(code == 250, text)
    feed(raw)
    pepsi.wait_for("the report is kept", lambda: summary()["reports"], 30, 0.3)
    got = summary("--domain", "pass.test")
    pepsi.check(got["domains"][0]["messages"] == 5 and got["domains"][0]["passed"] == 3 and got["domains"][0]["rejected"] == 1
                and got["domains"][0]["quarantined"] == 1, got["domains"])
    pepsi.check([(s["ip"], s["messages"], s["failed"]) for s in got["sources"]] == [("192.0.2.9", 4, 1), ("198.51.100.7", 1, 1)], got["sources"])
    pepsi.check(got["reports"][0]["org"] == "Example & Sons" and got["reports"][0]["mail_domain"] == "example.test" and not got["reports"][0]["verified"], got)
    # once; and RFC 7489 in a zip archive
    feed(raw)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("far.test!pass.test!1!2.xml", OLD % ("far", "pass.test", ROW))
    feed(wrapped("r.zip", "application/zip", archive.getvalue()))
    pepsi.wait_for("the second report", lambda: len(summary()["reports"]) == 2, 30, 0.3)
    d.counts(2, "reports_total", "reports", result="stored")
    d.counts(1, "reports_total", "reports", result="duplicate")
    got = summary()
    pepsi.check(got["domains"][0]["messages"] == 45 and got["domains"][0]["rejected"] == 41 and got["sources"][0]["ip"] == "203.0.113.5", got)
    pepsi.check(summary("--since", "2100-01-01")["reports"] == [], "--since")
    # what is none, goes on to the next stage and harms nobody
    for data in (wrapped("bomb.gz", "application/gzip", gzip.compress(b"<" + b"a" * 50000000)),
                 wrapped("x.xml", "text/xml", b"<!DOCTYPE a [<!ENTITY b \"" + b"c" * 1000 + b"\">]><feedback>&b;</feedback>"),
                 wrapped("x.xml.gz", "application/gzip", gzip.compress((OLD % ("far", "strange.test", ROW)).encode())),
                 wrapped("x.gz", "application/gzip", gzip.compress((OLD % ("far", "pass.test", ROW)).encode())[:-20]),
                 b"From: <a@far.test>\r\nSubject: hello\r\n\r\nIs anybody there?\r\n"):
        feed(data)
    # about one message: named in the log, and passed on
    feed(SINGLE)
    pepsi.wait_for("what is no report is delivered", lambda: len(d.maildir("dmarc@pass.test")) == 6, 40, 0.3)
    pepsi.check(len(summary()["reports"]) == 2, summary())
    with open(d.log) as f:
        log = f.read()
    for words in ("dmarc report stored", "dmarc report duplicate", "a bomb", "document type declaration", "dmarc report foreign", "no dmarc report",
                  "feedback report kind=auth-failure from=far.test domain=pass.test author=pass.test source=203.0.113.5 failure=dmarc result=reject"):
        pepsi.check(words in log, "no %r in the log" % words)
    # failure reports are summed up, without names; one about nobody of ours is not
    feed(failed)                         # about ruf.test
    feed(SINGLE.replace(b"203.0.113.5", b"203.0.113.6"))
    pepsi.wait_for("failure reports are kept", lambda: len(summary("--failures")["reports"]) == 2 and len(d.maildir("dmarc@pass.test")) == 8, 30, 0.3)
    got = summary("--failures", "--domain", "pass.test")
    pepsi.check(got["domains"] == [dict(got["domains"][0], domain="pass.test", failure="dmarc", reports=2, incidents=2, rejected=2, sources=2)], got)
    pepsi.check({s["ip"] for s in got["sources"]} == {"203.0.113.5", "203.0.113.6"} and "ann" not in json.dumps(got) and "hello" not in json.dumps(got), got)
    code, out, _ = d.cli("dmarc", "received", "--failures")
    pepsi.check(code == 0 and "203.0.113.6" in out and "not verified" in out, out)
    code, out, err = d.cli("dmarc", "received")
    pepsi.check(code == 0 and re.search(r"pass\.test +2 ", out) and "203.0.113.5" in out, out)
    code, _, err = d.cli("dmarc", "received", "--since", "yesterday")
    pepsi.check(code == 2 and "date" in err, err)
    pepsi.check(d.json("dmarc", "send") == {"sent": 0, "messages": 0, "nowhere": 0, "later": 0, "reports": []}, "REPORTS = NO")
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [to_the_queue])
