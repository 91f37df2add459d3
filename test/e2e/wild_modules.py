"""A module that does its worst while the mail of others passes through the same stage: abort, endless loop, stop, exit
with every status, 4 GiB of memory, a fork bomb, an heir that holds all descriptors, garbage on each of them, closing
them, killing whoever it can. It costs its own message its pass, and nobody else anything: reactor and spawner live,
every other message goes its way, the evil one ends as failed (timeout, where it hung), and no process stays behind."""
import os
import signal
import threading
import time

import pepsi

# how → the statuses the message may end in; None: it passes in the end, or is tried again, but must do no harm. On a machine
# that is slow to make two hundred processes, or to bury them, MAX_RUNTIME comes first.
FATAL = {"abort": "failed", "loop": "timeout", "stop": "timeout", "exit0": "failed", "exit3": "failed", "big": "failed", "bomb": "failed timeout",
         "heir": "failed", "garbage": "failed", "close": "failed", "parent": "failed", "stack": "failed", "thread": None, "quick3": "failed"}


def modules():
    built = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
    if not os.path.exists(os.path.join(built, "pepsi-stage-bad-wild.so")):
        raise pepsi.Skip("test/stages was not built")
    return os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules") + ":" + built


def strangers(module, daemon):
    """Processes of this daemon, whose command line they have, with the module of this very build mapped; e2e/modules uses it at the same time."""
    module = os.path.join(os.path.realpath(os.path.dirname(pepsi.BIN)), "test", "stages", module)
    out = []
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/maps" % d) as f:
                    if module in f.read() and daemon.state in pepsi.proc_cmdline(int(d)):
                        out.append(int(d))
            except OSError:
                pass
    return out


def harm_nobody_else(t):
    path = modules()
    mine = os.path.join(path.split(":")[1], "pepsi-stage-bad-wild.so")  # of this build: others may be tested at the same time
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0"  # a crash on purpose is to be the signal it would be without
    sink = pepsi.Sink(t)
    stages = ("[stage-init]\nPROGRAM = pepsi-stage-bad-wild\nDEPTH = 1\nNEXT_STAGE = out\nPARALLELISM = 3\nMAX_RUNTIME = 2 s\n\n"
              + pepsi.smarthost("out", sink.port) + pepsi.bounce())
    d = pepsi.Pepsid(t, stages, pepsi="MODULE_PATH = %s\n" % path, more="[pepsi-dispatch]\nWORKER_IDLE_TIMEOUT = 3 s\nLAUNCH_COOLDOWN = 1 s\n")
    spawner, reactor = d.spawner_pid(), d.reactor_pid()
    for how, end in FATAL.items():
        if how == "big" and pepsi.SANITIZED:
            continue  # sanitizers cannot live under a limit of addresses
        before = time.monotonic()
        good = ["%s-%d" % (how, i) for i in range(6)]
        for token in good[:3]:
            d.accept("sender@example.test", "rcpt@far.test", pepsi.message(token))
        evil = d.accept("%s@example.test" % how, "rcpt@far.test", pepsi.message("evil-" + how))
        for token in good[3:]:
            d.accept("sender@example.test", "rcpt@far.test", pepsi.message(token))
        pepsi.wait_for("%s: the mail of others" % how, lambda: not set(good) - set(sink.tokens()), 40, 0.1)
        pepsi.check(d.running() and d.reactor_pid() == reactor and d.spawner_pid() == spawner, "%s: took the reactor or the spawner along" % how)

        def row():
            rows = [r for r in d.json("queue", "list") if r["id"] == int(evil)]
            return rows[0] if rows else None
        if end:
            # who closes everything has not failed yet: over a new connection what it decided may be committed before it is killed (see below)
            passed = lambda: how == "close" and "evil-close" in sink.tokens() and {"status": "failed", "passed": True}
            r = pepsi.wait_for("%s: the evil message at rest" % how, lambda: passed() or (row() or {}).get("status") in ("failed", "timeout") and row(), 40, 0.2)
            if "passed" not in r:
                pepsi.check(r["status"] in end.split(), "%s: ended as %s: %s" % (how, r["status"], r["last_error"]))
                pepsi.check("evil-" + how not in sink.tokens(), "%s: it was delivered" % how)
        if row():
            d.cli("queue", "delete", evil)
        pepsi.say("      %-8s %.1f s, %s" % (how, time.monotonic() - before, r["status"] if end else "no harm"))
    for token in set(sink.tokens()):
        pepsi.check(sink.tokens().count(token) == 1, "%s arrived %d times" % (token, sink.tokens().count(token)))
    # close() of the module never returns: idle workers must go all the same
    pepsi.wait_for("no worker left, nor what it forked", lambda: not strangers(mine, d), 40, 0.2)
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("after"))
    pepsi.wait_for("mail after all that", lambda: "after" in sink.tokens(), 20)
    d.stop()
    left = strangers(mine, d)
    pepsi.check(not left, "processes of the module survived the daemon: %s" % [(p, pepsi.proc_cmdline(p)) for p in left])


def commits_before_it_dies(t):
    """Closed descriptors, and a reactor too slow to kill at once: the worker commits over a new connection, then cannot answer.
    Nobody is to blame then; the message has moved on and leaves at once, one time, not when somebody looks at that stage again."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-bad-wild\nDEPTH = 1\nNEXT_STAGE = out\n\n" + pepsi.smarthost("out", sink.port)
                     + pepsi.bounce(), pepsi="MODULE_PATH = %s\n" % modules())
    reactor, over, unblamed = d.reactor_pid(), threading.Event(), 0

    def slow():
        while not over.wait(0.03):
            os.kill(reactor, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(reactor, signal.SIGCONT)
    thread = threading.Thread(target=slow)
    thread.start()
    try:
        for i in range(6):
            token = "late-%d" % i
            evil = int(d.accept("close@example.test", "rcpt@far.test", pepsi.message(token)))
            rest = lambda: token in sink.tokens() or [r for r in d.json("queue", "list") if r["id"] == evil and r["status"] == "failed"]
            pepsi.wait_for("%s: delivered, or blamed and failed" % token, rest, 20, 0.2)
    finally:
        over.set()
        thread.join()
    with open(d.log) as f:
        unblamed = f.read().count("event=not-to-blame")
    for token in set(sink.tokens()):
        pepsi.check(sink.tokens().count(token) == 1, "%s arrived %d times" % (token, sink.tokens().count(token)))
    pepsi.say("      %d of 6 delivered, %d times nobody was to blame" % (len(sink.tokens()), unblamed))
    pepsi.check(unblamed, "no pass was committed before the worker died: this test showed nothing")
    d.stop()


def speak_for_the_host(t):
    """Lines, floods, descriptors and rubbish on the worker's channel, before it is ready and with a message in hand: it costs that worker; the reactor goes on, and
    so does the mail of others."""
    early = "acwxyz"
    stages = pepsi.route("init", [("%s.test" % c, "evil-" + c) for c in "n" + early], default="ok")
    for c in "n" + early:
        stages += "[stage-evil-%s]\nPROGRAM = pepsi-stage-wire\nEARLY = %s\nMAX_RUNTIME = 20 s\nPARALLELISM = 2\n\n" % (c, c)
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(stages + pepsi.maildir("ok", d.mail) + pepsi.bounce(), pepsi="MODULE_PATH = %s\nALLOW_FUSION = NO\n" % modules(),
                   more="[pepsi-dispatch]\nLAUNCH_COOLDOWN = 1 s\n")
    d.start()
    reactor, n = d.reactor_pid(), 0
    for local, domain in [(c, "n") for c in "abcdefghijklmvwxyz"] + [("n", c) for c in early]:
        d.accept("sender@example.test", "%s@%s.test" % (local, domain), pepsi.message("evil-%d" % n))
        n += 1
        d.accept("sender@example.test", "good@home.test", pepsi.message("good-%d" % n))
        pepsi.wait_for("the mail of others beside %s at %s" % (local, domain), lambda: len(d.maildir("good@home.test")) == n, 40, 0.1)
        pepsi.check(d.running() and d.reactor_pid() == reactor and d.status()["healthy"], "%s at %s: took the reactor along" % (local, domain))
    d.cli("queue", "delete", "--all")
    d.stop()


pepsi.main(__file__, [harm_nobody_else, commits_before_it_dies, speak_for_the_host])
