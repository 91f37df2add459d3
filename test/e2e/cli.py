"""Every command of the tool, with and without --json, against a running daemon; exit codes; who may do what by the
credentials of the peer; the names pepsi-queue, pepsi-status … ; one worker by hand."""
import json
import os
import shutil
import subprocess

import pepsi


def setup(t):
    sink = pepsi.Sink(t)
    sink.script = {"mail": "451 4.3.0 not today"}
    # nothing is tried again by itself: what a worker has right now, nobody moves
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 1\n").replace("RETRY_MIN = 1 s\nRETRY_MAX = 2 s", "RETRY_MIN = 1 h\nRETRY_MAX = 2 h")
                     + "[stage-aside]\nPROGRAM = pepsi-stage-discard\n\n" + pepsi.bounce())
    ids = [d.accept("s%d@example.test" % i, ["a%d@far.test" % i, "b@far.test"], pepsi.message("q%d" % i)) for i in range(4)]
    pepsi.wait_for("all waiting", lambda: len([r for r in d.queue() if r.get("last_error")]) == 4, 20, 0.2)
    return sink, d, ids


def every_command(t):
    sink, d, ids = setup(t)

    def text(*args, code=0):
        c, out, err = d.cli(*args)
        pepsi.check(c == code, "pepsi %s: exit %d, not %d: %s%s" % (" ".join(args), c, code, out, err))
        pepsi.check("sanitizer" not in err.lower(), err)
        return out if code == 0 else out + err

    # status
    s = d.json("status")
    for k in ("version", "uptime_s", "queue", "stages", "accepted", "delivered", "bounced", "discarded"):
        pepsi.check(k in s, "status lacks %s: %s" % (k, sorted(s)))
    for k in ("total", "pending", "running", "paused", "failed", "timeout"):
        pepsi.check(isinstance(s["queue"].get(k), int), "status.queue lacks %s: %s" % (k, s["queue"]))
    pepsi.check(s["queue"]["total"] == 4 and s["accepted"] == 4, "counts: %s" % s["queue"])
    names = {g["name"]: g for g in s["stages"]}
    pepsi.check(set(names) == {"init", "aside", "bounce"}, "stages: %s" % sorted(names))
    for k in ("name", "program", "workers", "in_flight", "done", "crashes"):
        pepsi.check(k in names["init"], "a stage lacks %s: %s" % (k, names["init"]))
    pepsi.check(names["init"]["program"] == "pepsi-stage-relay-to-smarthost", "program: %s" % names["init"])
    pepsi.check("init" in text("status"), "status names no stage")
    # queue list, with filters
    rows = d.queue()
    for k in ("id", "stage", "status", "mail_from", "rcpt_to", "received_at", "next_attempt_at", "last_error"):
        pepsi.check(k in rows[0], "queue list lacks %s: %s" % (k, rows[0]))
    pepsi.check({str(r["id"]) for r in rows} == set(ids), "ids: %s, sent %s" % ([r["id"] for r in rows], ids))
    pepsi.check(len(d.queue("--stage", "init")) == 4 and d.queue("--stage", "aside") == [], "--stage")
    pepsi.check(d.queue("--status", "failed") == [], "--status")
    out = text("queue", "list")
    pepsi.check(all(i in out for i in ids) and "not today" in out, "queue list:\n%s" % out)
    # show and cat
    out = text("queue", "show", ids[0])
    for w in (ids[0], "s0@example.test", "a0@far.test", "b@far.test", "not today", "init"):
        pepsi.check(w in out, "queue show lacks %s:\n%s" % (w, out))
    shown = d.json("queue", "show", ids[0])
    shown = shown[0] if isinstance(shown, list) else shown
    pepsi.check(shown["mail_from"] == "s0@example.test" and "not today" in json.dumps(shown), "queue show --json: %s" % shown)
    code, out, err = d.cli("queue", "cat", ids[1])
    pepsi.check(code == 0 and pepsi.below_trace(pepsi.crlf(out.encode()), pepsi.message("q1")) is None, "queue cat: %s%s" % (out[:300], err))
    d.json("queue", "cat", ids[1])
    # set-stage, delete, retry
    text("queue", "set-stage", "aside", ids[3])
    pepsi.wait_for("discarded at [stage-aside]", lambda: d.status()["discarded"] == 1, 10)
    text("queue", "delete", ids[2])
    pepsi.check(ids[2] not in [str(r["id"]) for r in d.queue()], "deleted but there")
    sink.script = {}
    text("queue", "retry", ids[0])
    pepsi.wait_for("delivered by retry", lambda: "q0" in sink.tokens(), 10)
    pepsi.check("q1" not in sink.tokens(), "another one was tried, too")
    text("queue", "retry", ids[1])
    d.wait_empty(20)
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"] + s["queue"]["total"], "an operator's delete spoils the books: %s" % s)
    # things that are not there, and wrong usage
    pepsi.check("message" in text("queue", "show", "999999", code=1), "an unknown id is not told")
    text("queue", "delete", "999999", code=1)
    text("queue", "set-stage", "nowhere", ids[0], code=1)
    text("queue", "frobnicate", code=2)
    text("no-such-tool", code=2)
    text("queue", "show", code=2)
    text("queue", "show", "abc", code=2)
    # configuration
    pepsi.check(text("config", "check") is not None, "config check")
    d.json("config", "check")
    pepsi.check("mx.example.test" in text("config", "show"), "config show lacks HOSTNAME's value")
    pepsi.check("mx.example.test" in json.dumps(d.json("config", "show")), "config show --json")
    # reload
    text("reload")
    d.json("reload")
    # help and version, of the tool and of each command
    for args in (("-h",), ("-V",), ("queue", "-h"), ("status", "-h"), ("config", "-h"), ("worker", "-h")):
        pepsi.check(text(*args).strip(), "%s prints nothing" % (args,))
    # stop: returns at once or when it has stopped; the daemon ends with 0
    text("stop")
    pepsi.check(d.process.wait(60) == 0, "pepsid ended with %s" % d.process.returncode)
    text("status", code=1)


def links(t):
    """pepsi-queue and its like are the same program."""
    d = pepsi.Pepsid(t, pepsi.smarthost("init", pepsi.free_port()) + pepsi.bounce())
    for tool, args in (("pepsi-queue", ["list"]), ("pepsi-status", [])):
        r = subprocess.run([os.path.join(pepsi.BIN, tool), "-c", d.config] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **t.environment))
        pepsi.check(r.returncode == 0, "%s: %s" % (tool, r.stderr.decode()))
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi-queue"), "-c", d.config, "--json", "list"], stdout=subprocess.PIPE, env=dict(os.environ, **t.environment))
    pepsi.check(json.loads(r.stdout) == [], "an empty queue is not []: %s" % r.stdout)
    d.json("stop")
    pepsi.check(d.process.wait(60) == 0, "pepsid ended with %s" % d.process.returncode)


def by_credentials(t):
    """An account that has nothing to do with it may not even look; root and the daemon's owner may do all."""
    if not pepsi.ROOT or not shutil.which("setpriv"):
        raise pepsi.Skip("needs root and setpriv")
    sink, d, ids = setup(t)
    stranger = 54321
    for args in (("queue", "delete", ids[0]), ("queue", "cat", ids[0]), ("queue", "list"), ("stop",), ("reload",), ("queue", "set-stage", "aside", ids[0])):
        code, out, err = d.cli(*args, uid=stranger)
        pepsi.check(code == 1, "uid %d may `%s`: exit %d %s" % (stranger, " ".join(args), code, out))
        pepsi.check("permission" in err.lower() or "denied" in err.lower() or "not allowed" in err.lower() or "may not" in err.lower(), "no reason: %s" % err)
    pepsi.check(d.running() and len(d.queue()) == 4, "something changed")
    d.stop()


def worker_by_hand(t):
    """echo ID | pepsi worker STAGE: one status line, 0 for done; an id that is not running is refused."""
    sink, d, ids = setup(t)
    code, out, err = d.cli("worker", "init", stdin=("%s\n" % ids[0]).encode())
    lines = out.splitlines()
    pepsi.check(len(lines) == 1 and lines[0].split()[0] != "0", "a row that is not running: %r %s" % (out, err))
    pepsi.check(ids[0] in [str(r["id"]) for r in d.queue()], "it changed the queue")
    code, out, err = d.cli("worker", "nowhere", stdin=b"1\n")
    pepsi.check(code in (1, 2) and "nowhere" in err, "an unknown stage: %d %s" % (code, err))
    d.stop()


pepsi.main(__file__, [every_command, links, by_credentials, worker_by_hand])
