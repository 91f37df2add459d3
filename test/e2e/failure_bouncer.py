"""pepsi-failure-bouncer beside a running daemon: one sweep and the service, what each kind of stuck message becomes, the
report and the log, the account it works under, a database that goes away and comes back."""
import json
import os
import pwd
import shutil
import signal
import subprocess
import time

import pepsi

REFUSED = "550 5.7.1 nobody may"


def daemon(t, start=True):
    """Mail to example.test is delivered, all other fails at stage relay, which has no BOUNCE_STAGE. Nothing but a
    notification would wake the dispatcher within this test."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": REFUSED}
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail)
                   + pepsi.smarthost("relay", sink.port, bounce=None) + pepsi.bounce(),
                   pepsi="LOCAL_DOMAINS = example.test stuck.test\nRELAY_NETWORKS = 127.0.0.1\n",
                   more="[pepsi-dispatch]\nPOLL_INTERVAL = 10 min\n")
    if start:
        d.start()
    return d


def config(d, options, name):
    """The daemon's configuration with a [pepsi-failure-bouncer] of its own."""
    path = os.path.join(d.dir, name)
    with open(d.config) as f, open(path, "w") as to:
        to.write(f.read() + "\n[pepsi-failure-bouncer]\n" + options)
    os.chmod(path, 0o644)
    return path


def tool(d, conf, *args):
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi-failure-bouncer"), "-c", conf] + list(args), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, env=dict(os.environ, **d.test.environment))
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def once(d, conf, want, *args):
    code, out, err = tool(d, conf, "--once", "--json", *args)
    pepsi.check(code == 0, "--once: exit %d: %s" % (code, err))
    got = json.loads(out)
    pepsi.check(got == dict({"bounced": 0, "deleted": 0, "dropped": 0, "waiting": 0}, **want), "%s: %s\n%s" % (args, got, err))
    return err


def sql(d, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "pepsi", "-d", "pepsi", "-c", text],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    pepsi.check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().strip()


def stuck(d, token, sender="alice@example.test", rcpt="bob@stuck.test", source=None):
    """A message that fails at stage relay; its id."""
    s = pepsi.Smtp(d.port, source=source)
    code, text = s.send(sender, rcpt, pepsi.message(token, sender=sender or "mailer@far.test"))
    s.close()
    pepsi.check(code == 250, "%d %s" % (code, text))
    i = int(text.rsplit(" ", 1)[1])
    pepsi.wait_for("%s to fail" % token, lambda: [m for m in d.queue("--status", "failed") if m["id"] == i], 15)
    return i


def line_of(log, i):
    lines = [l for l in log.splitlines() if " id=%d " % i in l]
    pepsi.check(len(lines) == 1, "lines about %d: %s" % (i, lines))
    return lines[0]


def one_sweep(t):
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    d = daemon(t)
    patient, eager = config(d, "BOUNCE_STAGE = bounce\n", "patient.conf"), config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 0\n", "eager.conf")
    known, late, copy = stuck(d, "known"), stuck(d, "late"), stuck(d, "copy")
    stranger = stuck(d, "stranger", "victim@example.test", source="127.0.0.2")
    report = stuck(d, "report", "", source="127.0.0.2")
    sql(d, "UPDATE pepsi.workqueue SET status = 'timeout' WHERE id = %d" % late)
    sql(d, "UPDATE pepsi.workqueue SET state = state || '{\"list\":{\"name\":\"talk\"}}' WHERE id = %d" % copy)
    # an operator has an hour to help first
    once(d, patient, {"waiting": 5})
    pepsi.check(len(d.queue("--status", "failed")) == 4, "something was touched: %s" % d.queue())
    # a report that failed at the bounce stage itself stays there
    sql(d, "INSERT INTO pepsi.workqueue_body VALUES (900000, '')")
    sql(d, "INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers) VALUES (900000, 900000, 'bounce',"
           " 'failed', 'alice@example.test', '{b@far.test}', 'X-Token: loop')")
    err = once(d, eager, {"bounced": 1}, "--timeout-only")
    pepsi.check("event=failure-bounced sender=\"alice@example.test\" stage=\"relay\" status=timeout" in line_of(err, late), err)
    if pepsi.ROOT and not account_exists("pepsi"):
        pepsi.check("event=no-account account=\"pepsi\"" in err, "root went on without a word: %s" % err)
    mail = pepsi.wait_for("the report", lambda: [m for m in d.maildir("alice@example.test") if b"X-Token: late" in m], 5)
    err = once(d, eager, {"bounced": 2, "deleted": 1, "dropped": 1}, "--failed-only")
    for i, word, sender in ((known, "failure-bounced", "alice@example.test"), (report, "failure-bounced", ""),
                            (copy, "list-copy-deleted", "alice@example.test"), (stranger, "unauthenticated-dropped", "victim@example.test")):
        l = line_of(err, i)
        pepsi.check("event=%s sender=\"%s\" stage=\"relay\" status=failed" % (word, sender) in l and "nobody may" in l, l)
    mail = pepsi.wait_for("the report", lambda: [m for m in d.maildir("alice@example.test") if b"X-Token: known" in m], 5)
    text = b" ".join(mail[0].split())
    pepsi.check(b"It was given up here at stage relay." in text and b"nobody may" in text, "the report:\n%s" % mail[0].decode())
    pepsi.check(b"Action: failed" in mail[0] and b"Final-Recipient: rfc822; bob@stuck.test" in mail[0], "the report:\n%s" % mail[0].decode())
    once(d, eager, {})
    pepsi.wait_for("all but the looping one gone", lambda: [m["id"] for m in d.queue()] == [900000], 10)
    pepsi.check(d.queue()[0]["stage"] == "bounce" and d.queue()[0]["status"] == "failed", "touched: %s" % d.queue())
    time.sleep(0.5)
    pepsi.check(len(d.maildir("alice@example.test")) == 2 and not d.maildir("victim@example.test"), "more reports than messages")
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"] + 1, "the books: %s" % s)
    # a stranger's mail, where the operator wants that
    open_conf = config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 0\nBOUNCE_UNAUTHENTICATED = YES\n", "open.conf")
    stuck(d, "wanted", "victim@example.test", source="127.0.0.2")
    once(d, open_conf, {"bounced": 1})
    pepsi.wait_for("the report", lambda: d.maildir("victim@example.test"), 5)
    d.stop()
    # no database
    code, out, err = tool(d, eager, "--once")
    pepsi.check(code == 1 and "no connection to the database" in err, "exit %d: %s" % (code, err))
    code, out, err = tool(d, d.config, "--once")
    pepsi.check(code == 1 and "BOUNCE_STAGE is not set" in err, "exit %d: %s" % (code, err))
    code, out, err = tool(d, eager, "--once", "--failed-only", "--timeout-only")
    pepsi.check(code == 2, "exit %d: %s" % (code, err))


class Service:
    def __init__(self, d, conf):
        self.path = conf + ".log"
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen([os.path.join(pepsi.BIN, "pepsi"), "-c", conf, "failure-bouncer"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, preexec_fn=pepsi.die_with_me, env=dict(os.environ, **d.test.environment))
        d.test.cleanup(self.kill)

    def log(self):
        with open(self.path) as f:
            return f.read()

    def wait(self, word, n=1, seconds=20):
        pepsi.wait_for("%s in the service's log:\n%s" % (word, self.log()), lambda: self.log().count(word) >= n, seconds)

    def stop(self, sig):
        self.process.send_signal(sig)
        code = self.process.wait(10)
        pepsi.check(code == 0, "the service ended with %s after signal %d: %s" % (code, sig, self.log()))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def service(t):
    d = daemon(t)
    conf = config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 3 s\n", "service.conf")
    stuck(d, "before")
    time.sleep(3)
    s = Service(d, conf)
    s.wait("event=listening ")
    mail = lambda token: [m for m in d.maildir("alice@example.test") if b"X-Token: %s" % token in m]
    pepsi.wait_for("what was stuck at the start", lambda: mail(b"before"), 5)
    # a failure is notified, and bounced when it is old enough, not earlier
    begin = time.monotonic()
    stuck(d, "notified")
    pepsi.wait_for("the report", lambda: mail(b"notified"), 10)
    took = time.monotonic() - begin
    pepsi.check(2.9 < took < 8 * pepsi.SLACK, "reported after %.1f s" % took)
    # the database goes away for a while: that is told, and what failed meanwhile is found
    stuck(d, "meanwhile")
    d.stop()
    s.wait("event=database-away")
    pepsi.check(s.process.poll() is None, "the service ended with the database")
    time.sleep(1)
    d.start()
    s.wait("event=listening-again", 1, 40)
    pepsi.wait_for("the report after the outage", lambda: mail(b"meanwhile"), 15)
    d.wait_empty(10)
    pepsi.check(s.log().count("event=failure-bounced") == 3, "bounced: %s" % s.log())
    s.stop(signal.SIGTERM)
    s = Service(d, conf)
    s.wait("event=listening ")
    s.stop(signal.SIGINT)
    d.stop()
    # started before the database: it waits for it
    s = Service(d, conf)
    s.wait("event=database-away")
    s.stop(signal.SIGTERM)


def account_exists(name):
    try:
        pwd.getpwnam(name)
        return True
    except KeyError:
        return False


def started_as_root(t):
    """root's own shell or cron: it goes on as pepsi, whose role owns the queue."""
    if not pepsi.ROOT or not shutil.which("useradd", path="/usr/sbin:/usr/bin") or not pepsi.private_mounts():
        raise pepsi.Skip("needs root, useradd and a private mount namespace")
    copy = os.path.join(t.dir, "etc")
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
    try:
        subprocess.run(["sh", os.path.join(pepsi.SOURCE, "contrib", "accounts")], check=True, stdout=subprocess.DEVNULL)
        who = pwd.getpwnam("pepsi")
        d = daemon(t)
        conf = config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 0\n", "root.conf")
        os.chmod(conf, 0o600)  # read before the step down
        stuck(d, "one")
        s = Service(d, conf)
        s.wait("event=failure-bounced")
        with open("/proc/%d/status" % s.process.pid) as f:
            status = dict(l.rstrip("\n").split(":\t", 1) for l in f if ":\t" in l)
        pepsi.check(status["Uid"].split() == [str(who.pw_uid)] * 4 and status["Gid"].split() == [str(who.pw_gid)] * 4, "runs as %s %s" % (status["Uid"], status["Gid"]))
        pepsi.check(status["CapEff"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Groups"].split() == [str(who.pw_gid)], "keeps something: %s" % status)
        pepsi.check("no-account" not in s.log(), s.log())
        pepsi.wait_for("the report", lambda: d.maildir("alice@example.test"), 10)
        s.stop(signal.SIGTERM)
        d.stop()
    finally:
        t.finish()
        subprocess.run(["umount", "-l", "/etc"])


if __name__ == "__main__":
    pepsi.own_mounts(__file__)
    pepsi.main(__file__, [one_sweep, service, started_as_root])
