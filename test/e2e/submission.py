"""Submission (RFC 6409) against a running daemon: whose addresses may stand in From and Sender, what is added and taken out, and the caps of accounts:
mail above one is held and not refused, its owner and the operator are told, it goes out by itself or by hand, and a restart forgets nothing."""
import base64
import re

import pepsi
import promises

PASSWORD = "a secret, truly"


class Site:
    shared = None

    @classmethod
    def of(cls, t):
        cls.shared = cls.shared or cls(t)
        return cls.shared

    def __init__(self, t):
        _, cert, key = promises.certificate(t)
        self.ports = {n: pepsi.free_port() for n in ("strict", "envelope", "none", "secret", "servers")}
        self.d = d = pepsi.Pepsid(t, "", start=False)
        listeners = ""
        for name, more in (("strict", ""), ("envelope", "SENDER_OWNERSHIP = envelope\nREMOVE_BCC = NO\n"), ("none", "SENDER_OWNERSHIP = none\n"),
                           ("secret", "HIDE_CLIENT = YES\n"), ("servers", "AUTH = plain\n")):
            protocol = "smtp" if name == "servers" else "submission"
            listeners += "[listener-%s]\nBIND = 127.0.0.1:%d\nPROTOCOL = %s\nTLS_CERT = %s\nTLS_KEY = %s\n%s\n" % (name, self.ports[name], protocol, cert, key, more)
        d.write_config(pepsi.route("init", [("example.test", "maildir")], "bounce") + pepsi.maildir("maildir", d.mail) + pepsi.bounce(),
                       more=listeners + "[pepsi-signin]\nMESSAGES_PER_HOUR = 1000\n")
        d.keep = True
        d.start()
        for name, senders, caps in (("alice", ["alice@example.test", "@alice.test"], []), ("bob", ["bob@example.test"], ["--messages-per-hour", "3"]),
                                    ("carol", ["carol@example.test"], ["--recipients-per-day", "5"]), ("relay", ["*"], [])):
            self.account(name, senders, caps)
        pepsi.wait_for("the admin child", lambda: d.status()["ingress"]["signin"]["up"])

    def account(self, name, senders, caps):
        args = ["account", "add", name, "--password-stdin"] + [x for s in senders for x in ("--sender", s)] + caps

        def once():
            code, out, err = self.d.cli(*args, stdin=PASSWORD.encode() + b"\n")
            return code == 0 or (out + err if "reached" not in err and "away" not in err and "cannot reach" not in err else False)
        done = pepsi.wait_for("pepsi account add", once)
        pepsi.check(done is True, "pepsi account add %s: %s" % (name, done))

    def session(self, name, listener="strict"):
        s = pepsi.Smtp(self.ports[listener])
        promises.starttls(s)

        code, text = s.cmd("AUTH PLAIN " + base64.b64encode(("\0%s\0%s" % (name, PASSWORD)).encode()).decode())
        pepsi.check(code == 235, "sign-in of %s: %d %s" % (name, code, text))
        return s

    def send(self, name, header, rcpts="alice@example.test", listener="strict", code=250, sender=None):
        s = self.session(name, listener)
        got = s.send(sender or name + "@example.test", rcpts, header.replace("\n", "\r\n").encode() + b"\r\nhello\r\n")
        s.close()
        pepsi.check(got[0] == code, "%r: %d %s, not %d" % (header, *got, code))
        return int(got[1].rsplit(" ", 1)[1]) if code == 250 else got[1]

    def arrived(self, token, address="alice@example.test", n=1):
        there = lambda: [m for m in self.d.maildir(address) if b"X-Token: %s\r\n" % token.encode() in m]
        return pepsi.wait_for("%s for %s" % (token, address), lambda: len(there()) >= n and there(), 20)


def ownership(t):
    """Every address in From and Sender must be the account's; what cannot be read is refused, too."""
    site = Site.of(t)
    for header, code, word in (
            ("From: alice@example.test\n", 250, ""), ("From: Alice <any@alice.test> (me)\n", 250, ""),
            ("From: \"boss@example.test\" <alice@example.test>\n", 250, ""),
            ("From: boss@example.test\n", 550, "<boss@example.test>"), ("From: alice@example.test, boss@example.test\n", 550, "<boss@example.test>"),
            ("From: alice@example.test\nSender: boss@example.test\n", 550, "Sender: <boss@example.test>"),
            ("From: us: alice@example.test, boss@example.test;\n", 550, "<boss@example.test>"),
            ("From: alice@example.test\nFrom: boss@example.test\n", 554, "more than one From"),
            ("From: alice@example.test <boss@example.test\n", 554, "From"), ("Subject: nobody\n", 554, "no From"), ("From: nobody:;\n", 554, "From")):
        text = site.send("alice", header, code=code)
        pepsi.check(code == 250 or word in text, "%r: %s" % (header, text))
    for header, code in (("From: alice@example.test\nResent-From: x@alice.test\nResent-From: alice@example.test\n", 250),
                         ("From: alice@example.test\nResent-From: x@alice.test\nResent-FROM : boss@example.test\n", 550),
                         ("From: alice@example.test\nResent-From: alice@example.test\nResent-Sender: boss@example.test\n", 550)):
        site.send("alice", header, code=code)
    site.send("alice", "From: boss@example.test\n", listener="envelope")
    # AUTH on a listener for other servers is no way around it; but nothing is completed there, and servers may hand in what is not theirs
    site.send("alice", "From: boss@example.test\n", listener="servers", code=550)
    site.send("alice", "From: alice@example.test\nSender: boss@example.test\n", listener="servers", code=550)
    site.send("alice", "From: alice@example.test\nFrom: alice@example.test\n", listener="servers", code=554)
    site.send("alice", "From: alice@example.test\nX-Token: servers\nBcc: boss@example.test\n", listener="servers")
    pepsi.check(b"\r\nBcc: boss@example.test\r\n" in site.arrived("servers")[0] and b"\r\nDate:" not in site.arrived("servers")[0], "completed for a server")
    site.send("alice", "X-Token: nobody\n", listener="servers")
    site.send("relay", "From: boss@example.test\nFrom: both@example.test\n", listener="servers", sender="boss@example.test")
    s = site.session("alice", "envelope")
    code, text = s.cmd("MAIL FROM:<boss@example.test>")
    pepsi.check(code == 553, "MAIL of somebody else: %d %s" % (code, text))
    s.close()
    site.send("alice", "From: boss@example.test\n", listener="none", sender="boss@example.test")
    m = site.d.metrics()
    pepsi.check(int(m['pepsi_smtp_rejected_total{reason="from"}']) == 8 and int(m['pepsi_smtp_rejected_total{reason="form"}']) == 5, "the metrics: %s"
                % {k: v for k, v in m.items() if "rejected" in k})


def completed(t):
    """Date, Message-ID and, for several authors, Sender are added where they are missing, and nowhere else; Bcc is taken out; a client may be hidden."""
    site = Site.of(t)
    site.send("alice", "From: alice@example.test\nX-Token: bare\nBcc: hidden@example.test,\n\tmore@example.test\nSubject: x\n")
    m = site.arrived("bare")[0]
    pepsi.check(re.search(rb"(?m)^Date: \w{3}, \d", m) and re.search(rb"(?m)^Message-ID: <\d+\.\d+@", m), "nothing was added: %r" % m)
    pepsi.check(b"hidden" not in m and b"more@" not in m and b"Subject: x\r\n" in m, "Bcc is still there: %r" % m)
    pepsi.check(b"Sender:" not in m, "a Sender nobody needs: %r" % m)
    pepsi.check(b"127.0.0.1" in m.split(b"From:")[0], "Received does not tell the client: %r" % m)
    site.send("alice", "From: alice@example.test, x@alice.test\nDate: Mon, 30 Nov 2026 12:00:00 +0000\nMessage-ID: <own@x>\nX-Token: full\nBcc: seen@x.test\n",
              listener="envelope")
    m = site.arrived("full")[0]
    pepsi.check(m.count(b"Date:") == 1 and m.count(b"Message-ID:") == 1 and b"Bcc: seen@x.test" in m, "%r" % m)
    pepsi.check(b"Sender: <alice@example.test>\r\n" in m, "no Sender for two authors: %r" % m)
    with open(site.d.log, encoding="utf-8", errors="replace") as f:
        taken = [line for line in f if "event=accepted" in line]
    pepsi.check(any('account="alice" message_id="<own@x>"' in line for line in taken) and all("message_id=" in line for line in taken if "listener=strict" in line),
                "Message-ID and account are not in the log: %s" % taken)
    site.send("alice", "From: alice@example.test\nX-Token: secret\n", listener="secret")
    m = site.arrived("secret")[0]
    pepsi.check(b"127.0.0.1" not in m and b"client.example.test" not in m and b"ESMTPSA" in m, "the client shows: %r" % m)


def over_cap(t):
    """The fourth message of bob's hour is held, he and the operator are told once; a restart does not give him a new hour."""
    site = Site.of(t)
    d = site.d
    for i in range(3):
        site.send("bob", "From: bob@example.test\nX-Token: in%d\n" % i)
    held = [site.send("bob", "From: bob@example.test\nX-Token: over%d\n" % i) for i in range(2)]
    for i in range(3):
        site.arrived("in%d" % i)
    rows = {m["id"]: m for m in d.queue()}
    for i in held:
        pepsi.check(i in rows and rows[i]["status"] == "paused" and rows[i]["hold"] == "cap" and rows[i]["next_attempt_at"], "not held: %s" % rows)
    out = d.cli("queue", "list")[1]
    pepsi.check(out.count("held: over a limit of its account") == 2, "queue list does not say why: %s" % out)
    notices = lambda: [m for m in d.maildir("bob@example.test") if b"Auto-Submitted: auto-generated" in m]
    m = pepsi.wait_for("the owner is told", notices, 20)[0]
    pepsi.check(b"Return-Path: <>" in m and b"messages per hour" in m and str(held[0]).encode() in m, "the notice: %r" % m)
    operator = lambda: [m for m in d.maildir("postmaster@example.test") if b"over its limit" in m]
    m = pepsi.wait_for("the operator is told", operator, 20)[0]
    pepsi.check(b"The account bob" in m and b"3 messages per hour" in m and b"Auto-Submitted: auto-generated" in m and str(held[0]).encode() in m,
                "to postmaster: %r" % m)
    with open(d.log, encoding="utf-8", errors="replace") as f:
        log = f.read()
    pepsi.check(re.search(r"warn .*id=%d event=over-cap account=\"?bob" % held[0], log), "not in the log")
    caps = d.status()["ingress"]["caps"]
    pepsi.check(caps["held"] == 2 and caps["told"] == 1 and caps["operator_told"] == 1, "status: %s" % caps)
    code, out, err = d.cli("status")
    pepsi.check(re.search(r"(?m)^over cap +held 2, refused 0, told 1, not_told 0, operator_told 1, operator_not_told 0$", out), "pepsi status: %s%s" % (out, err))
    pepsi.check(int(d.metrics()["pepsi_caps_held_total"]) == 2, "metrics")
    # the books reach the database within seconds, also without an orderly stop
    d.stop()
    d.start()
    pepsi.wait_for("the admin child", lambda: d.status()["ingress"]["signin"]["up"])
    pepsi.wait_for("the books", lambda: d.status()["ingress"]["caps"]["accounts"] >= 1, 15)
    again = site.send("bob", "From: bob@example.test\nX-Token: over2\n")
    rows = {m["id"]: m for m in d.queue()}
    pepsi.check(again in rows and rows[again]["hold"] == "cap", "the restart made him free: %s" % rows)
    # three a hour: the sixth waits as long as the fourth, the seventh an hour more
    later = site.send("bob", "From: bob@example.test\nX-Token: over3\n")
    rows = {m["id"]: m for m in d.queue()}
    times = [rows[i]["next_attempt_at"] for i in (held[0], again, later)]
    pepsi.check(times[0][:16] == times[1][:16] and times[2] > times[1], "released at %s" % times)
    pepsi.check(len(notices()) == 1 and len(operator()) == 1, "%d notices, %d to postmaster" % (len(notices()), len(operator())))
    code, out, err = d.cli("queue", "retry", str(held[0]))
    pepsi.check(code == 0, "pepsi queue retry: %s%s" % (out, err))
    site.arrived("over0")
    pepsi.check(not [m for m in d.maildir("alice@example.test") if b"X-Token: over1" in m], "the other was released, too")


def recipients(t):
    """A cap in recipients counts each of them; accounts without caps of their own have the configured ones."""
    site = Site.of(t)
    five = ["u%d@example.test" % i for i in range(5)]
    site.send("carol", "From: carol@example.test\nX-Token: five\n", rcpts=five)
    six = site.send("carol", "From: carol@example.test\nX-Token: six\n")
    rows = {m["id"]: m for m in site.d.queue()}
    pepsi.check(six in rows and rows[six]["hold"] == "cap", "the sixth recipient is not held: %s" % rows)
    for u in five:
        site.arrived("five", u)
    s = site.d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"] + s["queue"]["total"], "the books: %s" % s)
    site.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [ownership, completed, over_cap, recipients])
