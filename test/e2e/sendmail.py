"""pepsi-sendmail as the programs of a machine use it: cron, mailx, git send-email, PHP, mail readers that speak SMTP to it. With
pepsid there, away, killed in the middle, and with a drop folder full of things that are no messages."""
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

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
    pepsi.check("1 messages are tried now" in s.ok("-q", "-v"), "-q")
    origin = s.d.json("queue", "show", str(s.d.queue()[0]["id"]))["state"]["origin"]
    pepsi.check(origin["uid"] == os.geteuid() and origin["account"] == "uid:%d" % os.geteuid() and origin["listener"] == "sendmail", "origin: %s" % origin)
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


def while_away(t):
    """pepsid is not there: messages wait, and come once."""
    s = Site(t)
    s.d.stop()
    uid = other_user()
    for i in range(20):
        s.ok("-t", "-i", "-f", "away@example.test", stdin=b"To: w%d@example.test\n\n%d\n.\n" % (i % 2, i), uid=uid if i % 3 else None)
    pepsi.check(len(s.dropped()) == 20, "%d files were dropped" % len(s.dropped()))
    # refused when it comes back: its sender is told
    s.ok("-f", "away@example.test", "x@nowhere.test", "w0@example.test", stdin=b"\nhalf\n", uid=uid)
    if uid is not None:
        st = os.stat(os.path.join(s.drop, s.dropped()[0]))
        pepsi.check(st.st_mode & 0o777 == 0o600, "mode of a dropped file: %o" % st.st_mode)
        listing = subprocess.run(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", "ls", s.drop], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pepsi.check(listing.returncode != 0, "strangers may list the drop folder")
    s.d.start()
    s.emptied()
    s.arrived("w0@example.test", 11)
    s.arrived("w1@example.test", 10)
    s.d.stop()


def killed(t):
    """kill -9 of reactor and spawner while programs send: nothing is lost, nothing comes twice."""
    s = Site(t)
    sent, over = [], threading.Event()

    def sender(n):
        i = 0
        while not over.is_set():
            token = "k%d-%d" % (n, i)
            i += 1
            code, out, err = s.run("-i", "-f", "k@example.test", "k@example.test", stdin=pepsi.message(token).replace(b"\r\n", b"\n"))
            if code == 0:
                sent.append(token)
            else:
                wrong.append((code, err))
    wrong = []
    threads = [threading.Thread(target=sender, args=(n,), daemon=True) for n in range(3)]
    for th in threads:
        th.start()
    for i in range(6):
        target = len(sent) + 8
        pepsi.wait_for("messages sent", lambda: len(sent) >= target, 60)
        if i % 2 == 0:
            pid = s.d.reactor_pid()
            if pid:
                os.kill(pid, signal.SIGKILL)
        else:
            s.d.process.kill()
            s.d.process.wait()
            pepsi.wait_for("children gone", lambda: not s.d.postgres_pids(), 30)
            time.sleep(0.2)
            s.d.start()
    over.set()
    for th in threads:
        th.join(120)
    pepsi.check(not wrong, "not taken: %s" % wrong[:3])
    s.emptied()
    s.d.wait_empty(90)
    got = [pepsi.token_of(m) for m in s.arrived("k@example.test", len(sent), 60)]
    pepsi.check(sorted(set(got)) == sorted(sent), "%d sent, %d there" % (len(sent), len(set(got))))
    # a delivery may be repeated after a kill (the Maildir has it, the queue does not know): that is no second message, and has the same queue id
    ids = {}
    for m in s.d.maildir("k@example.test"):
        ids.setdefault(pepsi.token_of(m), set()).add(re.search(r"\bid (\d+)", field(m, "Received")[0]).group(1))
    twice = {k: v for k, v in ids.items() if len(v) > 1}
    pepsi.check(not twice, "taken twice: %s" % twice)
    pepsi.say("    %d messages through %d kills" % (len(sent), 6))
    s.d.stop()


def repeated(t):
    """A file that was taken but not removed, because somebody died in between, makes no second message."""
    s = Site(t)
    s.d.stop()
    s.ok("once@example.test", stdin=b"Subject: once\n\nx\n")
    name = s.dropped()[0]
    path = os.path.join(s.drop, name)
    with open(path, "rb") as f:
        text = f.read()
    s.d.start()
    s.emptied()
    s.arrived("once@example.test", 1)
    s.d.wait_empty()
    for i in range(2):
        with open(os.path.join(s.drop, "t" + name[1:]), "wb") as f:
            f.write(text)
        os.rename(os.path.join(s.drop, "t" + name[1:]), path)
        s.emptied()
    pepsi.check(s.d.metrics()["pepsi_smtp_local_repeats_total"] == 2, "repeats: %s" % s.d.metrics().get("pepsi_smtp_local_repeats_total"))
    s.d.wait_empty()
    pepsi.check(len(s.d.maildir("once@example.test")) == 1, "came twice")
    s.d.stop()


def hostile(t):
    """Whatever users put there: no octet of another's file gets out, pepsid goes on, honest mail comes."""
    s = Site(t)
    s.d.stop()
    secret = os.path.join(t.dir, "secret")
    with open(secret, "w") as f:
        f.write("pepsi-drop 1\nonce %s\nfrom x@example.test\nto leak@example.test\ncontent 14 2\nSubject: leak\n\n\n" % ("0" * 32))
    os.chmod(secret, 0o600)
    s.ok("-f", "honest@example.test", "honest@example.test", stdin=b"Subject: honest\n\nx\n", uid=other_user())
    with open(os.path.join(s.drop, s.dropped()[0]), "rb") as f:
        good = f.read()

    def name(i, kind="m"):
        return os.path.join(s.drop, "%s%032x" % (kind, i + 1))

    def put(i, data, kind="m"):
        with open(name(i, kind), "wb") as f:
            f.write(data)
        if pepsi.ROOT:
            os.chown(name(i, kind), USER, USER)

    for i in range(0, 10):
        os.symlink(secret if i % 2 else "/dev/zero", name(i))
    for i in range(10, 15):
        os.link(secret, name(i))
    for i in range(15, 20):
        os.mkfifo(name(i))
    for i in range(20, 25):
        os.mkdir(name(i))
    for i in range(25, 28):
        u = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(s.drop)  # the name is long for a socket
        u.bind(os.path.basename(name(i)))
        os.chdir(here)
        u.close()
    with open(name(28), "wb") as f:  # huge, of nothing
        f.truncate(1 << 40)
    put(29, b"")
    put(30, good[:len(good) // 2])
    put(31, good + b"x")
    put(32, good.replace(b"\nto ", b"\nxx "))
    put(33, b"pepsi-drop 1\n" + b"to a@b\n" * 20000)
    put(34, b"pepsi-drop 1\n" + b"x" * 100000)
    put(35, good.replace(b"honest@example.test\nto", b"honest@example.test\r\nRCPT TO:<evil@example.test>\nto", 1))
    put(36, good.replace(b"Subject", b"Sub\0ect"))
    put(37, good.replace(b"content ", b"content -"))
    put(38, good.replace(b"content ", b"content 99999999999999999999"))
    for i in range(39, 47):
        put(i, random.Random(i).randbytes(5000))
    put(47, b"garbage", "t")
    os.rename(name(47, "t"), os.path.join(s.drop, "evil name\n\x1b[2J"))
    put(48, good, "x")
    put(49, b"x" * 100, "t")  # being written, perhaps
    growing, over = open(name(50), "ab"), threading.Event()
    growing.write(good)
    growing.flush()

    def grow():
        while not over.is_set():
            growing.write(b"more\n")
            growing.flush()
            time.sleep(0.001)
    th = threading.Thread(target=grow, daemon=True)
    th.start()
    s.d.start()
    pepsi.wait_for("all but the begun one gone", lambda: os.listdir(s.drop) == [os.path.basename(name(49, "t"))], 90)
    over.set()
    th.join(10)
    growing.close()
    s.arrived("honest@example.test", 1)
    s.d.wait_empty()
    pepsi.check(not s.d.maildir("leak@example.test") and not s.d.maildir("evil@example.test"), "a hostile file was sent")
    pepsi.check(os.path.exists(secret) and os.path.getsize(secret) < 200, "what a link led to was touched")
    pepsi.check(len(os.listdir(s.bad)) >= 40, "%d files were put aside" % len(os.listdir(s.bad)))
    pepsi.check(s.d.running() and s.d.reactor_pid(), "pepsid is gone")
    s.ok("honest@example.test", stdin=b"\nstill\n")
    s.arrived("honest@example.test", 2)
    s.d.stop()


def no_room(t):
    """Nowhere to leave it: the program is told, with a code that says what."""
    s = Site(t)
    s.d.stop()
    if pepsi.ROOT:
        os.chmod(s.drop, 0o700)
        code, out, err = s.run("a@example.test", stdin=b"\nx\n", uid=USER)
        pepsi.check(code == EX_CANTCREAT and "cannot be left" in err, "closed folder: %d %s" % (code, err))
        os.chmod(s.drop, 0o1733)
        r = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=1733", "none", s.drop]) if pepsi.private_mounts() else None
        if r and r.returncode == 0:
            try:
                with open(s.d.config, "a") as f:
                    f.write("\n[pepsi-ingress]\nMIN_FREE_SPACE = 0\n")
                code, out, err = s.run("a@example.test", stdin=b"\n" + b"x\n" * 60000, uid=USER)
                pepsi.check(code == EX_TEMPFAIL and not os.listdir(s.drop), "full folder: %d %s, left: %s" % (code, err, os.listdir(s.drop)))
            finally:
                subprocess.run(["umount", s.drop])
    os.rename(s.submit, s.submit + ".away")
    code, out, err = s.run("a@example.test", stdin=b"\nx\n")
    pepsi.check(code == EX_TEMPFAIL and "pepsid does not answer" in err, "no folder: %d %s" % (code, err))
    code, out, err = s.run("-bs")
    pepsi.check(code == EX_TEMPFAIL and out.startswith("421 "), "-bs: %d %r" % (code, out))


if __name__ == "__main__":
    pepsi.main(__file__, [programs, exit_codes, queue_listing, senders, while_away, killed, repeated, hostile, no_room])
