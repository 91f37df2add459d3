"""Modules that misbehave (test/stages): one that crashes, hangs, prints to its standard output, leaks descriptors, ends
its process, takes two decisions or none, or cannot be loaded, harms nothing but its own pass: the daemon, the other
stages' workers and every other message go on, and the message it was about is kept for the operator."""
import os
import signal
import subprocess
import time

import pepsi

STAGES = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def daemon(t, bad, more="", stage=""):
    """far.test goes to a next hop, bad.test through the module in question and then to the same next hop."""
    # under a sanitizer a crash is to be the signal it would be without
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0"
    if not os.path.exists(os.path.join(STAGES, bad + ".so")):
        raise pepsi.Failed("%s.so was not built in %s" % (bad, STAGES))
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.route("init", [("bad.test", "bad")], "relay") + pepsi.smarthost("relay", sink.port)
                     + "[stage-bad]\nPROGRAM = %s\nDEPTH = 1\nNEXT_STAGE = relay\nBOUNCE_STAGE = bounce\n%s\n" % (bad, stage) + pepsi.bounce(),
                     pepsi="MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")), more=more)
    return sink, d


def others_flow(d, sink, load, n=100):
    before = load.count()
    pepsi.wait_for("other mail is accepted", lambda: load.count() > before + n or None, 30)
    acked = load.stop()
    pepsi.wait_for("other mail is delivered", lambda: not set(acked) - set(sink.tokens()), 30)


def stays_as(d, ident, status, seconds=60):
    row = pepsi.wait_for("message %s ends %s" % (ident, status),
                         lambda: [r for r in d.queue("--status", status) if str(r["id"]) == ident], seconds, 0.2)[0]
    code, out, err = d.cli("queue", "show", ident)
    pepsi.check(code == 0, err)
    return row, out


def crashing(t):
    """Three crashes: failed, with the signal in the reason. Nobody else waits."""
    sink, d = daemon(t, "pepsi-stage-bad-crash")
    reactor = d.reactor_pid()
    load = pepsi.Load(d, 4, pause=0.005)
    idents = [d.accept("sender@example.test", "x@bad.test", pepsi.message("bad%d" % i)) for i in range(3)]
    for ident in idents:
        row, out = stays_as(d, ident, "failed")
        pepsi.check("signal" in out.lower() or "segmentation" in out.lower(), "queue show does not tell of the crash:\n%s" % out)
        report = d.json("queue", "show", ident)["state"]["dispatch_error"]["report"]
        pepsi.check((report["stage"], report["program"], report["version"]) == ("bad", "pepsi-stage-bad-crash", "1.2"), "the report: %s" % report)
        if not pepsi.SANITIZED:
            pepsi.check(report["signal"] == 11 and any("pepsi-stage-bad-crash.so" in f for f in report["backtrace"]), "no backtrace: %s" % report)
    others_flow(d, sink, load)
    pepsi.check(d.reactor_pid() == reactor, "the reactor was replaced")
    # the first may happen in a worker of init, in a fused pass; then that stage is left to its own workers
    crashes = sum(g["crashes"] for g in d.status()["stages"])
    pepsi.check(crashes >= 9, "%d crashes were counted" % crashes)
    pepsi.check(next(g for g in d.status()["stages"] if g["name"] == "init")["crashes"] <= 4, "others' workers died of it again and again")
    pepsi.check(not any(tok.startswith("bad") for tok in sink.tokens()), "it was delivered all the same")
    # an operator moves them past the module
    code, out, err = d.cli("queue", "set-stage", "relay", *idents)
    pepsi.check(code == 0, "set-stage: %s" % err)
    pepsi.wait_for("delivered past the module", lambda: {"bad0", "bad1", "bad2"} <= set(sink.tokens()), 15)
    d.wait_empty(10)
    d.stop()


def exiting(t):
    """exit(0) in mid-message is a crash, not a success."""
    sink, d = daemon(t, "pepsi-stage-bad-exit")
    ident = d.accept("sender@example.test", "x@bad.test", pepsi.message("exit"))
    stays_as(d, ident, "failed")
    d.accept("sender@example.test", "x@far.test", pepsi.message("other"))
    pepsi.wait_for("other mail", lambda: "other" in sink.tokens(), 10)
    pepsi.check("exit" not in sink.tokens(), "it was delivered all the same")
    d.stop()


def hanging(t):
    """Killed at MAX_RUNTIME, three times: timeout."""
    sink, d = daemon(t, "pepsi-stage-bad-hang", stage="MAX_RUNTIME = 1 s\n")
    load = pepsi.Load(d, 4, pause=0.005)
    ident = d.accept("sender@example.test", "x@bad.test", pepsi.message("hang"))
    row, out = stays_as(d, ident, "timeout")
    pepsi.check("runtime" in out.lower(), "queue show does not tell of MAX_RUNTIME:\n%s" % out)
    others_flow(d, sink, load)
    d.stop()


def talking(t):
    """What it prints, even a forged status line, reaches nobody as a status."""
    sink, d = daemon(t, "pepsi-stage-bad-stdout")
    for i in range(5):
        d.accept("sender@example.test", "x@bad.test", pepsi.message("out%d" % i))
    pepsi.wait_for("delivered through the module", lambda: {"out%d" % i for i in range(5)} <= set(sink.tokens()), 20)
    d.wait_empty(10)
    s = d.status()
    pepsi.check(len(sink.messages) == 5 and s["delivered"] == 5, "delivered %d, booked %d" % (len(sink.messages), s["delivered"]))
    pepsi.check(next(g for g in s["stages"] if g["name"] == "bad")["crashes"] == 0, "a worker died of it")
    d.stop()


def leaking(t):
    """Descriptors run out in its own worker; what it cannot do is tried again, and everybody else has theirs."""
    sink, d = daemon(t, "pepsi-stage-bad-leak", stage="MAX_MESSAGES = 30\nPARALLELISM = 1\n")
    reactor = d.reactor_pid()
    fds = len(os.listdir("/proc/%d/fd" % reactor))
    n = 100
    for i in range(n):
        d.accept("sender@example.test", "x@bad.test", pepsi.message("leak%d" % i))
    pepsi.wait_for("all delivered through the module", lambda: len(set(sink.tokens())) == n, 60)
    d.wait_empty(15)
    now = len(os.listdir("/proc/%d/fd" % d.reactor_pid()))
    pepsi.check(d.reactor_pid() == reactor and now <= fds + 15, "the reactor's descriptors: %d, then %d" % (fds, now))
    d.stop()


def staying(t):
    """close() never returns: a worker gets MAX_MESSAGES and not one more, its successor comes beside it at once, and processes stay
    bounded. Without that each pair of workers would cost the stage the 15 s until they are killed."""
    messages, limit, workers = 150, 10, 2
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-bad-wild\nDEPTH = 1\nPARALLELISM = %d\nMAX_MESSAGES = %d\n\n" % (workers, limit) + pepsi.bounce(),
                     pepsi="MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")))
    s, most, began = pepsi.Smtp(d.port), 0, time.monotonic()
    for i in range(messages):
        code, text = s.send("sender@example.test", "x@far.test", pepsi.message("m%d" % i))
        pepsi.check(code == 250, "%d %s" % (code, text))
        if i % 5 == 0:
            most = max(most, next(g for g in d.status()["stages"] if g["name"] == "init")["workers"])
    s.close()
    d.wait_empty(60)
    took = time.monotonic() - began
    stage = next(g for g in d.status()["stages"] if g["name"] == "init")
    pepsi.say("      %d messages by workers that stay after %d each: %.1f s, %d processes at most" % (messages, limit, took, most))
    pepsi.check(most <= 2 * workers, "%d processes for a PARALLELISM of %d" % (most, workers))
    pepsi.check(stage["done"] == messages and stage["crashes"] == 0, "%s" % stage)
    # 15 workers' worth; four stand without harm, each two that follow wait 2 s
    pepsi.check(took < 12 + 3 * pepsi.SLACK, "the stage stands still: %.1f s" % took)
    for pid in d.worker_pids("init"):  # or the stop waits for them
        os.kill(pid, signal.SIGKILL)
    d.stop()


def undecided(t):
    """No terminal, or two: the pass fails with a reason; the message is not lost."""
    for bad in ("none", "two-terminals"):
        sink, d = daemon(t, "pepsi-stage-bad-" + bad)
        ident = d.accept("sender@example.test", "x@bad.test", pepsi.message("m"))
        row = pepsi.wait_for("%s: kept with a reason" % bad, lambda: [r for r in d.queue() if str(r["id"]) == ident and r.get("last_error")], 20, 0.2)[0]
        pepsi.check("terminal" in row["last_error"].lower() or "decision" in row["last_error"].lower(), "%s: reason: %s" % (bad, row["last_error"]))
        d.accept("sender@example.test", "x@far.test", pepsi.message("other"))
        pepsi.wait_for("other mail", lambda: "other" in sink.tokens(), 10)
        d.stop()


def unloadable(t):
    """Wrong major version, wrong name, no descriptor, a constructor that crashes: refused when the configuration is
    checked, with the reason; the daemon does not start half-way."""
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0"
    for bad, words in (("major", ["version", "abi"]), ("wrong-name", ["name"]), ("no-symbol", ["pepsi_stage_descriptor", "no stage"]),
                       ("ctor-crash", ["signal", "crash", "died"]), ("no-process", ["process"])):
        path = os.path.join(t.dir, bad + ".conf")
        with open(path, "w") as f:
            f.write("[pepsi]\nHOSTNAME = mx.example.test\nMODULE_PATH = %s\nSTATE_DIR = %s/none\n[listener-mx]\nBIND = 127.0.0.1:%d\nPROTOCOL = smtp\n"
                    "[stage-init]\nPROGRAM = pepsi-stage-bad-%s\nDEPTH = 1\n" % (STAGES, t.dir, pepsi.free_port(), bad))
        os.chmod(path, 0o644)
        for program, args in (("pepsi", ["config", "check"]), ("pepsid", [])):
            r = subprocess.run([os.path.join(pepsi.BIN, program), "-c", path] + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                               env=dict(os.environ, **t.environment))
            text = r.stdout.decode(errors="replace")
            pepsi.check(r.returncode == 1, "%s: %s exits with %d: %s" % (bad, program, r.returncode, text))
            pepsi.check("pepsi-stage-bad-" + bad in text and any(w in text.lower() for w in words), "%s: %s says: %s" % (bad, program, text))


pepsi.main(__file__, [crashing, exiting, hanging, talking, leaking, staying, undecided, unloadable])
