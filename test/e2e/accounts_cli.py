"""`pepsi account`: every operation, what is refused and how it is said, names and their one form, who may, and that the daemon's part
with the accounts comes back by itself. No password anywhere but in its digest."""
import os
import re
import signal
import socket

import pepsi

DISCARD = "[stage-init]\nPROGRAM = pepsi-stage-discard\n"
HEX = "0123456789abcdef" * 4


def ok(d, *args, stdin=None):
    code, out, err = d.cli("account", *args, stdin=stdin)
    pepsi.check(code == 0, "account %s: exit %d: %s" % (" ".join(args), code, err))
    return out


def no(d, exit_code, text, *args, stdin=None):
    code, out, err = d.cli("account", *args, stdin=stdin)
    pepsi.check(code == exit_code and re.search(text, err), "account %s: exit %d, wanted %d and %r: %s%s" % (" ".join(args), code, exit_code, text, out, err))
    pepsi.check("Traceback" not in err and len(err) < 1000, err)


def names(d):
    return [a["name"] for a in d.json("account", "list")]


def child(d, name="pepsi-signin"):
    found = [p for p in pepsi.proc_tree(d.spawner_pid()) if pepsi.proc_comm(p) == name]
    return found[0] if found else None


def operations(t):
    d = pepsi.Pepsid(t, DISCARD)
    pepsi.check(d.json("account", "list") == [], "accounts before there are any")
    ok(d, "add", "Alice@Example.TEST", "--password-stdin", "--sender", "@EXAMPLE.test", "--sender", "Bob@Example.Test", stdin=b"correct horse\n")
    a = d.json("account", "show", "ALICE@example.test")
    pepsi.check(a["name"] == "alice@example.test" and a["enabled"] and a["has_password"] and a["senders"] == ["@example.test", "Bob@example.test"]
                and a["messages_per_hour"] is None and a["created_at"] and a["signed_in_at"] is None, "show: %s" % a)
    no(d, 1, "already", "add", "alice@EXAMPLE.test", "--password-stdin", stdin=b"x\n")
    # names have one form, whatever is typed
    ok(d, "add", "J\u00dcRGEN", "--password-stdin", stdin="p\u00e4ss".encode())
    no(d, 1, "already", "add", "ju\u0308rgen", "--password-stdin", stdin=b"x")
    for name in ("a b", "a\"b", "a\\b", "a\nb", "a\u202eb", "", "x" * 256, "uid:1000", "UID:x"):
        no(d, 1, "name", "add", name, "--password-stdin", stdin=b"x\n")
    # passwords
    no(d, 1, "empty", "add", "b", "--password-stdin", stdin=b"\n")
    no(d, 1, "empty", "add", "b", "--password-stdin", stdin=b"")
    no(d, 1, "UTF-8", "add", "b", "--password-stdin", stdin=b"a\xff\n")
    no(d, 1, "character", "add", "b", "--password-stdin", stdin=b"a\tb\n")
    no(d, 1, "1024", "add", "b", "--password-stdin", stdin=b"x" * 1025)
    no(d, 1, "longer", "add", "b", "--password-stdin", stdin=b"x" * 100000)
    no(d, 2, "--password-stdin", "add", "b", stdin=b"x\n")
    no(d, 2, "exclude", "add", "b", "--password-stdin", "--no-password", stdin=b"x\n")
    ok(d, "add", "b", "--password-stdin", stdin=b"x" * 1024)
    # options
    no(d, 1, "sender", "add", "c", "--no-password", "--sender", "not an address")
    no(d, 1, "sender", "add", "c", "--no-password", "--sender", "@-x-")
    no(d, 1, "fingerprint", "add", "c", "--no-password", "--certificate", "12")
    no(d, 2, "messages-per-hour", "add", "c", "--no-password", "--messages-per-hour", "many")
    no(d, 2, "no operand|only NAME", "add", "c", "d", "--no-password")
    no(d, 2, "needs NAME", "add")
    no(d, 2, "what\\?", "set", "b")
    no(d, 2, "did you mean", "ad", "c")
    ok(d, "add", "c", "--no-password", "--certificate", ":".join(re.findall("..", HEX.upper())), "--messages-per-hour", "5", "--recipients-per-day", "none")
    c = d.json("account", "show", "c")
    pepsi.check(c["certificates"] == [HEX] and c["messages_per_hour"] == 5 and c["recipients_per_day"] == 0 and not c["has_password"], "show: %s" % c)
    ok(d, "set", "c", "--certificate", "none", "--messages-per-hour", "default", "--sender", "*")
    c = d.json("account", "show", "c")
    pepsi.check(c["certificates"] == [] and c["messages_per_hour"] is None and c["recipients_per_day"] == 0 and c["senders"] == ["*"], "set: %s" % c)
    ok(d, "disable", "c")
    pepsi.check(not d.json("account", "show", "c")["enabled"], "still enabled")
    ok(d, "enable", "c")
    pepsi.check(d.json("account", "show", "c")["enabled"], "still disabled")
    ok(d, "passwd", "c", "--password-stdin", stdin=b"new\r\n")
    pepsi.check(d.json("account", "show", "c")["has_password"], "no password")
    for verb in (["passwd", "--password-stdin"], ["enable"], ["disable"], ["remove"], ["show"], ["set", "--sender", "*"]):
        no(d, 1, "no account nobody", verb[0], "nobody", *verb[1:], stdin=b"x\n")
    pepsi.check(names(d) == sorted(names(d)) and len(names(d)) == 4, "list: %s" % names(d))
    pepsi.check("alice@example.test" in ok(d, "list"), "not in the list")
    ok(d, "remove", "C")
    pepsi.check("c" not in names(d), "still there")
    with open(d.log) as f:
        log = f.read()
    for secret in ("correct horse", "x" * 1024, "p\u00e4ss", "argon2", "SCRAM-SHA-256$"):
        pepsi.check(secret not in log, "the log has %r" % secret[:20])
    pepsi.check('event=account-added account="alice@example.test" uid=%d' % os.geteuid() in log, "the addition is not in the log")
    # what the database holds is digests
    d.stop()
    no(d, 1, "start it with pepsid", "list")
    d.start()
    pepsi.check("b" in names(d), "gone after a restart")


def many(t):
    """More accounts than fit into one answer, each as large as it can be."""
    d = pepsi.Pepsid(t, DISCARD)
    senders = sum((["--sender", "%s%02d@%s" % ("s" * 60, i, ".".join(["d" * 60] * 3) + ".test")] for i in range(64)), [])
    for i in range(6):
        ok(d, "add", "big%d" % i, "--no-password", *senders)
    no(d, 2, "at most 64", "add", "more", "--no-password", *(senders + ["--sender", "*"]))
    got = d.json("account", "list")
    pepsi.check([a["name"] for a in got] == ["big%d" % i for i in range(6)] and all(len(a["senders"]) == 64 for a in got), "list: %s" % names(d))


def who_may(t):
    d = pepsi.Pepsid(t, DISCARD)
    path = os.path.join(d.state, "run", "account.sock")
    pepsi.check(os.stat(path).st_mode & 0o777 == 0o600, "mode %o" % os.stat(path).st_mode)
    if pepsi.ROOT:
        code, out, err = d.cli("account", "list", uid=65533)
        pepsi.check(code == 1 and "root" in err, "another account: %d %s" % (code, err))
        # somebody else's socket in the place of ours gets no password
        pid = child(d)
        os.kill(pid, signal.SIGSTOP)
        os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(path)
            os.chmod(path, 0o777)
            os.seteuid(65533)
            try:
                s.listen(4)
            finally:
                os.seteuid(0)
            code, out, err = d.cli("account", "add", "x", "--password-stdin", stdin=b"secret\n")
            pepsi.check(code == 1 and "no password is sent" in err, "a false socket: %d %s%s" % (code, out, err))
            s.settimeout(5)
            c, _ = s.accept()
            c.settimeout(5)
            pepsi.check(c.recv(4096) == b"", "something was sent")
        os.unlink(path)
        os.kill(pid, signal.SIGKILL)
        pepsi.wait_for("another admin child", lambda: child(d) not in (None, pid))
    # garbage does not harm it
    pid = pepsi.wait_for("the child", lambda: os.path.exists(path) and child(d))
    for octets in (b"", b"x", b"\0" * 60000, b"\xff" * 64):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            pepsi.wait_for("the socket", lambda: s.connect_ex(path) == 0)
            s.settimeout(20)
            s.send(octets)
            try:
                pepsi.check(s.recv(100) == b"", "an answer to garbage")
            except ConnectionResetError:
                pass
    pepsi.check(names(d) == [] and child(d) == pid, "it did not survive")


def restarts(t):
    d = pepsi.Pepsid(t, DISCARD)
    ok(d, "add", "a", "--no-password")
    old = child(d)
    os.kill(old, signal.SIGKILL)
    pepsi.check(names(d) == ["a"], "not there after the child was killed")  # the tool waits for the next one
    new = child(d)
    pepsi.check(new not in (None, old) and not pepsi.alive(old), "no other child")
    os.kill(child(d, "pepsi-hash"), signal.SIGKILL)
    pepsi.wait_for("another child after its keeper was killed", lambda: child(d) not in (None, new))
    pepsi.check(names(d) == ["a"], "not there after the keeper was killed")
    new = child(d)
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s" % err)
    pepsi.wait_for("another child after a reload", lambda: child(d) not in (None, new))
    pepsi.check(names(d) == ["a"], "not there after a reload")
    new, reactor = child(d), d.reactor_pid()
    os.kill(reactor, signal.SIGKILL)
    pepsi.wait_for("another child with another reactor", lambda: child(d) not in (None, new))
    pepsi.wait_for("another reactor", lambda: d.reactor_pid() not in (None, reactor))
    pepsi.check(names(d) == ["a"], "not there after the reactor was killed")
    tree = [child(d), child(d, "pepsi-hash")]
    os.kill(d.spawner_pid(), signal.SIGKILL)
    d.process.wait()
    pepsi.wait_for("the child goes with the spawner", lambda: not [p for p in tree if pepsi.alive(p)])


pepsi.main(__file__, [operations, many, who_may, restarts])
