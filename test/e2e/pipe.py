"""A filter command in a real worker, confined as it is there: what it decides happens, what it costs is bounded, and a command that
hangs is gone when its time is up although a worker may signal nobody."""
import os
import stat

import pepsi

FILTER = """#!/usr/bin/python3
import json, os, sys, time
text = sys.stdin.buffer.read().decode("latin-1")
def answer(**reply):
    json.dump(reply, sys.stdout)
    sys.exit(0)
if "X-Token: hang" in text:
    time.sleep(600)
if "X-Token: garbage" in text:
    print("yes, why not")
    sys.exit(0)
if "X-Token: refuse" in text:
    answer(action="reject", status="5.6.1", text="not this one")
if "X-Token: aside" in text:
    answer(action="reroute", stage="aside", remove_headers=["Subject"])
answer(action="accept", add_headers=[{"name": "X-Seen", "value": os.environ["PEPSI_SENDER"] + " " + os.environ["PEPSI_CLIENT_IP"]}])
"""


def daemon(t):
    d = pepsi.Pepsid(t, "", start=False)
    command = os.path.join(d.state, "filter")
    with open(command, "w") as f:
        f.write(FILTER)
    os.chmod(command, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    d.write_config("[stage-init]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nTIMEOUT = 2 s\nSTAGES = aside\nNEXT_STAGE = maildir\n"
                   "BOUNCE_STAGE = bounce\n[stage-aside]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/aside/${local}\nBOUNCE_STAGE = bounce\n"
                   % (command, d.mail) + pepsi.maildir("maildir", d.mail) + pepsi.bounce(to="maildir"))
    d.start()
    return d, command


def what_it_decides(t):
    d, command = daemon(t)
    d.accept("alice@example.test", "bob@example.test", pepsi.message("plain"))
    mail = pepsi.wait_for("the accepted message", lambda: d.maildir("bob@example.test"), 20)
    pepsi.check(b"X-Seen: alice@example.test 127.0.0.1\r\n" in mail[0], "no X-Seen: %r" % mail[0])
    d.accept("alice@example.test", "bob@example.test", pepsi.message("aside"))
    folder = os.path.join(d.mail, "aside", "bob", "new")
    pepsi.wait_for("the message put aside", lambda: os.path.isdir(folder) and os.listdir(folder), 20)
    with open(os.path.join(folder, os.listdir(folder)[0]), "rb") as f:
        pepsi.check(b"Subject:" not in f.read(), "the subject is still there")
    d.accept("alice@example.test", "bob@example.test", pepsi.message("refuse"))
    mail = pepsi.wait_for("the report", lambda: d.maildir("alice@example.test"), 20)
    pepsi.check(b"5.6.1" in mail[0] and b"not this one" in mail[0], "the report: %r" % mail[0])
    d.wait_empty(20)
    for end, n in (("accept", 1), ("reroute", 1), ("reject", 1), ("invalid", 0)):
        d.counts(n, "runs_total", end=end)
    d.counts(3, "run_seconds_count")
    d.stop()


def of(command):
    return [p for p in os.listdir("/proc") if p.isdigit() and command in (pepsi.proc_cmdline(int(p)) or "")]


def what_it_may_not_cost(t):
    d, command = daemon(t)
    d.accept("alice@example.test", "bob@example.test", pepsi.message("hang"))
    d.accept("alice@example.test", "bob@example.test", pepsi.message("garbage"))
    d.accept("alice@example.test", "bob@example.test", pepsi.message("fine"))
    pepsi.wait_for("the good message", lambda: d.maildir("bob@example.test"), 30)
    paused = pepsi.wait_for("two paused ones", lambda: len(d.queue("--status", "paused")) == 2 and d.queue("--status", "paused"), 30)
    errors = " | ".join(sorted(str(m["last_error"]) for m in paused))
    pepsi.check("did not answer in time" in errors and "gave no valid reply" in errors, errors)
    pepsi.check(not of(command), "the command still runs: %s" % of(command))
    pepsi.check(not [s for s in d.status()["stages"] if s["crashes"]], "a worker crashed: %s" % d.status()["stages"])
    d.stop()
    pepsi.check(not of(command), "the command outlived the server: %s" % of(command))


pepsi.main(__file__, [what_it_decides, what_it_may_not_cost])
