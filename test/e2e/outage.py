"""What mail does when something it needs is away: the database stopped or frozen, the Maildir's disk full, LMTP down,
the next hop refusing, the next hop hanging. Nothing crashes, the reason is visible in `pepsi queue show`, and it goes
on by itself when the thing returns."""
import os
import signal
import subprocess
import time

import pepsi
from postgres import Cluster


def temporary(d):
    """One attempt to hand in mail: True when it was refused for now (4xx), False when it was accepted."""
    try:
        code, text = d.send("sender@example.test", "rcpt@far.test", pepsi.message("probe"))
    except (OSError, pepsi.SmtpError):
        return None
    pepsi.check(code == 250 or 400 <= code < 500, "neither accepted nor temporary: %d %s" % (code, text))
    return code != 250


def waits_with_reason(d, ident, words, seconds=20):
    """Until the message is paused and `queue show` gives a reason that names one of `words`."""
    def look():
        rows = [r for r in d.queue() if str(r["id"]) == str(ident)]
        if not rows or not rows[0].get("last_error"):
            return None
        return rows[0]
    row = pepsi.wait_for("message %s waits with a reason in the queue list" % ident, look, seconds, 0.2)
    code, out, err = d.cli("queue", "show", str(ident))
    pepsi.check(code == 0, "queue show: %s%s" % (out, err))
    pepsi.check(any(w.lower() in out.lower() for w in words), "queue show tells none of %s:\n%s" % (words, out))
    pepsi.check(row["next_attempt_at"], "no next attempt: %s" % row)
    return row


def database_stopped(t):
    """An external database is shut down: 451, no crash; started again: mail flows without a restart of ours."""
    cluster, sink = Cluster(t), pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(), more="[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("before"))
    pepsi.wait_for("the first message at the sink", lambda: "before" in sink.tokens(), 10)
    reactor = d.reactor_pid()
    session = pepsi.Smtp(d.port)
    cluster.stop(signal.SIGQUIT)
    code, text = session.send("sender@example.test", "rcpt@far.test", pepsi.message("during"))
    pepsi.check(code == 451, "database stopped, open session: %d %s" % (code, text))
    for _ in range(5):
        code, text = d.send("sender@example.test", "rcpt@far.test", pepsi.message("during"))
        pepsi.check(code == 451, "database stopped, new session: %d %s" % (code, text))
    status, _ = d.http_get("/healthz")
    pepsi.check(status == 503, "/healthz says %d while the database is away" % status)
    cluster.start()
    pepsi.wait_for("mail taken again", lambda: temporary(d) is False, 30, 0.3)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("after"))
    pepsi.wait_for("mail delivered again", lambda: "after" in sink.tokens(), 20)
    pepsi.check(d.reactor_pid() == reactor, "the reactor was restarted")
    pepsi.check("during" not in sink.tokens(), "a message that was refused arrived")
    session.close()
    d.stop()


def two_on_one_database(t):
    """A second pepsid on the same database by mistake: it says so, is not healthy and claims nothing; mail it accepts is
    delivered by the first, once. When the first ends, the second takes over."""
    cluster, sink = Cluster(t), pepsi.Sink(t)
    stages = pepsi.smarthost("init", sink.port) + pepsi.bounce()
    more = "[pepsi-postgres]\nCONFIG = %s\n" % cluster.uri
    first = pepsi.Pepsid(t, stages, more=more)
    second = pepsi.Pepsid(t, stages, more=more, start=False)
    second.start(wait=False)
    pepsi.wait_for("the second one says that there is another", lambda: "other-dispatcher" in open(second.log, errors="replace").read(), 30)
    status, body = second.http_get("/healthz")
    pepsi.check(status == 503 and "another pepsid" in body, "/healthz of the second: %d %s" % (status, body))
    tokens = ["two%d" % i for i in range(40)]
    for i, token in enumerate(tokens):
        (second if i % 2 else first).accept("sender@example.test", "rcpt@far.test", pepsi.message(token))
    pepsi.wait_for("all are delivered", lambda: not set(tokens) - set(sink.tokens()), 60)
    first.wait_empty(30)
    got = [x for x in sink.tokens() if x in tokens]
    pepsi.check(len(got) == len(tokens), "%d deliveries of %d messages" % (len(got), len(tokens)))
    pepsi.check(not any(s["workers"] for s in second.status()["stages"]), "the second one has workers")
    first.stop()
    second.accept("sender@example.test", "rcpt@far.test", pepsi.message("after"))
    pepsi.wait_for("the second takes over", lambda: "after" in sink.tokens(), 30)
    pepsi.wait_for("and is healthy", lambda: second.http_get("/healthz")[0] == 200, 10)
    second.stop()


def database_frozen(t):
    """The private cluster hangs (SIGSTOP): sessions get 4xx after ADMISSION_TIMEOUT; on SIGCONT all is well again."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(), more="[pepsi-postgres]\nADMISSION_TIMEOUT = 3 s\n")
    reactor, pids = d.reactor_pid(), d.postgres_pids()
    pepsi.check(len(pids) > 3, "no private cluster found")
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("before"))
    for p in pids:
        os.kill(p, signal.SIGSTOP)
    try:
        s = pepsi.Smtp(d.port, timeout=90)
        began = time.monotonic()
        code, text = s.send("sender@example.test", "rcpt@far.test", pepsi.message("frozen"))
        took = time.monotonic() - began
        pepsi.check(400 <= code < 500, "frozen database: %d %s" % (code, text))
        s.close()
        pepsi.say("      frozen: %d after %.1f s" % (code, took))
        pepsi.check(3 <= took < 20, "451 after %.1f s, with ADMISSION_TIMEOUT = 3 s" % took)
        # the reactor itself is not held up
        began = time.monotonic()
        s = pepsi.Smtp(d.port)
        pepsi.check(s.cmd("NOOP")[0] == 250 and time.monotonic() - began < 3 * pepsi.SLACK, "the reactor answers slowly")
        s.close()
    finally:
        for p in pids:
            try:
                os.kill(p, signal.SIGCONT)
            except OSError:
                pass
    pepsi.wait_for("mail taken again", lambda: temporary(d) is False, 40, 0.3)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("after"))
    pepsi.wait_for("mail delivered again", lambda: "after" in sink.tokens(), 30)
    pepsi.check(d.reactor_pid() == reactor, "the reactor was restarted")
    d.stop()


def next_hop_refusing(t):
    """Connection refused, then 450 at every phase in turn: retried, with the reason; delivered once it relents."""
    sink = pepsi.Sink(t)
    # no connection is kept, so that each message meets the whole dialogue
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "IDLE_TIMEOUT = 0 s\n") + pepsi.bounce())
    sink.down()
    ident = d.accept("sender@example.test", "rcpt@far.test", pepsi.message("down"))
    waits_with_reason(d, ident, ["refused", "connect"])
    sink.up()
    pepsi.wait_for("delivery after it came up", lambda: "down" in sink.tokens(), 20)
    for phase in ("banner", "ehlo", "mail", "rcpt", "data", "eod"):
        sink.script = {phase: "451 4.7.1 not now, says %s" % phase}
        ident = d.accept("sender@example.test", "rcpt@far.test", pepsi.message("no-" + phase))
        waits_with_reason(d, ident, ["not now, says " + phase])
        sink.script = {}
        pepsi.wait_for("delivery after %s relented" % phase, lambda: "no-" + phase in sink.tokens(), 20)
    for phase in ("banner", "mail", "eod"):
        sink.script = {phase: "drop"}
        ident = d.accept("sender@example.test", "rcpt@far.test", pepsi.message("drop-" + phase))
        waits_with_reason(d, ident, ["closed", "connection", "lost", "reset", "end of"])
        sink.script = {}
        pepsi.wait_for("delivery after drops at %s" % phase, lambda: "drop-" + phase in sink.tokens(), 20)
    d.wait_empty(10)
    pepsi.check(d.status()["bounced"] == 0, "something bounced")
    d.stop()


def next_hop_hanging(t):
    """The next hop takes the connection and says nothing more: given up after the timeout, retried, delivered."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "CONNECT_TIMEOUT = 1 s\nCOMMAND_TIMEOUT = 1 s\nDATA_TIMEOUT = 1 s\nIDLE_TIMEOUT = 0 s\n") + pepsi.bounce())
    for phase in ("banner", "rcpt", "eod"):
        sink.script = {phase: "hang"}
        ident = d.accept("sender@example.test", "rcpt@far.test", pepsi.message("hang-" + phase))
        waits_with_reason(d, ident, ["timed out", "timeout", "no answer"])
        sink.script = {}
        pepsi.wait_for("delivery after hanging at %s" % phase, lambda: "hang-" + phase in sink.tokens(), 20)
    d.wait_empty(10)
    d.stop()


def lmtp_down(t):
    """LMTP socket absent, then there; and one recipient of two refused for now: only that one is tried again."""
    sink = pepsi.Sink(t, lmtp=True)
    d = pepsi.Pepsid(t, pepsi.lmtp("init", sink.port) + pepsi.bounce())
    sink.down()
    ident = d.accept("sender@example.test", "rcpt@far.test", pepsi.message("down"))
    waits_with_reason(d, ident, ["refused", "connect"])
    sink.up()
    pepsi.wait_for("delivery after it came up", lambda: "down" in sink.tokens(), 20)
    sink.script = {"eod": lambda rcpt: "452 4.2.2 mailbox full" if rcpt.startswith("full@") else None}
    d.accept("sender@example.test", ["ok@far.test", "full@far.test"], pepsi.message("two"))
    pepsi.wait_for("the one recipient", lambda: [m for m in sink.messages if m.token == "two"], 10)
    row = pepsi.wait_for("the other one waiting", lambda: [r for r in d.queue() if r.get("last_error")], 20)[0]
    pepsi.check("mailbox full" in row["last_error"], "reason: %s" % row["last_error"])
    pepsi.check(row["rcpt_to"] == ["full@far.test"], "who waits: %s" % row["rcpt_to"])
    sink.script = {}
    pepsi.wait_for("both", lambda: len([m for m in sink.messages if m.token == "two"]) == 2, 20)
    pepsi.check(sorted(m.rcpts[0][0] for m in sink.messages if m.token == "two") == ["full@far.test", "ok@far.test"], "each once")
    d.wait_empty(10)
    d.stop()


def disk_full(t):
    """A Maildir on a file system without space: retried with the reason, nothing half-written in new/, then delivered.
    Needs root and a private mount namespace."""
    if not pepsi.private_mounts():
        raise pepsi.Skip("needs root and a private mount namespace")
    disk = os.path.join(t.dir, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700,uid=%d" % pepsi.service_account().pw_uid, "none", disk]).returncode:
        raise pepsi.Skip("cannot mount a tmpfs here")
    t.cleanup(lambda: subprocess.run(["umount", "-l", disk]))  # or the folder cannot be removed
    d = pepsi.Pepsid(t, pepsi.maildir("init", disk) + pepsi.bounce())
    d.mail = disk
    d.accept("sender@example.test", "a@example.test", pepsi.message("small"))
    pepsi.wait_for("a small message fits", lambda: d.maildir("a@example.test"), 10)
    ballast = os.path.join(disk, "ballast")
    with open(ballast, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass
    ident = d.accept("sender@example.test", "a@example.test", pepsi.message("full", 60000))
    waits_with_reason(d, ident, ["no space", "full"])
    pepsi.check(len(d.maildir("a@example.test")) == 1, "a partial message shows in new/")
    os.unlink(ballast)
    mail = pepsi.wait_for("delivery once there is room", lambda: len(d.maildir("a@example.test")) == 2 and d.maildir("a@example.test"), 20)
    pepsi.check(any(pepsi.below_trace(m, pepsi.message("full", 60000)) is None for m in mail), "it is not whole")
    leftover = os.listdir(os.path.join(disk, "example.test", "a", "tmp"))
    pepsi.check(not leftover, "left in tmp/: %s" % leftover)
    d.wait_empty(10)
    d.stop()


pepsi.own_mounts(__file__)
pepsi.main(__file__, [database_stopped, two_on_one_database, database_frozen, next_hop_refusing, next_hop_hanging, lmtp_down, disk_full])
