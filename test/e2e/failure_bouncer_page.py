"""The manual page of pepsi-failure-bouncer sentence by sentence: which test shows it (SENTENCES; that each is there is a test
of its own), and here the tests of what happens beside a real daemon and is in no other: how messages come to fail, what
an operator does in time, what the sender does not want to hear, timer and target, the options, a database that stays away."""
import configparser
import os
import re
import socket
import subprocess
import threading
import time

import failure_bouncer as fb
import pepsi

E2E, HERE, UNIT, SQL, CHECK = "test/e2e/failure_bouncer.py", "test/e2e/failure_bouncer_page.py", "test/unit/cli/test_bouncer.c", \
    "test/sql/failure_bounce.sql", "test/unit/config/test_check.c"
MISTAKES, NOTIFIES = "test/unit/config/data/mistakes.txt", "test/sql/failure_bounce.sh"

# (number, what the page says, where it is tried: file:function, or file:text that stands there)
SENTENCES = [
    # failed, timeout
    (1, "failed: the stage called fail()", [HERE + ":how_they_fail"]),
    (2, "failed: the stage returned an error that it marked permanent", [HERE + ":how_they_fail"]),
    (3, "failed: the worker gave up retrying at a stage without BOUNCE_STAGE", [HERE + ":how_they_fail"]),
    (4, "failed: the message crashed its worker three times", [HERE + ":how_they_fail"]),
    (5, "timeout: it held its worker longer than MAX_RUNTIME three times", [HERE + ":how_they_fail"]),
    (6, "most errors are retried until MAX_LIFETIME, then go to the stage's BOUNCE_STAGE by themselves", [HERE + ":how_they_fail"]),
    (7, "the dispatcher never takes a failed or timeout row up again", [HERE + ":how_they_fail"]),
    (8, "pepsi.target runs it", [HERE + ":units"]),
    # what it does
    (9, "each stuck message is moved to BOUNCE_STAGE and pending again", [SQL + ":1 bounce pending, 2 bounce pending", E2E + ":one_sweep"]),
    (10, "the bounce stage makes a delivery status notification of it for the sender", [E2E + ":one_sweep", HERE + ":how_they_fail"]),
    (11, "and honours NOTIFY of RFC 3461", [HERE + ":unwanted"]),
    (12, "moved only after MIN_AGE", [SQL + ":an operator may still come", E2E + ":service"]),
    (13, "which is one hour by default", [UNIT + ":test_rule", E2E + ":one_sweep"]),
    (14, "measured from state.failed_at", [SQL + ":The time of failure: lost, garbage, or in the future"]),
    (15, "which the database stamps when the row becomes failed or timeout", [SQL + ":'the stamp'", HERE + ":how_they_fail"]),
    (16, "in that time an operator can put it back into circulation with pepsi-queue", [HERE + ":operator_in_time"]),
    (17, "each one moved is logged as a warning", [UNIT + ":test_once"]),
    (18, "with sender, stage where it failed, and recorded error", [UNIT + ":test_once", E2E + ":one_sweep", HERE + ":how_they_fail"]),
    (19, "the stage is kept in state.failed_stage", [SQL + ':"failed_stage":"out"']),
    (20, "which the bounce stage names in the notification", [E2E + ":one_sweep", HERE + ":how_they_fail"]),
    (21, "a copy of a mailing list (state.list) is deleted instead", [SQL + ":5:deleted", E2E + ":one_sweep"]),
    (22, "with the same log line", [UNIT + ":test_once", E2E + ":one_sweep"]),
    (23, "so that no notification reaches the list's own bounce address", [E2E + ":one_sweep"]),
    (24, "a message at the bounce stage is left alone: no loop", [SQL + ":a report that failed where reports are made", E2E + ":one_sweep"]),
    (25, "a bounce that fails behind it is brought back", [SQL + ":a report downstream", E2E + ":one_sweep"]),
    (26, "and dropped by the bounce stage: never bounced again", [E2E + ":one_sweep"]),
    (27, "a BOUNCE_STAGE that names no stage is an error when the configuration is checked", [MISTAKES + ":there is no [stage-bouce]", UNIT + ":test_refused"]),
    (28, "one that does not run pepsi-stage-bounce itself is a warning", [CHECK + ":which makes no bounces", HERE + ":by_way_of_a_route"]),
    (29, "because it may be a routing stage that leads there", [HERE + ":by_way_of_a_route"]),
    (30, "it notifies the channel workqueue itself, so that the dispatcher acts at once, not at POLL_INTERVAL", [NOTIFIES + ':Asynchronous notification "workqueue"', E2E + ":one_sweep"]),
    (31, "pepsi.workqueue has no trigger that notifies that channel", [HERE + ":who_notifies"]),
    (32, "it uses the database of [pepsi-postgres]", [UNIT + ":test_rule", HERE + ":database_stays_away"]),
    (33, "and is configured by [pepsi-failure-bouncer]", [UNIT + ":test_rule"]),
    (34, "started as root it goes on as the account pepsi before it connects", [UNIT + ":test_account", E2E + ":started_as_root"]),
    (35, "the configuration is read first", [E2E + ":started_as_root"]),
    (36, "without that account the identity stays and a warning is logged", [UNIT + ":test_account", E2E + ":one_sweep"]),
    # modes
    (37, "without --once it is a service", [E2E + ":service"]),
    (38, "that listens on workqueue_failed", [UNIT + ":test_service", E2E + ":service"]),
    (39, "which a trigger notifies when any writer makes a row failed or timeout", [HERE + ":who_notifies"]),
    (40, "it bounces each message once that is MIN_AGE old, waking for the oldest", [UNIT + ":test_service", E2E + ":service"]),
    (41, "at the start it first sweeps what is stuck already", [E2E + ":service"]),
    (42, "and again whenever it is connected anew", [E2E + ":service"]),
    (43, "it runs until SIGINT or SIGTERM", [E2E + ":service"]),
    (44, "with --once it sweeps one time and ends", [UNIT + ":test_once", E2E + ":one_sweep"]),
    # systemd
    (45, "the timer runs the service ten minutes after boot and every ten minutes", [HERE + ":units"]),
    (46, "the service is one sweep with --once under the account pepsi", [HERE + ":units"]),
    (47, "pepsi.target pulls the timer in (Wants: a masked timer does not keep the target from starting)", [HERE + ":units"]),
    (48, "no unit runs the service mode", [HERE + ":units"]),
    (49, "a sender that is not authenticated is not told: dropped with a warning", [SQL + ":6:dropped", E2E + ":one_sweep", UNIT + ":test_once"]),
    (50, "unless BOUNCE_UNAUTHENTICATED is set", [SQL + ":p_unauth => true", E2E + ":one_sweep"]),
    # options, exit status
    (51, "--once: those that have been stuck for MIN_AGE", [E2E + ":one_sweep", HERE + ":operator_in_time"]),
    (52, "--failed-only ignores timeout", [SQL + ":p_statuses => '{failed}'", UNIT + ":test_rule", E2E + ":one_sweep"]),
    (53, "--timeout-only ignores failed", [SQL + ":p_statuses => '{timeout}'", UNIT + ":test_rule", HERE + ":how_they_fail"]),
    (54, "they exclude each other", [UNIT + ":test_refused", E2E + ":one_sweep"]),
    (55, "global options stand before or behind the others", [HERE + ":options"]),
    (56, "-c, -L, -v, -h, -V", [HERE + ":options", UNIT + ":test_refused"]),
    (57, "exit 0: the sweep was finished, or the service ended by a signal", [E2E + ":one_sweep", E2E + ":service"]),
    (58, "exit 1: a malformed configuration", [UNIT + ":test_refused", HERE + ":options"]),
    (59, "exit 1: no BOUNCE_STAGE", [UNIT + ":test_refused", E2E + ":one_sweep"]),
    (60, "exit 1: no connection to the database", [UNIT + ":test_once_fails", E2E + ":one_sweep"]),
    (61, "for the service a lost connection is not fatal but logged", [E2E + ":service", HERE + ":database_stays_away"]),
    (62, "and tried again with growing pauses", [HERE + ":database_stays_away"]),
]


def sentences(t):
    """Every sentence has a test, and that test is there."""
    ours = {E2E: {f.__name__ for f in (fb.one_sweep, fb.service, fb.started_as_root)}, HERE: {f.__name__ for f in FUNCTIONS}}
    pepsi.check([s[0] for s in SENTENCES] == list(range(1, len(SENTENCES) + 1)), "the numbers")
    for n, what, places in SENTENCES:
        pepsi.check(places, "%d: %s: no test" % (n, what))
        for place in places:
            path, _, name = place.partition(":")
            with open(os.path.join(pepsi.SOURCE, path), encoding="utf-8") as f:
                text = f.read()
            there = name in ours[path] if path in ours else "static void %s(void **state)" % name in text if path == UNIT else name in text
            pepsi.check(there, "%d: %s: there is no %s" % (n, what, place))
    with open(os.path.join(pepsi.SOURCE, E2E), encoding="utf-8") as f:
        pepsi.check("[%s]" % ", ".join(["one_sweep", "service", "started_as_root"]) in f.read(), "failure_bouncer.py does not run them all")


def report_of(d, token):
    return pepsi.wait_for("the report of %s" % token, lambda: [m for m in d.maildir("alice@example.test") if b"X-Token: %s\r\n" % token.encode() in m], 20)[0]


def how_they_fail(t):
    """Each way into failed and timeout, by what really happens; then one sweep for each of the two."""
    stages = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
    if not os.path.exists(os.path.join(stages, "pepsi-stage-bad-crash.so")):
        raise pepsi.Skip("test/stages was not built")
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0"  # a crash on purpose is to be the signal it would be without
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda line: fb.REFUSED if "gone" in line else "450 4.2.0 later" if "later" in line else None}
    d = pepsi.Pepsid(t, "", start=False)
    bad = "[stage-%s]\nPROGRAM = pepsi-stage-bad-%s\nDEPTH = 1\n%s\n"
    d.write_config(
        pepsi.route("init", [("%s.test" % s, s) for s in ("fail", "permanent", "expired", "crash", "hang", "patient")] + [("example.test", "maildir")], "maildir")
        + pepsi.maildir("maildir", d.mail) + pepsi.smarthost("fail", sink.port, bounce=None)
        + "[stage-permanent]\nPROGRAM = pepsi-stage-bounce\n\n"  # without NEXT_STAGE it says PEPSI_PERMANENT
        + pepsi.smarthost("expired", sink.port, "MAX_LIFETIME = 1 s\n", bounce=None) + pepsi.smarthost("patient", sink.port, "MAX_LIFETIME = 1 s\n")
        + bad % ("crash", "crash", "") + bad % ("hang", "hang", "MAX_RUNTIME = 1 s\n") + pepsi.bounce(),
        pepsi="MODULE_PATH = %s:%s\n" % (stages, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")),
        more="[pepsi-dispatch]\nPOLL_INTERVAL = 1 s\nLAUNCH_COOLDOWN = 1 s\n")
    d.start()
    ways = {"fail": ("gone@fail.test", "nobody may"), "permanent": ("x@permanent.test", "NEXT_STAGE is not set"),
            "expired": ("later@expired.test", "later"), "crash": ("x@crash.test", "worker crash at stage crash"),
            "hang": ("x@hang.test", "worker overrun at stage hang: exceeded MAX_RUNTIME and was killed")}
    ids = {w: int(d.accept("alice@example.test", rcpt, pepsi.message(w, sender="alice@example.test"))) for w, (rcpt, _) in ways.items()}
    d.accept("alice@example.test", "later@patient.test", pepsi.message("patient", sender="alice@example.test"))
    stuck = lambda: {m["id"]: (m["status"], m["stage"]) for m in d.queue() if m["status"] in ("failed", "timeout")}
    want = {ids[w]: ("timeout" if w == "hang" else "failed", w) for w in ways}
    pepsi.wait_for("all five to fail", lambda: stuck() == want, 60, 0.2)
    report_of(d, "patient")  # it never came so far
    for w, i in ids.items():
        state = d.json("queue", "show", str(i))["state"]
        pepsi.check(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$", state.get("failed_at", "")), "%s: no stamp: %s" % (w, state))
        if w in ("crash", "hang"):
            pepsi.check(state["dispatch_error"]["crashes" if w == "crash" else "overruns"] == 3, "%s: %s" % (w, state))
    time.sleep(2.5)  # two polls
    pepsi.check(stuck() == want, "taken up again: %s" % stuck())
    eager = fb.config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 0\n", "eager.conf")
    log = fb.once(d, eager, {"bounced": 1}, "--timeout-only") + fb.once(d, eager, {"bounced": 4}, "--failed-only")
    for w, (_, why) in ways.items():
        line = fb.line_of(log, ids[w])
        pepsi.check(" warn " in line and "event=failure-bounced sender=\"alice@example.test\" stage=\"%s\" status=%s failed_at=\"2" % (w, want[ids[w]][0]) in line
                    and why in line, line)
        text = b" ".join(report_of(d, w).split())
        # what another server said is told; what a program of ours said is for the log
        told = w in ("fail", "expired")
        pepsi.check(b"at stage %s" % w.encode() in text and (why.encode() in text) == told, "%s: the report:\n%s" % (w, text.decode()))
    d.wait_empty(20)
    d.stop()


def shared(t):
    """One daemon for three functions; the last of them stops it."""
    d = next((d for d in t.daemons if getattr(d, "keep", False)), None)
    if not d:
        d = fb.daemon(t)
        d.keep = True
    return d


def unwanted(t):
    """NOTIFY=NEVER: moved like any other, and nobody hears of it; the next one, which asks for nothing, is told."""
    d = shared(t)
    eager = fb.config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = 0\n", "eager.conf")
    for params in ("NOTIFY=NEVER", "NOTIFY=SUCCESS", ""):
        d.accept("alice@example.test", "bob@stuck.test", pepsi.message("n-" + params[7:], sender="alice@example.test"), rcpt_params=params)
    pepsi.wait_for("all to fail", lambda: len(d.queue("--status", "failed")) == 3, 20)
    before = d.status()["bounced"]
    fb.once(d, eager, {"bounced": 3})
    d.wait_empty(20)
    mail = d.maildir("alice@example.test")
    pepsi.check(len(mail) == 1 and b"X-Token: n-\r\n" in mail[0], "%d reports" % len(mail))
    pepsi.check(d.status()["bounced"] == before + 3 and d.status()["queue"]["total"] == 0, "the books: %s" % d.status())


def operator_in_time(t):
    """Before MIN_AGE an operator moves one past the trouble and retries another, which fails anew; no sender is told."""
    d = shared(t)
    told = len(d.maildir("alice@example.test"))
    slow = fb.config(d, "BOUNCE_STAGE = bounce\n", "slow.conf")
    moved, again = fb.stuck(d, "moved"), fb.stuck(d, "again")
    stamp = d.json("queue", "show", str(again))["state"]["failed_at"]
    fb.once(d, slow, {"waiting": 2})
    code, _, err = d.cli("queue", "set-stage", "maildir", str(moved))
    pepsi.check(code == 0, err)
    pepsi.wait_for("delivered past the trouble", lambda: d.maildir("bob@stuck.test"), 10)
    code, _, err = d.cli("queue", "retry", str(again))
    pepsi.check(code == 0, err)
    pepsi.wait_for("it fails anew, with another stamp", lambda: [m for m in d.queue("--status", "failed") if m["id"] == again]
                   and d.json("queue", "show", str(again))["state"]["failed_at"] > stamp, 15)
    fb.once(d, slow, {"waiting": 1})
    pepsi.check(len(d.maildir("alice@example.test")) == told, "the sender was told")
    d.cli("queue", "delete", str(again))


def who_notifies(t):
    """The triggers themselves: workqueue_failed for whoever writes; and none of the queue's notifies `workqueue`."""
    d = shared(t)
    sources = fb.sql(d, "SELECT DISTINCT p.prosrc FROM pg_trigger g JOIN pg_proc p ON p.oid = g.tgfoid WHERE tgrelid = 'pepsi.workqueue'::regclass"
                        " AND NOT tgisinternal")
    pepsi.check("pg_notify('workqueue_failed'" in sources and "pg_notify('workqueue'," not in sources, sources)
    heard = fb.sql(d, "LISTEN workqueue_failed; LISTEN workqueue;"
                      " INSERT INTO pepsi.workqueue_body VALUES (800000, ''), (800001, '');"
                      " INSERT INTO pepsi.workqueue (id, body_id, stage, status, mail_from, rcpt_to, headers) VALUES"
                      " (800000, 800000, 'relay', 'failed', '', '{b@far.test}', ''), (800001, 800001, 'relay', 'paused', '', '{b@far.test}', '');"
                      " UPDATE pepsi.workqueue SET status = 'timeout' WHERE id = 800001;"
                      " UPDATE pepsi.workqueue SET mail_from = 'x@y' WHERE id = 800001;"
                      " UPDATE pepsi.workqueue SET status = 'failed' WHERE id = 800001")
    got = re.findall(r'Asynchronous notification "(\w+)" with payload "(\d+)"', heard)
    pepsi.check(sorted(got) == [("workqueue_failed", "800000"), ("workqueue_failed", "800001")], heard)
    pepsi.check("workqueue\" received" not in heard, heard)
    d.keep = False
    d.stop()


def by_way_of_a_route(t):
    """BOUNCE_STAGE may be a routing stage that leads to the bounce stage: a warning, and it works."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": fb.REFUSED}
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail)
                   + pepsi.smarthost("relay", sink.port, bounce=None) + pepsi.route("sorted", [("nowhere.test", "relay")], "bounce", bounce=None)
                   + pepsi.bounce(), more="[pepsi-failure-bouncer]\nBOUNCE_STAGE = sorted\nMIN_AGE = 0\n")
    code, out, err = d.cli("config", "check")
    pepsi.check(code == 0 and "BOUNCE_STAGE = sorted: [stage-sorted] runs pepsi-stage-route, which makes no bounces" in out + err, "exit %d: %s%s" % (code, out, err))
    d.start()
    fb.stuck(d, "sorted")
    fb.once(d, d.config, {"bounced": 1})
    report_of(d, "sorted")
    d.wait_empty(10)
    d.stop()


def units(t):
    """What the systemd units say."""
    def unit(name):
        p = configparser.RawConfigParser(strict=False)
        p.optionxform = str
        with open(os.path.join(pepsi.SOURCE, "contrib", "systemd", name)) as f:
            p.read_string(f.read())
        return p
    timer, service = unit("pepsi-failure-bouncer.timer"), unit("pepsi-failure-bouncer.service")
    pepsi.check(timer.get("Timer", "OnBootSec") == "10min" and timer.get("Timer", "OnUnitActiveSec") == "10min", "the timer")
    pepsi.check(not timer.has_option("Timer", "Unit"), "the timer runs another unit")
    command = service.get("Service", "ExecStart").split()
    pepsi.check(command[0].endswith("/pepsi-failure-bouncer") and "--once" in command, "%s" % command)
    pepsi.check(service.get("Service", "Type") == "oneshot" and service.get("Service", "User") == "pepsi", "the service's account")
    pepsi.check(unit("pepsi.target.d/failure-bouncer.conf").get("Unit", "Wants") == "pepsi-failure-bouncer.timer", "the target does not pull the timer in")
    pepsi.check(timer.get("Install", "WantedBy") == "pepsi.target" and timer.get("Unit", "PartOf") == "pepsi.target", "the timer and the target")
    for folder, _, names in os.walk(os.path.join(pepsi.SOURCE, "contrib", "systemd")):
        for n in names:
            with open(os.path.join(folder, n)) as f:
                for line in f:
                    if "failure-bouncer" in line and line.startswith("Exec"):
                        pepsi.check("--once" in line, "%s runs the service mode: %s" % (n, line))


def options(t):
    d = fb.daemon(t, start=False)
    tool = os.path.join(pepsi.BIN, "pepsi-failure-bouncer")
    good = fb.config(d, "BOUNCE_STAGE = bounce\n", "good.conf")
    bad = fb.config(d, "BOUNCE_STAGE = bounce\nMIN_AGE = soon\n", "bad.conf")

    def run(*args):
        r = subprocess.run([tool] + list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                           env=dict(os.environ, **t.environment))
        return r.returncode, r.stdout.decode(), r.stderr.decode()
    for args in (("-h",), ("--help", "--once")):
        code, out, _ = run(*args)
        pepsi.check(code == 0 and "--failed-only" in out and "--timeout-only" in out and "--once" in out, "%s: %d %s" % (args, code, out))
    for args in (("-V",), ("--once", "--version")):
        code, out, _ = run(*args)
        pepsi.check(code == 0 and re.match(r"pepsi \d+\.\d+\.\d+\n$", out), "%s: %d %s" % (args, code, out))
    # the database is not there: that far it comes with each of these
    for args in (("-c", good, "--once"), ("--once", "--config", good), ("--once", "-c", good, "--failed-only", "-L", "error"),
                 ("-L", "trace", "--timeout-only", "-v", "--once", "--config=" + good)):
        code, _, err = run(*args)
        pepsi.check(code == 1 and "no connection to the database" in err, "%s: %d %s" % (args, code, err))
    code, _, err = run("--once", "-c", bad)
    pepsi.check(code == 1 and "bad.conf" in err and "MIN_AGE" in err, "malformed: %d %s" % (code, err))
    code, _, err = run("--once", "-c", good, "-L", "loud")
    pepsi.check(code == 2 and "loud" in err, "-L loud: %d %s" % (code, err))


def database_stays_away(t):
    """A server of [pepsi-postgres] that takes no connection: told once, tried again with growing pauses."""
    attempts, server = [], socket.create_server(("127.0.0.1", 0), backlog=64)
    t.cleanup(server.close)

    def refuse():
        while True:
            try:
                c, _ = server.accept()
            except OSError:
                return
            attempts.append(time.monotonic())
            c.close()
    threading.Thread(target=refuse, daemon=True).start()
    d = fb.daemon(t, start=False)
    conf = fb.config(d, "BOUNCE_STAGE = bounce\n[pepsi-postgres]\nCONFIG = host=127.0.0.1 port=%d\n" % server.getsockname()[1], "away.conf")
    s = fb.Service(d, conf)
    s.wait("event=database-away")
    pauses = lambda: [b - a for a, b in zip(attempts[:], attempts[1:])]
    pepsi.wait_for("a pause ten times the shortest of the first ones", lambda: len(attempts) > 6 and max(pauses()) > 10 * max(min(pauses()[:6]), 0.05), 60)
    pepsi.check(s.log().count("event=database-away") == 1 and "growing pauses" in s.log(), "it was told more than once: %s" % s.log())
    pepsi.check(s.process.poll() is None, "it ended")
    s.stop(15)


FUNCTIONS = [sentences, how_they_fail, unwanted, operator_in_time, who_notifies, by_way_of_a_route, units, options, database_stays_away]
if __name__ == "__main__":
    pepsi.main(__file__, FUNCTIONS)
