"""RFC 3461 as a table: what NOTIFY asks for x what becomes of the recipient x whether the next hop offers DSN. Each cell is a message of its own
from a sender of its own, and says exactly which reports came (of which recipient, with which action) and what went on with the message. The rules are
written down here again, apart from the program's (unit/dsn_notify has its own table)."""
import email
import email.policy
import os

import pepsi

NOTIFY = ["", "NEVER", "SUCCESS", "FAILURE", "DELAY", "SUCCESS,FAILURE", "SUCCESS,DELAY", "FAILURE,DELAY", "SUCCESS,FAILURE,DELAY"]
OUTCOMES = ["delivered", "relayed", "expanded", "delayed", "failed"]
NO_DSN = ("PIPELINING", "8BITMIME", "SIZE 52428800", "ENHANCEDSTATUSCODES")


def expected(notify, outcome, dsn):
    """The actions that are reported."""
    words = notify.split(",")
    if outcome == "failed":
        return ["failed"] if not notify or "FAILURE" in words else []
    if outcome == "delayed":
        return ["delayed"] if not notify or "DELAY" in words else []
    if outcome == "expanded":
        return ["expanded"] if "SUCCESS" in words else []
    return [outcome] if "SUCCESS" in words and not dsn else []


def onward(notify, outcome):
    """NOTIFY as a next hop with DSN is to see it."""
    if outcome != "expanded" or "SUCCESS" not in notify:
        return notify
    return ",".join(w for w in notify.split(",") if w != "SUCCESS") or "NEVER"


class Cell:
    def __init__(self, number, notify, outcome, dsn):
        self.n, self.notify, self.outcome, self.dsn = number, notify, outcome, dsn
        self.sender = "s%d@home.test" % number
        where = "dsn.test" if dsn else "plain.test"
        self.rcpts = {"delivered": ["c%d@lmtp-%s" % (number, where)], "relayed": ["c%d@%s" % (number, where)],
                      "expanded": ["a%d@%s" % (number, where), "b%d@%s" % (number, where)],
                      "delayed": ["late%d@%s" % (number, where)], "failed": ["gone%d@%s" % (number, where)]}[outcome]
        self.to = "team%d@list.test" % number if outcome == "expanded" else self.rcpts[0]

    def __str__(self):
        return "NOTIFY=%s %s, next hop %s" % (self.notify or "(absent)", self.outcome, "with DSN" if self.dsn else "without")


def config(d, sinks, aliases):
    hops = "".join(pepsi.smarthost(name, sinks[name].port, "DELAY_WARNING = 1 s\nMAX_LIFETIME = 1 h\n") for name in ("dsn", "plain"))
    hops += "".join(pepsi.lmtp(name, sinks[name].port) for name in ("lmtp-dsn", "lmtp-plain"))
    routes = [("home.test", "maildir"), ("list.test", "aliases"), ("lmtp-dsn.test", "lmtp-dsn"), ("lmtp-plain.test", "lmtp-plain"),
              ("dsn.test", "dsn")]
    d.write_config(pepsi.route("init", routes, "plain") + pepsi.maildir("maildir", d.mail) + hops + pepsi.bounce()
                   + "[stage-aliases]\nPROGRAM = pepsi-stage-aliases\nFILE = %s\nNEXT_STAGE = init\nBOUNCE_STAGE = bounce\n" % aliases,
                   pepsi="LOCAL_DOMAINS = home.test list.test\n")


def blocks(octets):
    """(fields of the message, fields of each recipient) of a report"""
    m = email.message_from_bytes(octets, policy=email.policy.default)
    pepsi.check(m.get_content_type() == "multipart/report" and not m.defects, "no report: %s %s" % (m["Content-Type"], m.defects))
    status = list(m.iter_parts())[1].get_payload()
    status = [dict((k.lower(), str(v)) for k, v in b.items()) for b in status]
    return status[0], [b for b in status[1:] if b]


def check_cell(d, c, sinks):
    want = expected(c.notify, c.outcome, c.dsn)
    reports = d.maildir(c.sender)
    pepsi.check(len(reports) == len(want), "%s: %d reports, wanted %s" % (c, len(reports), want))
    for octets in reports:
        message, rcpts = blocks(octets)
        pepsi.check(message.get("original-envelope-id") == "cell+%d" % c.n, "%s: Original-Envelope-Id %s" % (c, message.get("original-envelope-id")))
        pepsi.check(len(rcpts) == 1, "%s: %d recipients" % (c, len(rcpts)))
        r = rcpts[0]
        pepsi.check(r["action"] == want[0], "%s: Action %s" % (c, r["action"]))
        pepsi.check(r["final-recipient"] == "rfc822; " + c.to, "%s: Final-Recipient %s" % (c, r["final-recipient"]))
        pepsi.check(r["original-recipient"] == "rfc822; orig+%d@orig.test" % c.n, "%s: Original-Recipient %s" % (c, r["original-recipient"]))
        pepsi.check(r["status"][0] == {"failed": "5", "delayed": "4"}.get(want[0], "2"), "%s: Status %s" % (c, r["status"]))
        pepsi.check(("will-retry-until" in r) == (want[0] == "delayed"), "%s: Will-Retry-Until %s" % (c, r))
    # and what the next hop was given
    if c.outcome in ("delayed", "failed"):
        return
    for rcpt in c.rcpts:
        sink = sinks[("lmtp-" if c.outcome == "delivered" else "") + ("dsn" if c.dsn else "plain")]
        got = [(m.mail_params, p) for m in sink.messages for r, p in m.rcpts if r == rcpt]
        pepsi.check(len(got) == 1, "%s: %s arrived %d times" % (c, rcpt, len(got)))
        mail, params = got[0]
        if not c.dsn:
            pepsi.check(not any(w in (mail + params).upper() for w in ("NOTIFY", "ORCPT", "ENVID", "RET=")), "%s: parameters for a hop without DSN: %s %s" % (c, mail, params))
            continue
        pepsi.check("RET=HDRS" in mail and "ENVID=cell+2B%d" % c.n in mail, "%s: MAIL parameters: %s" % (c, mail))
        notify = onward(c.notify, c.outcome)
        found = [w for w in params.split() if w.upper().startswith("NOTIFY=")]
        pepsi.check(found == (["NOTIFY=" + notify] if notify else []), "%s: RCPT parameters: %s" % (c, params))
        pepsi.check("ORCPT=rfc822;orig+2B%d@orig.test" % c.n in params, "%s: RCPT parameters: %s" % (c, params))


def table(t):
    sinks = {"dsn": pepsi.Sink(t), "plain": pepsi.Sink(t, extensions=NO_DSN), "lmtp-dsn": pepsi.Sink(t, lmtp=True),
             "lmtp-plain": pepsi.Sink(t, lmtp=True, extensions=NO_DSN)}
    for s in sinks.values():
        s.script = {"rcpt": lambda l: "450 4.2.0 not now" if "late" in l else "550 5.1.1 nobody here" if "gone" in l else None}
    cells, n = [], 0
    for outcome in OUTCOMES:
        for dsn in (True, False):
            for notify in NOTIFY:
                cells.append(Cell(n, notify, outcome, dsn))
                n += 1
    d = pepsi.Pepsid(t, "", start=False)
    aliases = os.path.join(d.dir, "aliases")
    with open(aliases, "w") as f:
        f.write("".join("team%d: %s\n" % (c.n, ", ".join(c.rcpts)) for c in cells if c.outcome == "expanded"))
    os.chmod(aliases, 0o644)
    config(d, sinks, aliases)
    d.start()
    s = pepsi.Smtp(d.port)
    for c in cells:
        params = "ORCPT=rfc822;orig+2B%d@orig.test" % c.n + (" NOTIFY=" + c.notify if c.notify else "")
        code, text = s.send(c.sender, c.to, pepsi.message("cell%d" % c.n, sender=c.sender), "RET=HDRS ENVID=cell+2B%d" % c.n, params)
        pepsi.check(code == 250, "%s: %d %s" % (c, code, text))
    s.close()
    waiting = [c for c in cells if c.outcome == "delayed"]

    def settled():
        """Only those that wait are left, and each was tried often enough to have been told of twice."""
        rows = d.queue()
        if len(rows) != len(waiting) or not all(r["rcpt_to"][0].startswith("late") for r in rows):
            return False
        return all(d.json("queue", "show", str(r["id"]))["state"].get("attempts", 0) >= 4 for r in rows)
    pepsi.wait_for("everything but the delayed ones done", settled, 60, 1)
    for c in cells:
        check_cell(d, c, sinks)
    pepsi.say("      %d cells" % len(cells))

    def emptied():
        """A row that is being tried just then is not deleted."""
        for stage in ("dsn", "plain"):
            d.cli("queue", "delete", "--stage", stage)
        return not d.queue()
    pepsi.wait_for("the delayed ones deleted", emptied, 20, 0.3)
    d.stop()


pepsi.main(__file__, [table])
