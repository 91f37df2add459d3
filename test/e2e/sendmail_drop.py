"""Messages of pepsi-sendmail while pepsid is away, is killed in the middle, or finds things in the drop folder that are none."""
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pepsi
from sendmail import EX_CANTCREAT, EX_TEMPFAIL, USER, Site, field, other_user


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


def stopped(t):
    """A user stops the process that submits for him, which runs as he does, and ends it whenever it comes again: others' mail goes on."""
    s = Site(t)
    s.d.stop()
    s.ok("evil@example.test", stdin=b"\nevil\n", uid=other_user())
    evil = os.path.join(s.drop, s.dropped()[0])
    with open(evil, "rb") as f:
        text = f.read()
    os.unlink(evil)
    s.ok("honest@example.test", stdin=b"\nhonest\n")
    honest = os.path.join(t.dir, "honest")
    os.rename(os.path.join(s.drop, s.dropped()[0]), honest)
    s.d.start()
    reactor = s.d.reactor_pid()
    os.kill(reactor, signal.SIGSTOP)  # the submission takes as long as the test needs
    with open(evil + "x", "wb") as f:
        f.write(text)
    os.chmod(evil + "x", 0o600)
    if pepsi.ROOT:
        os.chown(evil + "x", USER, USER)
    os.rename(evil + "x", evil)

    def submitter():
        pids = [p for p in pepsi.proc_tree(s.d.process.pid) if pepsi.proc_comm(p) == "pepsi-pickup"]
        return pids[1:] and pids[-1]
    try:
        child = pepsi.wait_for("the submitting process", submitter)
        os.kill(child, signal.SIGSTOP)
        os.rename(honest, os.path.join(s.drop, "m" + "a" * 32))
        pepsi.wait_for("its end", lambda: child not in pepsi.proc_tree(s.d.process.pid), 20)
    finally:
        os.kill(reactor, signal.SIGCONT)
    s.arrived("honest@example.test", 1)
    s.arrived("evil@example.test", 1)  # tried again
    s.emptied()
    s.d.stop()


def crowded(t):
    """Thousands of one user's messages, none of which can be sent now, do not hide another's."""
    if not pepsi.ROOT:
        raise pepsi.Skip("one user alone: nobody to hide from")
    s = Site(t, pepsi="LOCAL_DOMAINS = example.test later.test\n", more="[domain-later.test]\nRECIPIENTS = file:%s/missing\n" % t.dir)
    s.d.stop()
    s.ok("honest@example.test", stdin=b"\nhonest\n")
    with open(os.path.join(s.drop, s.dropped()[0]), "rb") as f:
        text = re.sub(rb"\nto [^\n]*", b"\nto x@later.test", f.read())
    os.unlink(os.path.join(s.drop, s.dropped()[0]))
    for i in range(20000):  # more than one look at the folder takes
        name = os.path.join(s.drop, "m%032x" % random.getrandbits(128))
        with open(name, "wb") as f:
            f.write(text)
        os.chown(name, USER, USER)
    for _ in range(50):  # one that a look at the first 8192 misses
        s.ok("honest@example.test", stdin=b"\nhonest\n")
        mine = [n for n in os.listdir(s.drop)[:8192] if os.stat(os.path.join(s.drop, n)).st_uid != USER]
        if not mine:
            break
        os.unlink(os.path.join(s.drop, mine[0]))
    pepsi.check(not mine, "no message is out of sight")
    s.d.start()
    s.arrived("honest@example.test", 1)
    pepsi.check(len(s.dropped()) >= 20000, "what cannot be sent now was taken away: %d" % len(s.dropped()))
    s.d.stop()


def over_quota(t):
    """Files that are never finished, and more messages than one user may leave: they go, nobody else's do, and the program that writes one says so."""
    if not pepsi.ROOT:
        raise pepsi.Skip("one user alone: nobody to hide from")
    s = Site(t, pepsi="LOCAL_DOMAINS = example.test later.test\n", more="[domain-later.test]\nRECIPIENTS = file:%s/missing\n"
             "[pepsi-sendmail]\nDROP_USER_FILES = 300\nDROP_USER_SIZE = 4 MiB\nDROP_KEEP_BAD = 5\n" % t.dir)
    s.d.stop()
    s.ok("honest@example.test", stdin=b"\nhonest\n")
    with open(os.path.join(s.drop, s.dropped()[0]), "rb") as f:
        text = re.sub(rb"\nto [^\n]*", b"\nto x@later.test", f.read())

    def put(kind, uid, data=text):
        name = os.path.join(s.drop, "%s%032x" % (kind, random.getrandbits(128)))
        with open(name, "wb") as f:
            f.write(data)
        os.chown(name, uid, uid)
        return name

    def count(kind, uid):
        return len([n for n in os.listdir(s.drop) if n[0] == kind and os.lstat(os.path.join(s.drop, n)).st_uid == uid])

    def log_has(*words):
        with open(s.d.log, errors="replace") as f:
            return any(all(w in line for w in words) for line in f)
    for i in range(5000):
        put("t", USER, b"")
    writing = put("t", USER + 1, b"x")
    for i in range(400):
        put("m", USER)
    for i in range(50):
        put("m", USER + 1)
    for i in range(20):
        put("m", USER + 2, text + b"x" * 512 * 1024)  # 10 MiB of no messages: they are put aside, or removed
        put("m", USER + 3, re.sub(rb"\ncontent (\d+) (\d+)\n", lambda c: b"\ncontent %d %d\n" % (int(c[1]), int(c[2]) + 512 * 1024), text) +
            b"x" * (512 * 1024 - 2) + b"\r\n")
    for i in range(20):  # however many: none lasts
        os.mkdir(os.path.join(s.drop, "d%d" % i))
        os.chown(os.path.join(s.drop, "d%d" % i), USER, USER)
    for i in range(400):
        put("m", 0)
    s.d.start()
    s.arrived("honest@example.test", 1)
    pepsi.wait_for("the quota", lambda: log_has("event=drop-over-quota", "uid=%d " % USER) and log_has("event=drop-over-quota", "uid=%d " % (USER + 3)), 60)
    # unfinished and finished ones count together
    pepsi.check(log_has("event=drop-begun", "uid=%d " % USER) and count("t", USER) <= 300 and count("t", USER) + count("m", USER) == 300,
                "of the one with too many: %d begun, %d whole" % (count("t", USER), count("m", USER)))
    pepsi.check(count("m", USER + 1) == 50 and os.path.exists(writing), "another's files were taken away: %d" % count("m", USER + 1))
    pepsi.check(5 <= count("m", USER + 3) <= 8, "by size: %d" % count("m", USER + 3))
    pepsi.check(count("m", 0) == 400, "root's: %d" % count("m", 0))
    pepsi.check(len(os.listdir(s.bad)) <= 5 and not [n for n in os.listdir(s.drop) if n[0] == "d"], "folders: %s" % os.listdir(s.bad))
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


pepsi.main(__file__, [while_away, killed, repeated, hostile, stopped, crowded, over_quota, no_room])
