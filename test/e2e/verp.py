"""pepsi-stage-verp: each recipient's mail leaves with a return address of its own; a bounce that comes to it goes home to the author, and teaches the
suppression list when it speaks of that recipient; forged bounces teach nothing, forged, expired and borrowed addresses are refused at RCPT."""
import os

import pepsi
from pepsi import check, wait_for

DOMAIN = "bounces.home.test"


def dsn(who, status="5.1.1", text="550 5.1.1 no such user here", original=None):
    return ("From: MAILER-DAEMON@far.test\r\nTo: x\r\nSubject: Undelivered Mail Returned to Sender\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\n\r\nSorry, your message to %s could not be delivered.\r\n"
            "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.far.test\r\n\r\n%sFinal-Recipient: rfc822; %s\r\nAction: failed\r\nStatus: %s\r\n"
            "Diagnostic-Code: smtp; %s\r\n--b--\r\n" % (who, "Original-Recipient: rfc822; %s\r\n" % original if original else "", who, status, text)).encode()


class Site:
    """verp → route: ours into Maildirs, the rest → listed → out. Strangers come from 127.0.0.9."""

    def __init__(self, t, more=""):
        self.far = pepsi.Sink(t)
        self.keys = os.path.join(t.dir, "keys%d" % t.next_number())
        self.d = pepsi.Pepsid(t, "", start=False)
        stages = ("[stage-init]\nPROGRAM = pepsi-stage-route\nDEFAULT = verp\n\n[stage-verp]\nPROGRAM = pepsi-stage-verp\nDOMAIN = %s\nKEY_DIR = %s\nNEXT_STAGE = route\nBOUNCE_STAGE = bounce\n%s\n"
                  "[domain-%s]\nRECIPIENTS = stage:verp\n[stage-listed]\nPROGRAM = pepsi-stage-suppression\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\n\n" % (DOMAIN, self.keys, more, DOMAIN))
        stages += pepsi.route("route", [("home.test", "local")], default="listed") + pepsi.maildir("local", self.d.mail) + pepsi.smarthost("out", self.far.port) + pepsi.bounce()
        self.d.write_config(stages, pepsi="LOCAL_DOMAINS = home.test %s\nRELAY_NETWORKS = 127.0.0.2/32\n" % DOMAIN, listener="LIMIT_EXEMPT = 127.0.0.0/8\n")
        code, out, err = self.d.cli("keys", "srs", "add", "first")
        check(code == 0, "keys srs add: " + out + err)
        code, out, err = self.d.cli("config", "check")
        check(code == 0 and not err, "config check: " + out + err)
        self.d.start()

    def accept(self, sender, rcpts, data, source="127.0.0.2"):
        s = pepsi.Smtp(self.d.port, source=source)
        try:
            code, text = s.send(sender, rcpts, data)
        finally:
            s.close()
        check(code == 250, "from %s to %s: %d %s" % (sender, rcpts, code, text))

    def rcpt(self, to, sender=""):
        s = pepsi.Smtp(self.d.port, source="127.0.0.9")
        try:
            s.cmd("MAIL FROM:<%s>" % sender)
            return s.cmd("RCPT TO:<%s>" % to)
        finally:
            s.close()

    def left(self, token, n=1):
        """{recipient: sender} of that message at the far side"""
        def found():
            got = {m.rcpts[0][0]: m.mail_from for m in list(self.far.messages) if m.token == token}
            return len(got) == n and got
        return wait_for("%s at the far side" % token, found, 30)

    def home(self, n):
        return wait_for("%d bounces at home" % n, lambda: len(self.d.maildir("ann@home.test")) >= n and self.d.maildir("ann@home.test"), 30)

    def listed(self):
        return sorted(r["recipient"] for r in self.d.json("suppression", "list"))

    def logged(self, what):
        with open(self.d.log, errors="replace") as f:
            return [line for line in f if what in line]


def learnt(t):
    """a bounce that comes hours later: home to the author, onto the list; the next message does not leave"""
    s = Site(t)
    s.accept("ann@home.test", ["Gone@far.test", "here@far.test", "bob@home.test"], pepsi.message("one"))
    senders = s.left("one", 2)
    check(len(set(senders.values())) == 2 and all(v.endswith("=home.test=" + v.rsplit("=", 1)[1]) and v.endswith("-ann@" + DOMAIN) for v in senders.values()), str(senders))
    wait_for("the one who lives here", lambda: s.d.maildir("bob@home.test"))
    check(b"Return-Path: <ann@home.test>" in s.d.maildir("bob@home.test")[0], "local mail got a return address")
    gone = senders["Gone@far.test"]
    s.accept("", [gone], dsn("gone@far.test"), source="127.0.0.9")
    check(b"gone@far.test" in s.home(1)[0], "the bounce did not come home")
    check(s.listed() == ["gone@far.test"], "the list: %s" % s.listed())
    check(s.logged("event=bounce-read to=<gone@far.test> proven=yes"), "not logged")
    s.accept("ann@home.test", ["gone@far.test"], pepsi.message("two"))
    report = [m for m in s.home(2) if b"mail to this address has been stopped" in b" ".join(m.split())]
    check(report and not [m for m in s.far.messages if m.token == "two"], "it was sent again")
    name = 'pepsi_module_verp_total{stage="verp",result="%s"}'
    wait_for("the metrics", lambda: s.d.metrics().get(name % "learnt") == 1 and s.d.metrics().get(name % "made") == 3)
    wait_for("an empty queue", lambda: not s.d.queue(), 30)


def forged(t):
    """what is said of others, or is not for good, teaches nothing, and still goes home; what is no address of ours is refused"""
    s = Site(t)
    s.accept("ann@home.test", ["mallory@far.test"], pepsi.message("one"))
    address = s.left("one")["mallory@far.test"]
    for n, data in enumerate([dsn("victim@far.test"), dsn("victim@far.test", original="other@far.test"), dsn("mallory@far.test", "5.2.2", "552 5.2.2 mailbox full"),
                              dsn("mallory@far.test", "5.7.1", "550 5.7.1 spam"), dsn("mallory@far.test", "4.4.1", "timed out"), b"Subject: no bounce\r\n\r\nI am mallory@far.test, write to victim@far.test\r\n"], 1):
        s.accept("", [address], data, source="127.0.0.9")
        s.home(n)
        check(s.listed() == [], "learnt from no %d: %s" % (n, s.listed()))
    check(len(s.logged("proven=no")) >= 2, "who is not proven is not told")
    # forwarded on: the far side names another address, and the one that it was sent to
    s.accept("", [address], dsn("m2@elsewhere.test", original="mallory@far.test"), source="127.0.0.9")
    s.home(7)
    check(s.listed() == ["mallory@far.test"], "the original recipient: %s" % s.listed())
    for i in (5, 10, 20, 27, 40, len(address.split("@")[0]) - 1):
        changed = address[:i] + ("A" if address[i] != "A" else "B") + address[i + 1:]
        code, text = s.rcpt(changed)
        check(code == 550 and "5.1.1" in str(text), "%s: %s %s" % (changed, code, text))
    code, text = s.rcpt(address, sender="spammer@far.test")
    check(code == 550 and "5.7.1" in str(text), "with a sender: %s %s" % (code, text))
    code, text = s.rcpt("postmaster@" + DOMAIN)
    check(code in (250, 550), "postmaster: %s %s" % (code, text))
    check(s.rcpt(address)[0] == 250, "the genuine one")


def tongues(t):
    """what servers say in charsets they do not name, or so long that it is cut, is learnt from as well"""
    s = Site(t)
    said = {"a@far.test": b"550 5.1.1 Empf\xe4nger unbekannt", "b@far.test": b"550 5.1.1 x" + b"\r\n \xe6\x97\xa5\xe6\x9c\xac" * 400,
            "c@far.test": b"550 5.1.1 \x1b$B08@hITL@\x1b(B", "d@far.test": b"550 5.1.1 \xff\x01 user unknown"}
    s.accept("ann@home.test", sorted(said), pepsi.message("one"))
    senders = s.left("one", len(said))
    for n, who in enumerate(sorted(said), 1):
        s.accept("", [senders[who]], dsn(who, text="SAID").replace(b"SAID", said[who]), source="127.0.0.9")
        s.home(n)
        check(who in s.listed(), "%s is not on the list: %s" % (who, s.listed()))
    wait_for("an empty queue", lambda: not s.d.queue(), 30)


def left(t):
    """senders that do not fit, and messages to too many, leave as they are"""
    s = Site(t, more="SPLIT = 2\nLEARN = NO\n")
    s.accept("a-very-long-name-of-a-newsletter-of-ours@home.test", ["a@far.test"], pepsi.message("long"))
    check(s.left("long")["a@far.test"] == "a-very-long-name-of-a-newsletter-of-ours@home.test", "it got a return address")
    s.accept("ann@home.test", ["a@far.test", "b@far.test", "c@far.test"], pepsi.message("many"))
    m = wait_for("it", lambda: [m for m in s.far.messages if m.token == "many"])
    check(len(m) == 1 and m[0].mail_from == "ann@home.test" and len(m[0].rcpts) == 3, "split: %s" % m)
    s.accept("", ["a@far.test"], pepsi.message("null"))
    check(s.left("null")["a@far.test"] == "", "the null sender got a return address")
    s.accept("ann@home.test", ["a@far.test"], pepsi.message("off"))
    s.accept("", [s.left("off")["a@far.test"]], dsn("a@far.test"), source="127.0.0.9")
    s.home(1)
    check(s.listed() == [], "LEARN = NO: %s" % s.listed())


def latin(t):
    """what a server said in letters that are no UTF-8 is learnt all the same, and the bounce comes home"""
    s = Site(t)
    s.accept("ann@home.test", ["weg@far.test"], pepsi.message("one"))
    address = s.left("one")["weg@far.test"]
    data = dsn("weg@far.test").replace(b"550 5.1.1 no such user here", b"550 5.1.1 Empf\xe4nger unbekannt \xff\xfe, no such user here")
    s.accept("", [address], data, source="127.0.0.9")
    s.home(1)
    check(s.listed() == ["weg@far.test"], "the list: %s" % s.listed())
    check(not s.logged("cannot be kept"), "the list was told what it cannot keep")


def crowd(t):
    """one bounce to many return addresses of one author, each given often, that speaks of hundreds: one copy at home, and nobody is suppressed but whom an address was made for"""
    s = Site(t)
    names = ["m%d@far.test" % i for i in range(20)]
    s.accept("ann@home.test", names, pepsi.message("one"))
    made = s.left("one", 20)
    blocks = "".join("Original-Recipient: rfc822; w%d@far.test\r\nFinal-Recipient: rfc822; v%d@far.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n" % (i, i) for i in range(150))
    data = dsn("m7@far.test").replace(b"Final-Recipient: ", blocks.encode() + b"Final-Recipient: ", 1)
    s.accept("", list(made.values()) * 50, data, source="127.0.0.9")
    s.home(1)
    wait_for("an empty queue", lambda: not s.d.queue(), 60)
    copies = len(s.d.maildir("ann@home.test"))
    check(copies == 1, "copies: %d" % copies)
    check(s.listed() == ["m7@far.test"], "the list: %s" % s.listed())
    check([line for line in s.logged("event=accepted") if "rcpts=20 repeated=980 " in line], "that they were repeated is not logged")


pepsi.main(__file__, [learnt, forged, left, latin, tongues, crowd])
