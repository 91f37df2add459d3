"""pepsi-sendmail as the programs of a machine use it: cron, mailx, git send-email, PHP, mail readers that speak SMTP to it. What
happens while pepsid is away: sendmail_drop.py."""
import os
import re
import socket
import subprocess

import pepsi

EX_OK, EX_USAGE, EX_DATAERR, EX_NOUSER, EX_UNAVAILABLE, EX_CANTCREAT, EX_TEMPFAIL, EX_NOPERM = 0, 64, 65, 67, 69, 73, 75, 77
USER = 4242  # no account has it


class Site:
    def __init__(self, t, stages=None, **kw):
        self.t, self.d = t, pepsi.Pepsid(t, "", start=False)
        self.d.write_config((stages or pepsi.maildir("init", self.d.mail)) + pepsi.bounce(), **kw)
        self.d.start()
        self.submit = os.path.join(self.d.state, "submit")
        self.drop, self.bad = os.path.join(self.submit, "drop"), os.path.join(self.submit, "bad")

    def run(self, *args, stdin=b"", name="pepsi-sendmail", uid=None, timeout=60):
        """(exit code, standard output, standard error)"""
        command = [os.path.join(pepsi.BIN, name)] + list(args)
        if uid is not None:
            command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] + command
        env = dict(os.environ, PEPSI_CONFIG=self.d.config, **self.t.environment)
        r = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=timeout * (3 if pepsi.SANITIZED else 1))
        return r.returncode, r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")

    def ok(self, *args, **kw):
        code, out, err = self.run(*args, **kw)
        pepsi.check(code == 0, "%s: exit %d: %s%s" % (" ".join(args), code, out, err))
        return out

    def arrived(self, address, n, seconds=30):
        pepsi.wait_for("%d messages for %s" % (n, address), lambda: len(self.d.maildir(address)) >= n, seconds)
        return self.d.maildir(address)

    def dropped(self):
        return [n for n in os.listdir(self.drop) if n.startswith("m")]

    def emptied(self, seconds=60):
        pepsi.wait_for("drop folder empty", lambda: not os.listdir(self.drop), seconds)


def other_user():
    return USER if pepsi.ROOT else None


def field(message, name):
    head = message.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = re.findall(rb"(?mi)^%s:[ \t]*((?:[^\r\n]|\r\n[ \t])*)\r\n" % name.encode(), head)
    return [re.sub(rb"\r\n[ \t]+", b" ", f).decode("utf-8", "replace") for f in found]


def programs(t):
    s = Site(t)
    # cron
    s.ok("-FCronDaemon", "-i", "-odi", "-oem", "-oi", "-t", "-f", "root",
         stdin=b"From: root (Cron Daemon)\nTo: cron@example.test\nSubject: Cron <root@host> true\nMIME-Version: 1.0\n\nline\n.\nmore\rend\0x\n")
    m = s.arrived("cron@example.test", 1)[0]
    pepsi.check(m.endswith(b"\r\n\r\nline\r\n.\r\nmore\r\nend?x\r\n"), "cron's text came as %r" % m[-60:])
    pepsi.check(field(m, "Return-Path") in ([], ["<root@mx.example.test>"]) and len(field(m, "Date")) == 1 and len(field(m, "Message-ID")) == 1, "header: %r" % m)
    pepsi.check("(userid %d)" % os.geteuid() in field(m, "Received")[0], "Received does not name the user: %s" % field(m, "Received"))
    # mailx: addresses as arguments, a dot ends the text
    s.ok("-oi", "-f", "a@b.test", "c@example.test", stdin=b"Subject: two\n\n.\nstill\n")
    s.ok("c@example.test", stdin=b"Subject: dot\n\nfirst\n.\nnever\n")
    got = s.arrived("c@example.test", 2)
    pepsi.check(any(g.endswith(b"\r\n\r\n.\r\nstill\r\n") for g in got) and any(g.endswith(b"\r\n\r\nfirst\r\n") for g in got), "dots: %r" % got)
    # git send-email: names, lists, Bcc; one copy each
    s.ok("-i", "-f", "git@example.test", "--", "Dev One <dev@example.test>, dev@EXAMPLE.test", "other@example.test",
         stdin=b"From: Git <git@example.test>\nTo: dev@example.test\nBcc: hidden@example.test\nSubject: [PATCH]\nMessage-Id: <x@y>\nDate: Mon, 30 Nov 2026 12:00:00 +0000\n\n---\n")
    pepsi.check(len(s.arrived("dev@example.test", 1)) == 1 and len(s.arrived("other@example.test", 1)) == 1, "copies")
    m = s.d.maildir("dev@example.test")[0]
    pepsi.check(not field(m, "Bcc") and field(m, "Message-ID") == ["<x@y>"] and len(field(m, "Date")) == 1, "header: %r" % m)
    # PHP's mail(): CRLF in the header it made, LF in the text, 8-bit text
    s.ok("-t", "-i", stdin=b"To: php@example.test\r\nSubject: hi\r\nBcc: \"B, C\" <bcc@example.test> (x (y))\r\nX-PHP: 1\r\n\r\ngr\xc3\xbc\xc3\x9fe\nbye")
    m = s.arrived("php@example.test", 1)[0]
    pepsi.check(m.endswith("\r\n\r\ngrüße\r\nbye\r\n".encode()) and not field(m, "Bcc"), "PHP's message: %r" % m)
    pepsi.check(len(s.arrived("bcc@example.test", 1)) == 1, "no copy for Bcc")
    # addresses without a domain, and beyond ASCII
    s.ok("-t", stdin="To: jürgen@example.test, grp: one@example.test, two@example.test;\n\nx\n".encode())
    pepsi.check(s.arrived("two@example.test", 1) and s.arrived("jürgen@example.test", 1), "addresses")
    # a list of reports is passed on
    s.ok("-N", "never", "-R", "hdrs", "-V", "id=1", "-v", "-O", "Foo=bar", "dsn@example.test", stdin=b"\nx\n")
    s.arrived("dsn@example.test", 1)
    pepsi.check(s.d.metrics()["pepsi_smtp_local_accepted_total"] == 7, "metric of local messages")
    # -bs
    env = dict(os.environ, PEPSI_CONFIG=s.d.config, **t.environment)
    p = subprocess.Popen([os.path.join(pepsi.BIN, "pepsi-sendmail"), "-bs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    for say, want in ((b"", b"220 "), (b"EHLO me\r\n", b"250 "), (b"MAIL FROM:<bs@example.test>\r\n", b"250 "), (b"RCPT TO:<bs@example.test>\r\n", b"250 "),
                      (b"DATA\r\n", b"354 "), (b"Subject: bs\r\n\r\nx\r\n.\r\n", b"250 "), (b"QUIT\r\n", b"221 ")):
        p.stdin.write(say)
        p.stdin.flush()
        line = p.stdout.readline()
        while line[3:4] == b"-":
            line = p.stdout.readline()
        pepsi.check(line.startswith(want), "-bs: %r was answered %r" % (say, line))
    p.communicate(timeout=60)
    pepsi.check(p.returncode == 0, "-bs: exit %d" % p.returncode)
    s.arrived("bs@example.test", 1)
    # all at once, by a program that waits for nothing: more commands than fit on the way, content that looks like commands, chunks
    text = b"Subject: at once\r\n\r\n..\r\nQUIT\r\nDATA\r\n" + b"x" * 900 + b"\r\n"
    say = b"EHLO me\r\n" + b"HELP\r\n" * 12000
    for how in (b"DATA\r\n" + text * 100 + b".\r\n", b"BDAT 8\r\nSubject:BDAT 12 LAST\r\n x\r\n\r\nDATA\r\n"):
        say += b"MAIL FROM:<bs@example.test>\r\nRCPT TO:<at-once@example.test>\r\n" + how
    code, out, err = s.run("-bs", stdin=say + b"QUIT\r\n")
    pepsi.check(code == 0 and out.count("queued as") == 2 and out.count("\n214 ") == 12000 and out.endswith("221 2.0.0 Bye\r\n"), "-bs at once: %d %s %s" % (code, out[-600:], err))
    got = s.arrived("at-once@example.test", 2)
    pepsi.check(any(m.endswith((text * 100).replace(b"\r\n..", b"\r\n.")) for m in got) and any(m.endswith(b"\r\nSubject: x\r\n\r\nDATA\r\n") for m in got), "-bs at once: %r" % [m[-300:] for m in got])
    code, out, err = s.run("-bs", stdin=b"y" * 200000)
    pepsi.check(code == 0 and "\r\n500 " in out, "-bs, a line without end: %d %s %s" % (code, out, err))
    # -bv
    code, out, err = s.run("-bv", "someone@example.test", "no one")
    pepsi.check(code == EX_DATAERR and "someone@example.test... deliverable" in out and "no one: no address" in err, "-bv: %d %r %r" % (code, out, err))
    s.d.wait_empty()
    s.d.stop()


def exit_codes(t):
    s = Site(t)
    for want, args, stdin in (
            (EX_USAGE, ["-Z"], b""), (EX_USAGE, ["-N", "never,delay", "a@example.test"], b""), (EX_USAGE, ["-bd"], b""), (EX_USAGE, [], b"x\n"),
            (EX_USAGE, ["-f", "a b", "a@example.test"], b"x\n"), (EX_DATAERR, ["-t"], b"Subject: x\n\nx\n"), (EX_DATAERR, ["a@@b"], b"x\n"),
            (EX_DATAERR, ["a@example.test"], b"To: x\rBcc: y@z\n\nx\n"), (EX_DATAERR, ["a@example.test"], b"To: x\0\n\nx\n"),
            (EX_OK, ["-oeq", "-bi"], b""), (EX_OK, ["-q"], b"")):
        code, out, err = s.run(*args, stdin=stdin)
        pepsi.check(code == want, "%s: exit %d, not %d: %s%s" % (args, code, want, out, err))
    # some are none: the others get it, and the sender is told
    code, out, err = s.run("-t", stdin=b"To: good@example.test, bad@@example.test\n\nx\n")
    pepsi.check(code == EX_DATAERR and "bad@@example.test: no address" in err, "a bad one among good: %d %r" % (code, err))
    s.arrived("good@example.test", 1)
    code, out, err = s.run("-oem", "-f", "me@example.test", "bad@@example.test", stdin=b"Subject: lost\n\nx\n")
    pepsi.check(code == EX_DATAERR and not err, "-oem: %d %r" % (code, err))
    m = s.arrived("me@example.test", 1)[0]
    pepsi.check(b"bad@@example.test: no address" in m and b"Subject: lost" in m and field(m, "Auto-Submitted"), "the letter: %r" % m)
    # the queue, as people and scripts know it
    code, out, err = s.run(name="pepsi-mailq")
    s.d.wait_empty()
    pepsi.check(s.run(name="pepsi-mailq")[:2] == (EX_OK, "Mail queue is empty\n"), "mailq of an empty queue")
    pepsi.check(s.run("-bp")[:2] == (EX_OK, "Mail queue is empty\n"), "-bp of an empty queue")
    pepsi.check(s.run(name="pepsi-newaliases")[0] == EX_OK, "newaliases")
    if pepsi.ROOT:
        code, out, err = s.run(name="pepsi-mailq", uid=USER)
        pepsi.check(code in (EX_NOPERM, EX_UNAVAILABLE) and err, "mailq of a stranger: %d %r %r" % (code, out, err))
    s.d.stop()


def queue_listing(t):
    s = Site(t, stages="[stage-init]\nPROGRAM = pepsi-stage-relay-to-smarthost\nHOST = 127.0.0.1\nPORT = 9\nTLS = none\nRETRY_MIN = 1 h\nRETRY_MAX = 2 h\nBOUNCE_STAGE = bounce\n\n")
    s.ok("-f", "from@example.test", "to@far.test", stdin=b"Subject: waits\n\nx\n")
    pepsi.wait_for("the message waits", lambda: s.d.queue("--status", "paused"))
    out = s.run(name="pepsi-mailq")[1]
    pepsi.check(re.search(r"(?s)^-Queue ID-.*\n\d+ +\d+ \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d +from@example.test\n\(.*\)\n +to@far.test\n\n-- 1 Kbytes in 1 Request\.\n$", out), out)
    pepsi.check("1 message is tried now" in s.ok("-q", "-v"), "-q")
    origin = s.d.json("queue", "show", str(s.d.queue()[0]["id"]))["state"]["origin"]
    pepsi.check(origin["uid"] == os.geteuid() and origin["account"] == "uid:%d" % os.geteuid() and origin["listener"] == "sendmail", "origin: %s" % origin)
    # held: marked as elsewhere, with the operator's reason; not touched by -q
    ident = str(s.d.queue()[0]["id"])
    pepsi.wait_for("it waits again", lambda: s.d.cli("queue", "hold", ident, "--reason", "ask Ann first")[0] == 0)
    out = s.run(name="pepsi-mailq")[1]
    pepsi.check(re.search(r"(?m)^%s! .*\n\(held by hand: ask Ann first\)$" % ident, out), out)
    pepsi.check("0 messages are tried now" in s.ok("-q", "-v"), "-q lets go what is held")
    s.d.stop()


class Users:
    """Connections to the local socket as other users have them: a process for each user, which holds them until close()."""

    def __init__(self, path):
        self.path, self.children = path, []

    def open(self, uid, n):
        """The first words of n sessions that uid begins."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                held, words = [], []
                for _ in range(n):
                    c = socket.socket(socket.AF_UNIX)
                    c.settimeout(60)
                    c.connect(self.path)
                    words.append(c.recv(200)[:3].decode())
                    held.append(c)
                theirs.sendall(" ".join(words).encode() + b"\n")
                theirs.recv(1)
            finally:
                os._exit(0)
        theirs.close()
        ours.settimeout(120)
        self.children.append((pid, ours))
        return ours.makefile("r").readline().split()

    def close(self):
        for pid, s in self.children:
            s.sendall(b"x")  # closing it would not do: later children have it, too
            os.waitpid(pid, 0)
            s.close()
        self.children = []


def places(t):
    """No user takes all places of the local socket: each has so many of his own, root as many as there are."""
    if not pepsi.ROOT:
        raise pepsi.Skip("needs root")
    s = Site(t, more="[listener-sendmail]\nMAX_CONNECTIONS = 40\nRESERVED_CONNECTIONS = 10\nMAX_CONNECTIONS_PER_ADDRESS = 12\nMESSAGES_PER_MINUTE = 2\n")
    users = Users(os.path.join(s.submit, "socket"))
    try:
        got = users.open(USER, 30)
        pepsi.check(got.count("220") == 12 and got.count("421") == 18, "one user: %s" % got)
        s.ok("a@example.test", stdin=b"\nx\n", uid=USER + 1)
        s.arrived("a@example.test", 1)
        # all together stop before what is kept for root
        got = users.open(USER + 1, 12) + users.open(USER + 2, 12)
        pepsi.check(got.count("220") == 18, "three users: %s" % got)
        s.ok("a@example.test", stdin=b"\nx\n")
        s.arrived("a@example.test", 2)
        # a place that is given back is free, and whoever found none loses nothing
        s.ok("a@example.test", stdin=b"\nx\n", uid=USER)
        pepsi.check(len(s.dropped()) == 1, "not left in the drop folder: %s" % s.dropped())
    finally:
        users.close()
    s.arrived("a@example.test", 3, 90)
    # rates that are written down count for each user
    for i in range(4):
        s.ok("b@example.test", stdin=b"\nx\n", uid=USER + 5)
    s.ok("c@example.test", stdin=b"\nx\n", uid=USER + 6)
    s.arrived("c@example.test", 1)
    pepsi.check(len(s.d.maildir("b@example.test")) <= 2, "no rate: %d" % len(s.d.maildir("b@example.test")))
    s.d.stop()


def senders(t):
    """TRUSTED_USERS: others may only be themselves."""
    if not pepsi.ROOT:
        raise pepsi.Skip("needs root")
    s = Site(t, more="[listener-sendmail]\nTRUSTED_USERS = daemon\nMESSAGE_SIZE_LIMIT = 64 KiB\n")
    import pwd
    who, trusted = pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("daemon").pw_uid
    pepsi.check(s.run("-f", "boss@example.test", "a@example.test", stdin=b"\nx\n", uid=who)[0] == EX_NOPERM, "a forged sender was taken")
    for uid, sender in ((who, "nobody"), (who, "<>"), (trusted, "boss@example.test"), (0, "boss@example.test")):
        s.ok("-f", sender, "a@example.test", stdin=b"\nx\n", uid=uid)
    code, out, err = s.run("a@example.test", stdin=b"\n" + b"x" * 60 + b"\n" * 70000, uid=who)
    pepsi.check(code == EX_DATAERR, "too large: %d %s" % (code, err))
    s.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [programs, exit_codes, queue_listing, places, senders])
