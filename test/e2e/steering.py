"""An operator's hand on the queue: changes by filters, counted before they are done; mail that is held, queued and to come, by rules and by
hand, and let go again; mail that is sent by another stage."""
import os
import re
import shutil
import subprocess
import time

import pepsi
from pepsi import Pepsid, Sink, bounce, check, message, route, smarthost, wait_for

RETRY = "RETRY_MIN = 1 h\nRETRY_MAX = 2 h\n"


def slow(name, port, more="", wait=None):
    """a next hop whose mail waits long after a failure"""
    return smarthost(name, port, more).replace("RETRY_MIN = 1 s\nRETRY_MAX = 2 s\n", wait or RETRY)


def site(t, more="", retry=None):
    """init → out, and a second way"""
    a, b = Sink(t), Sink(t)
    d = Pepsid(t, route("init", [("*", "out")]) + slow("out", a.port, more, retry) + smarthost("other", b.port) + bounce())
    return d, a, b


def ok(d, *args):
    code, out, err = d.cli(*args)
    check(code == 0, "%s: %d %s%s" % (" ".join(args), code, out, err))
    return out


def sql(d, text):
    r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", text], stdin=subprocess.DEVNULL,
                       capture_output=True)
    check(r.returncode == 0, "psql: %s" % r.stderr.decode())
    return r.stdout.decode().strip()


def rows(d, *args):
    return {tuple(r["rcpt_to"]): r for r in d.queue(*args)}


def rule_of(out):
    return re.match(r"rule (\d+) is in force", out).group(1)


def filters(t):
    """retry, delete and set-stage by sender, destination and stage: counted first, and only what is meant"""
    d, a, b = site(t)
    a.script["rcpt"] = "450 4.2.0 not now"
    for sender, rcpt in (("a@s.test", "x@one.test"), ("b@s.test", "x@two.test"), ("b@other.test", "y@two.test"), ("", "z@three.test")):
        d.accept(sender, [rcpt], message("f"))
    wait_for("all of them to wait", lambda: all(r["status"] == "paused" for r in d.queue()) and len(d.queue()) == 4)
    for args, n in ((["--sender", "@s.test"], 2), (["--sender", "<>"], 1), (["--destination", "two.test"], 2), (["--destination", "Y@two.test"], 1),
                    (["--recipient", "@three.test"], 1), (["--stage", "out"], 4), (["--stage", "init"], 0), (["--status", "held"], 0)):
        check(len(d.queue(*args)) == n, "list %s: %s" % (args, d.queue(*args)))
        out = ok(d, "queue", "retry", "--dry-run", *args)
        check(out.startswith("%d message" % n) and "would be" in out, out)
    check(all(r["status"] == "paused" for r in d.queue()), "a dry run changed something")
    a.script.clear()
    check(ok(d, "queue", "retry", "--destination", "two.test") == "2 messages made to run again\n", "retry by destination")
    wait_for("those two", lambda: len(a.messages) == 2 and len(d.queue()) == 2)
    check(d.json("queue", "set-stage", "other", "--sender", "<>")["count"] == 1, "set-stage by sender")
    wait_for("the other way", lambda: len(b.messages) == 1)
    check(ok(d, "queue", "delete", "--sender", "a@s.test").startswith("1 message deleted"), "delete by sender")
    wait_for("an empty queue", lambda: not d.queue())
    with open(d.log, errors="replace") as f:
        log = f.read()
    check(re.search(r'event=control cmd=queue.retry uid=\d+ pid=\d+ recipient="@two.test" result=ok count=2', log), "no audit line")
    check("dry_run=yes" in log, "no audit line of a dry run")


def hold(t):
    """a rule holds what is queued and what comes, another's mail goes on; nothing is lost when it is removed or ends"""
    d, a, b = site(t)
    a.script["rcpt"] = lambda line: "450 4.2.0 not now" if "one.test" in line and not any(m.token == "go" for m in a.messages) else None
    d.accept("s@s.test", ["x@one.test"], message("queued"))
    wait_for("it to wait", lambda: [r["status"] for r in d.queue()] == ["paused"])
    check("1 queued message would be held" in ok(d, "queue", "hold", "add", "--destination", "one.test", "--dry-run"), "dry run")
    out = ok(d, "queue", "hold", "add", "--destination", "one.test", "--reason", "their disk is full")
    rule = rule_of(out)
    check("1 queued message held" in out, out)
    d.accept("s@s.test", ["y@one.test"], message("future"))
    d.accept("s@s.test", ["y@two.test"], message("free"))
    wait_for("what is free", lambda: "free" in a.tokens())
    wait_for("what came to be held", lambda: len(d.queue("--status", "held")) == 2)
    r = rows(d)[("y@one.test",)]
    check(r["held"]["rule"] == int(rule) and r["held"]["reason"] == "their disk is full" and r["next_attempt_at"] is None, str(r))
    check("held by rule %s: their disk is full" % rule in ok(d, "queue", "list"), ok(d, "queue", "list"))
    # some of the recipients: those alone
    d.accept("s@s.test", ["z@one.test", "z@two.test"], message("mixed"))
    wait_for("the one who is free", lambda: [m for m in a.messages if m.token == "mixed"])
    wait_for("the other to be held", lambda: len(d.queue("--status", "held")) == 3)
    check([r[0] for m in a.messages if m.token == "mixed" for r in m.rcpts] == ["z@two.test"], "who got the mixed one")
    check(rows(d)[("z@one.test",)]["status"] == "paused", "the other part")
    # no retry lets it go, and it survives a restart
    check("0 messages made to run again" in ok(d, "queue", "retry", "--all"), "retry of held mail")
    check(d.status()["steering"] == {"held": 3, "hold_rules": 1, "reroute_rules": 0}, str(d.status()["steering"]))
    check("steering  held 3, hold_rules 1" in ok(d, "status"), ok(d, "status"))
    m = d.metrics()
    check(m["pepsi_queue_held_messages"] == 3 and m['pepsi_queue_rules{action="hold"}'] == 1, "metrics")
    d.stop()
    d.start()
    d.wait_ready()
    check(len(d.queue("--status", "held")) == 3, "a restart let something go")
    # one message past the rule
    one = rows(d)[("z@one.test",)]["id"]
    a.messages.append(pepsi.Received("", "", [], message("go")))
    check(ok(d, "queue", "release", str(one)) == "1 message released\n", "release")
    wait_for("that one", lambda: len([m for m in a.messages if m.token == "mixed"]) == 2)
    check(len(d.queue("--status", "held")) == 2, "the others stay")
    code, out, err = d.cli("queue", "release", str(one))
    check(code == 1, "released twice")
    listed = d.json("queue", "hold", "list")
    check(len(listed) == 1 and listed[0]["held"] == 2 and listed[0]["recipient"] == "@one.test" and listed[0]["made_by"].startswith("uid:"), str(listed))
    check(ok(d, "queue", "hold", "remove", rule) == "removed; 2 messages released\n", "remove")
    wait_for("all of it", lambda: sorted(x for x in a.tokens() if x in ("queued", "future")) == ["future", "queued"])
    wait_for("an empty queue", lambda: not d.queue())
    code, out, err = d.cli("queue", "hold", "remove", rule)
    check(code == 1 and "no such rule" in err, out + err)
    # a rule with an end
    rule_of(ok(d, "queue", "hold", "add", "--sender", "s@s.test", "--for", "6 s"))
    d.accept("s@s.test", ["y@two.test"], message("short"))
    wait_for("it to be held", lambda: d.queue("--status", "held"))
    check(rows(d)[("y@two.test",)]["next_attempt_at"], "a time for what is held for a time")
    wait_for("it to go by itself", lambda: "short" in a.tokens(), 30)
    # by the client, the stage, and by hand
    rule = rule_of(ok(d, "queue", "hold", "add", "--client", "127.0.0.0/8", "--stage", "init"))
    d.accept("s@s.test", ["y@two.test"], message("client"))
    wait_for("it to be held", lambda: [r["stage"] for r in d.queue("--status", "held")] == ["init"])
    ok(d, "queue", "hold", "remove", rule)
    wait_for("it to go", lambda: "client" in a.tokens())
    a.script["rcpt"] = "450 4.2.0 not now"
    d.accept("s@s.test", ["y@two.test"], message("hand"))
    wait_for("it to wait", lambda: [r["status"] for r in d.queue()] == ["paused"])
    check(ok(d, "queue", "hold", str(d.queue()[0]["id"]), "--reason", "a look").startswith("1 message held"), "by hand")
    check("held by hand: a look" in ok(d, "queue", "list"), ok(d, "queue", "list"))
    a.script.clear()
    ok(d, "queue", "release", "--all")
    wait_for("it to go", lambda: "hand" in a.tokens())
    # what cannot be meant
    for args, why in ((["--destination", "one.test", "--client", "nowhere"], "no network"), (["--stage", "uot"], "did you mean out?"), ([], "which mail?")):
        code, out, err = d.cli("queue", "hold", "add", *args)
        check(code != 0 and why in err, "%s: %s" % (args, err))


def lifetime(t):
    """while it is held a message's time stands still: it is tried again after, and not returned meanwhile"""
    d, a, b = site(t, more="MAX_LIFETIME = 8 s\n", retry="RETRY_MIN = 1 s\nRETRY_MAX = 1 s\n")
    rule = rule_of(ok(d, "queue", "hold", "add", "--destination", "one.test"))
    d.accept("s@s.test", ["x@one.test"], message("patient"))
    wait_for("it to be held", lambda: d.queue("--status", "held"))
    began = time.time()
    wait_for("its lifetime to pass", lambda: time.time() - began > 10, 30)
    check(len(d.queue("--status", "held")) == 1 and d.status()["bounced"] == 0, "returned while it was held")
    a.script["rcpt"] = "450 4.2.0 not now"
    ok(d, "queue", "hold", "remove", rule)
    wait_for("an attempt that fails", lambda: [r for r in d.queue("--stage", "out") if r["last_error"]])
    check(d.status()["bounced"] == 0, "returned at its first attempt")
    a.script.clear()
    wait_for("its delivery", lambda: "patient" in a.tokens(), 20)


def every_state(t):
    """MAX_LIFETIME where no attempt would notice: paused by a hand, pending at a stage without a worker, at a stage that is gone, and a module that
    would have a message wait for ever; each is returned or failed, and said so"""
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    sink, gone = Sink(t), os.path.join(t.dir, "filter")
    with open(gone, "w") as f:
        f.write("#!/bin/sh\ncat >/dev/null\necho '{\"action\":\"defer\",\"seconds\":1000,\"text\":\"never\"}'\n")
    os.chmod(gone, 0o755)
    pipe = "[stage-%s]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nMAX_LIFETIME = 5 s\nBOUNCE_STAGE = bounce\nNEXT_STAGE = home\n\n"
    stages = route("init", [("home.test", "home"), ("pipe.test", "wait"), ("down.test", "down"), ("*", "out")])
    stages += smarthost("out", sink.port, "MAX_LIFETIME = 5 s\n") + pipe % ("wait", gone)
    stages += "[stage-down]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/${domain}/${local}\nMAX_LIFETIME = 5 s\nBOUNCE_STAGE = bounce\n\n" % t.dir
    home = Sink(t)
    stages += smarthost("home", home.port) + bounce()
    d = Pepsid(t, stages)
    sink.script["rcpt"] = "450 4.2.0 not now"
    d.accept("ann@home.test", ["x@far.test"], message("hand"))
    wait_for("it to be tried", lambda: d.queue("--stage", "out"))
    wait_for("it paused by a hand", lambda: sql(d, "UPDATE pepsi.workqueue SET timeout = NULL WHERE stage = 'out' AND status = 'paused' RETURNING id"))
    d.accept("ann@home.test", ["x@pipe.test"], message("pipe"))
    sql(d, "UPDATE pepsi.workqueue SET received_at = now() - interval '1 minute' WHERE stage = 'out'")
    reports = wait_for("two reports", lambda: len(home.messages) >= 2 and [m.data.decode() for m in home.messages], 60)
    check(any("x@far.test" in r and "4.4.7" in r for r in reports) and any("x@pipe.test" in r and "4.4.7" in r for r in reports), str(reports))
    # a stage whose module cannot be started any more, and one that is not configured
    sql(d, "INSERT INTO pepsi.workqueue_body VALUES (-7, 'x'); INSERT INTO pepsi.workqueue (id, body_id, stage, mail_from, rcpt_to, headers, received_at)"
           " VALUES (-7, -7, 'nowhere', 'ann@home.test', '{x@y.test}', '', now() - interval '6 days')")
    wait_for("it to fail", lambda: [r for r in d.queue("--status", "failed") if "there is no stage nowhere any more" in r["last_error"]], 30)
    check(d.metrics()["pepsi_dispatch_expired_total"] >= 2, "metric")
    with open(d.log, errors="replace") as f:
        check("event=config-changed" not in f.read(), "workers are retired by the sweep")


def reroute(t):
    """one domain's mail by another stage, at once: what waits and what comes, and a part of a message"""
    d, a, b = site(t)
    a.script["rcpt"] = lambda line: "450 4.2.0 not now" if "one.test" in line else None
    d.accept("s@s.test", ["x@one.test"], message("queued"))
    d.accept("s@s.test", ["x@two.test"], message("free"))
    wait_for("it to wait", lambda: [r["status"] for r in d.queue()] == ["paused"])
    out = ok(d, "queue", "reroute", "other", "--destination", "one.test", "--for", "1 h")
    check("1 queued message on another way" in out, out)
    wait_for("it to go the other way", lambda: b.tokens() == ["queued"])
    d.accept("s@s.test", ["y@one.test"], message("future"))
    d.accept("s@s.test", ["z@one.test", "z@two.test"], message("mixed"))
    wait_for("what came", lambda: sorted(b.tokens()) == ["future", "mixed", "queued"])
    wait_for("the part that was not meant", lambda: sorted(a.tokens()) == ["free", "mixed"])
    check([r[0] for m in a.messages if m.token == "mixed" for r in m.rcpts] == ["z@two.test"], "who got the mixed one here")
    # a rule the other way round makes no circle: each message is sent on once by it
    back = rule_of(ok(d, "queue", "reroute", "out", "--destination", "one.test", "--stage", "other"))
    a.script.clear()
    d.accept("s@s.test", ["w@one.test"], message("round"))
    wait_for("its delivery", lambda: "round" in a.tokens() + b.tokens())
    check("round" in a.tokens(), "the newer rule did not win")
    ok(d, "queue", "reroute", "remove", back)
    rule = d.json("queue", "reroute", "list")[0]
    check(rule["to"] == "other" and rule["expires_at"], str(rule))
    ok(d, "queue", "reroute", "remove", str(rule["id"]))
    d.accept("s@s.test", ["v@one.test"], message("after"))
    wait_for("the old way", lambda: "after" in a.tokens())
    # a stage that has no worker any more: what is there moves, without one
    a.script["rcpt"] = "450 4.2.0 not now"
    d.accept("s@s.test", ["u@one.test"], message("stuck"))
    wait_for("it to wait", lambda: [r["status"] for r in d.queue()] == ["paused"])
    check("1 queued message on another way" in ok(d, "queue", "reroute", "other", "--stage", "out"), "by stage")
    wait_for("it to go the other way", lambda: "stuck" in b.tokens())
    wait_for("an empty queue", lambda: not d.queue())


def orphans(t):
    """a rule that went without releasing (its command was cut off): what it held is let go all the same"""
    if not shutil.which("psql"):
        raise pepsi.Skip("psql is not installed")
    d, a, b = site(t)
    ok(d, "queue", "hold", "add", "--destination", "one.test")
    d.accept("s@s.test", ["x@one.test"], message("orphan"))
    wait_for("it to be held", lambda: d.queue("--status", "held"))
    sql(d, "DELETE FROM pepsi.queue_rule")
    wait_for("it to be let go", lambda: "orphan" in a.tokens(), 100)


if __name__ == "__main__":
    pepsi.main(__file__, [filters, hold, lifetime, every_state, reroute, orphans])
