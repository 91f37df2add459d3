"""Who did it: a worker with a crowd of messages before it dies, or hangs, over one of them. The page that it shares with the
dispatcher names that one: it alone is counted and reported, the others pass with a clean record; and in a fused pass the report
names the stage and module in the chain that was running."""
import os
import signal

import pepsi

BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
CROWD = 6


def daemon(t, first, more=""):
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-bad-wild.so")):
        raise pepsi.Skip("test/stages was not built")
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0:handle_abort=0"
    sink = pepsi.Sink(t)
    wild = "PROGRAM = pepsi-stage-bad-wild\nDEPTH = 1\nNEXT_STAGE = out\nPARALLELISM = 1\nQUEUE_LIMIT = 100\nMAX_RUNTIME = 2 s\n"
    stages = ("[stage-init]\n" + wild if first == "init" else
              "[stage-init]\nPROGRAM = pepsi-stage-step-headers\nNEXT_STAGE = wild\nPARALLELISM = 1\nQUEUE_LIMIT = 100\nMAX_RUNTIME = 2 s\n\n[stage-wild]\n" + wild)
    # the next hop is no part of this: it has its own workers
    stages += "\n" + pepsi.smarthost("out", sink.port, "ALLOW_FUSION = NO\nPARALLELISM = 1\n") + pepsi.bounce()
    return sink, pepsi.Pepsid(t, stages, pepsi="MODULE_PATH = %s:%s\n" % (BUILT, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")), more=more)


def play(t, how, end, fused):
    sink, d = daemon(t, "wild" if fused else "init")
    s = pepsi.Smtp(d.port)

    def send(token, sender="sender@example.test"):
        code, text = s.send(sender, "rcpt@far.test", pepsi.message(token))
        pepsi.check(code == 250, "%d %s" % (code, text))
        return text.split("queued as ")[1].split()[0]
    # Until the stage is known to be fast, a worker gets few messages ahead: 40 ms of work (core/dispatch/dispatch_internal.h). The
    # whole crowd is dealt at once when a message takes less than 5 ms; a busy machine needs a while to get there.
    def fast():
        load = pepsi.Load(d, 4)
        pepsi.wait_for("mail flows", lambda: load.count() > 60, 60)
        load.stop()
        d.wait_empty(60)
        return 0 < [g for g in d.status()["stages"] if g["name"] == "init"][0]["mean_ms"] < 5
    pepsi.wait_for("the stage is fast", fast, 60, 0)

    def gather():
        """The worker stands still while a crowd is dealt to it, an evil one in the midst; then it goes on."""
        pids = d.worker_pids("init")
        pepsi.check(len(pids) == 1, "%d workers of init" % len(pids))
        os.kill(pids[0], signal.SIGSTOP)
        try:
            good = [send("a%d" % i) for i in range(CROWD // 2)]
            evil = send("evil", "%s@example.test" % how)
            good += [send("b%d" % i) for i in range(CROWD // 2)]
        finally:
            os.kill(pids[0], signal.SIGCONT)
        return good, evil
    good, evil = gather()
    s.close()
    tokens = ["a%d" % i for i in range(CROWD // 2)] + ["b%d" % i for i in range(CROWD // 2)]
    pepsi.wait_for("the others arrive", lambda: not set(tokens) - set(sink.tokens()), 40)
    row = pepsi.wait_for("the evil one is at rest", lambda: [r for r in d.queue() if r["status"] == end], 40, 0.2)[0]
    pepsi.check(str(row["id"]) == evil, "at rest: %s" % row)
    got = [x for x in sink.tokens() if x in tokens]
    pepsi.check(len(got) == len(tokens), "%d deliveries of %d messages" % (len(got), len(tokens)))

    stages = {g["name"]: g for g in d.status()["stages"]}
    where = [g for n, g in stages.items() if n in ("init", "wild")]
    died = sum(g["crashes"] for g in where) + sum(g["overruns"] for g in where)
    named, separated = sum(g["named"] for g in where), sum(g["separated"] for g in where)
    with open(d.log, errors="replace") as f:
        culprits = [line for line in f if "event=culprit" in line]
    pepsi.check(died == 3, "%d workers died of one message" % died)
    pepsi.check(separated == 0, "%d innocent messages had to travel alone" % separated)
    pepsi.check(named == 1, "named %d times; once, since from then on it travels alone" % named)
    pepsi.check(len(culprits) == 3 and all("id=%s " % evil in c for c in culprits), "culprits: %s" % culprits)
    pepsi.check("found=page" in culprits[0] and all("found=alone" in c for c in culprits[1:]), "culprits: %s" % culprits)
    held = int(culprits[0].split("innocent=")[1].split()[0])
    pepsi.check(held > 0, "there was no crowd")
    metrics = d.metrics()
    pepsi.check(sum(v for k, v in metrics.items() if k.startswith("pepsi_stage_culprits_named_total")) == 1, "/metrics tells of no culprit")

    error = d.json("queue", "show", evil)["state"]["dispatch_error"]
    report = error["report"]
    pepsi.check(error["kind"] == ("overrun" if end == "timeout" else "crash") and error["crashes" if end == "failed" else "overruns"] == 3, "%s" % error)
    pepsi.check(report["program"] == "pepsi-stage-bad-wild" and report["found"] == "alone" and report["held"] == 1, "%s" % report)
    if fused:
        pepsi.check("in=wild" in culprits[0], "the stage of the chain is not named: %s" % culprits[0])
    code, out, err = d.cli("queue", "show", evil)
    pepsi.check(code == 0 and out.startswith("culprit") and "alone with its worker" in out and "pepsi-stage-bad-wild" in out and ("MAX_RUNTIME" in out if end == "timeout" else "signal 6" in out), "queue show:\n%s%s" % (out, err))
    pepsi.say("      %s%s: the one of %d that did it was named, %d innocent ones passed uncounted" % (how, ", fused" if fused else "", held + 1, held))
    d.cli("queue", "delete", evil)
    for pid in d.worker_pids("init") + (d.worker_pids("wild") if fused else []):
        os.kill(pid, signal.SIGKILL)  # close() of this module never returns
    d.stop()


def crash_in_a_crowd(t):
    play(t, "abort", "failed", False)


def hang_in_a_crowd(t):
    play(t, "stop", "timeout", False)


def crash_in_a_fused_pass(t):
    play(t, "abort", "failed", True)


pepsi.main(__file__, [crash_in_a_crowd, hang_in_a_crowd, crash_in_a_fused_pass])
