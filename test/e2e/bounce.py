"""A permanent refusal becomes a delivery status notification that a MIME parser understands: null sender, the right
fields, the original attached; a bounce never bounces, NOTIFY=NEVER is kept silent, DSN parameters travel on."""
import email
import email.policy
import time

import pepsi


def daemon(t, sink, more=""):
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail)
                   + pepsi.smarthost("relay", sink.port, more) + pepsi.bounce())
    d.start()
    return d


def parse(octets):
    """The three parts of a DSN: (outer, text, [status blocks], the returned message or headers)."""
    m = email.message_from_bytes(octets, policy=email.policy.default)
    pepsi.check(m.get_content_type() == "multipart/report" and m.get_param("report-type") == "delivery-status", "content type: %s" % m["Content-Type"])
    parts = list(m.iter_parts())
    pepsi.check(len(parts) >= 2, "%d parts" % len(parts))
    pepsi.check(parts[0].get_content_type() == "text/plain", "first part: %s" % parts[0].get_content_type())
    pepsi.check(parts[1].get_content_type() == "message/delivery-status", "second part: %s" % parts[1].get_content_type())
    blocks = [dict((k.lower(), v) for k, v in b.items()) for b in parts[1].get_payload()]
    pepsi.check(not m.defects and not any(p.defects for p in parts), "defects: %s" % m.defects)
    return m, parts[0].get_content(), [b for b in blocks if b], parts[2] if len(parts) > 2 else None


def refused_for_good(t):
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda l: "550 5.1.1 <gone> no such user here" if "gone" in l else None}
    d = daemon(t, sink)
    sent = pepsi.message("orig", subject="original subject", sender="alice@example.test")
    d.accept("alice@example.test", ["gone@far.test", "here@far.test"], sent, params="RET=FULL ENVID=QQ314159", rcpt_params="NOTIFY=FAILURE,DELAY")
    pepsi.wait_for("the other recipient's copy", lambda: "orig" in sink.tokens(), 15)
    pepsi.check([r[0] for r in sink.messages[0].rcpts] == ["here@far.test"], "recipients: %s" % sink.messages[0].rcpts)
    pepsi.check("ENVID=QQ314159" in sink.messages[0].mail_params and "RET=FULL" in sink.messages[0].mail_params, "MAIL parameters: %s" % sink.messages[0].mail_params)
    pepsi.check("NOTIFY=" in sink.messages[0].rcpts[0][1], "RCPT parameters: %s" % (sink.messages[0].rcpts,))
    mail = pepsi.wait_for("the bounce", lambda: d.maildir("alice@example.test"), 15)
    pepsi.check(len(mail) == 1, "%d bounces" % len(mail))
    m, text, blocks, original = parse(mail[0])
    pepsi.check(m["Return-Path"] in ("<>", "< >"), "Return-Path: %r" % m["Return-Path"])
    pepsi.check("alice@example.test" in m["To"], "To: %s" % m["To"])
    pepsi.check((m["Auto-Submitted"] or "").startswith("auto-replied"), "Auto-Submitted: %s" % m["Auto-Submitted"])
    for h in ("From", "Subject", "Date", "Message-ID", "MIME-Version"):
        pepsi.check(m[h], "no %s" % h)
    pepsi.check("gone@far.test" in text and "no such user here" in text, "the text for people:\n%s" % text)
    pepsi.check("mx.example.test" in blocks[0].get("reporting-mta", ""), "Reporting-MTA: %s" % blocks[0])
    pepsi.check("QQ314159" in blocks[0].get("original-envelope-id", ""), "Original-Envelope-Id: %s" % blocks[0])
    pepsi.check(len(blocks) == 2, "recipient blocks: %s" % blocks[1:])
    b = blocks[1]
    pepsi.check("gone@far.test" in b.get("final-recipient", ""), "Final-Recipient: %s" % b)
    pepsi.check(b.get("action", "").strip().lower() == "failed", "Action: %s" % b)
    pepsi.check(b.get("status", "").strip().startswith("5.1.1"), "Status: %s" % b)
    pepsi.check("550" in b.get("diagnostic-code", "") and "smtp" in b.get("diagnostic-code", "").lower(), "Diagnostic-Code: %s" % b)
    pepsi.check(original is not None and original.get_content_type() == "message/rfc822", "no original attached")
    pepsi.check(sent.split(b"\r\n\r\n", 1)[1] in mail[0], "RET=FULL: the original's body is not whole")
    d.wait_empty(10)
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"], "the books: %s" % s)
    d.stop()


def never_again(t):
    """A refused bounce is not bounced; NOTIFY=NEVER yields none; RET=HDRS returns headers only."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": "550 5.7.1 nobody may"}
    d = daemon(t, sink)
    d.accept("", "someone@far.test", pepsi.message("null"))
    d.accept("alice@example.test", "someone@far.test", pepsi.message("never", sender="alice@example.test"), rcpt_params="NOTIFY=NEVER")
    d.accept("carol@far.test", "someone@far.test", pepsi.message("away", sender="carol@far.test"))
    d.accept("alice@example.test", "someone@far.test", pepsi.message("hdrs", sender="alice@example.test", size=5000), params="RET=HDRS")
    mail = pepsi.wait_for("the one bounce", lambda: d.maildir("alice@example.test"), 20)
    d.wait_empty(20)
    time.sleep(0.5)
    mail = d.maildir("alice@example.test")
    pepsi.check(len(mail) == 1, "%d bounces to alice" % len(mail))
    m, text, blocks, original = parse(mail[0])
    pepsi.check(original is not None and original.get_content_type() == "text/rfc822-headers", "RET=HDRS: %s" % (original and original.get_content_type()))
    pepsi.check(b"X-Token: hdrs" in mail[0] and mail[0].count(b"all work and no play") == 0, "RET=HDRS returned the body")
    pepsi.check(not sink.messages, "something was taken: %s" % sink.messages)
    pepsi.check(d.status()["queue"]["total"] == 0, "a double bounce stays")
    d.stop()


def given_up(t):
    """Temporary until MAX_LIFETIME, then bounced with 4.4.7 or the last reply's status."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": "450 4.2.1 come back tomorrow"}
    d = daemon(t, sink, "MAX_LIFETIME = 3 s\n")
    d.accept("alice@example.test", "slow@far.test", pepsi.message("late", sender="alice@example.test"))
    mail = pepsi.wait_for("the bounce after MAX_LIFETIME", lambda: d.maildir("alice@example.test"), 25)
    m, text, blocks, original = parse(mail[0])
    pepsi.check("come back tomorrow" in text + str(blocks), "the last reply is not told:\n%s" % text)
    pepsi.check(blocks[1]["status"].strip()[0] in "45", "Status: %s" % blocks[1])
    pepsi.check(blocks[1]["action"].strip().lower() == "failed", "Action: %s" % blocks[1])
    d.wait_empty(10)
    d.stop()


pepsi.main(__file__, [refused_for_good, never_again, given_up])
