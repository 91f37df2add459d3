"""Stages before acceptance (BEFORE_ACCEPT): what they decide is the SMTP reply, what they change is what is stored, what they break
costs their own messages a 451 and nobody else anything."""
import os
import re
import signal
import socket
import stat
import subprocess
import threading
import time

import pepsi

FILTER = """#!/usr/bin/python3
import json, os, signal, sys, time
text = sys.stdin.buffer.read().decode("latin-1")
def answer(**reply):
    json.dump(reply, sys.stdout)
    sys.exit(0)
if "X-Token: hang" in text:
    time.sleep(600)
if "X-Token: slow" in text:
    time.sleep(1.5)
if "X-Token: crash" in text:
    os.kill(os.getpid(), signal.SIGSEGV)
if "X-Token: refuse" in text:
    answer(action="reject", status="5.6.1", text="not this one, \\u00fcber 100 %")
if "X-Token: later" in text:
    answer(action="defer", seconds=60, text="the scanner sleeps")
if "X-Token: aside" in text:
    answer(action="reroute", stage="aside", remove_headers=["Subject"])
answer(action="accept", add_headers=[{"name": "X-Seen", "value": os.environ["PEPSI_SENDER"] + " " + os.environ["PEPSI_CLIENT_IP"]}])
"""


def daemon(t, before="check", listener="", stages="", pepsi_lines="", check="", lmtp=False):
    """Two listeners: mx with BEFORE_ACCEPT, and one without (d.plain)."""
    d = pepsi.Pepsid(t, "", start=False)
    d.plain, d.lmtp = pepsi.free_port(), pepsi.free_port()
    d.command = os.path.join(d.state, "filter")
    with open(d.command, "w") as f:
        f.write(FILTER)
    os.chmod(d.command, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    d.lines = dict(
        stages="[stage-check]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nSTAGES = aside\nNEXT_STAGE = init\n%s\n" % (d.command, check)
        + "[stage-aside]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/aside/${local}\nBOUNCE_STAGE = bounce\n" % d.mail
        + pepsi.route("init", [("example.test", "maildir")], default="maildir") + pepsi.maildir("maildir", d.mail) + pepsi.bounce(to="maildir") + stages,
        listener="BEFORE_ACCEPT = %s\n%s" % (before, listener),
        pepsi=pepsi_lines,
        more="[listener-plain]\nBIND = 127.0.0.1:%d\n[listener-lmtp]\nPROTOCOL = lmtp\nBIND = 127.0.0.1:%d\nBEFORE_ACCEPT = check\n" % (d.plain, d.lmtp))
    d.write_config(**d.lines)
    d.start()
    return d


def of(d, stage="check"):
    return [b for b in d.status()["ingress"]["before"] if b["stage"] == stage][0]


def ask(d, token, rcpt="bob@example.test", size=0):
    return d.send("alice@example.test", rcpt, pepsi.message(token, size))


def balance(d):
    def holds():
        m = d.metrics()
        ended = sum(v for k, v in m.items() if k in ("pepsi_messages_delivered_total", "pepsi_messages_bounced_total", "pepsi_messages_discarded_total"))
        return m["pepsi_messages_accepted_total"] == ended + sum(v for k, v in m.items() if k.startswith("pepsi_queue_messages"))
    pepsi.wait_for("accepted = delivered + bounced + discarded + in queue", holds, 10)


def verdicts(t):
    d = daemon(t)
    code, text = ask(d, "fine")
    pepsi.check(code == 250 and "queued as" in text, "fine: %d %s" % (code, text))
    mail = pepsi.wait_for("the accepted message", lambda: d.maildir("bob@example.test"), 20)[0]
    pepsi.check(b"X-Seen: alice@example.test 127.0.0.1\r\n" in mail and mail.count(b"Received: from client.example.test") == 1, "stored: %r" % mail)
    pepsi.check(mail.index(b"Received: from client") < mail.index(b"X-Seen:"), "the trace field is not on top: %r" % mail)
    code, text = ask(d, "refuse")
    pepsi.check((code, text) == (550, "5.6.1 not this one, ??ber 100 %"), "refuse: %d %s" % (code, text))
    code, text = ask(d, "later")
    pepsi.check(code == 451 and text.startswith("4.7.1 ") and "filter" not in text, "later: %d %s" % (code, text))
    code, text = ask(d, "crash")  # of the command: the module itself asks for another try
    pepsi.check(code == 451, "crash: %d %s" % (code, text))
    code, text = ask(d, "aside")
    pepsi.check(code == 250, "aside: %d %s" % (code, text))
    folder = os.path.join(d.mail, "aside", "bob", "new")
    pepsi.wait_for("the message put aside", lambda: os.path.isdir(folder) and os.listdir(folder), 20)
    with open(os.path.join(folder, os.listdir(folder)[0]), "rb") as f:
        pepsi.check(b"Subject:" not in f.read(), "the subject is still there")
    # a body in a descriptor, both ways
    code, text = ask(d, "large", size=3000000)
    pepsi.check(code == 250, "large: %d %s" % (code, text))
    mail = pepsi.wait_for("the large message", lambda: [m for m in d.maildir("bob@example.test") if b"X-Token: large" in m], 20)[0]
    pepsi.check(b"X-Seen:" in mail and len(mail) > 2900000, "large: %d octets" % len(mail))
    # the same command in the pipeline is not asked: the other listener goes past it
    s = pepsi.Smtp(d.plain)
    pepsi.check(s.send("alice@example.test", "bob@example.test", pepsi.message("refuse"))[0] == 250, "the other listener asks, too")
    s.close()
    # LMTP: one reply for each recipient
    s = pepsi.Smtp(d.lmtp, ehlo=None)
    pepsi.check(s.cmd("LHLO x")[0] == 250 and s.envelope("alice@example.test", ["bob@example.test", "eve@example.test"])[0] == 354, "lmtp")
    s.raw(pepsi.message("refuse") + b".\r\n")
    got = [s.reply(), s.reply()]
    pepsi.check([g[0] for g in got] == [550, 550] and "not this one" in got[1][1], "lmtp: %s" % got)
    s.close()
    b = of(d)
    pepsi.check((b["passed"], b["rejected"], b["deferred"], b["failed"]) == (3, 2, 2, 0), "status: %s" % b)
    m = d.metrics()
    pepsi.check(m['pepsi_before_accept_verdicts_total{stage="check",verdict="reject"}'] == 2, "metrics")
    pepsi.check(m['pepsi_before_accept_seconds_count{stage="check"}'] == 7 and m['pepsi_smtp_rejected_total{reason="before-accept"}'] == 4, "metrics")
    # and what its module counts
    for end, n in (("accept", 2), ("reroute", 1), ("reject", 2), ("defer", 1), ("signal", 1)):
        d.counts(n, "runs_total", "check", end=end)
    d.counts(7, "run_seconds_count", "check")
    code, out, _ = d.cli("status")
    pepsi.check("before    stage check: passed 3, rejected 2" in out, out)
    with open(d.log) as f:
        log = f.read()
    pepsi.check(re.search(r"event=before-accept before=\d+ stage=check verdict=reject ms=\d+ from=", log), "no log line")
    d.wait_empty(20)
    balance(d)
    d.stop()


def order(t):
    """Several stages in order; discard; a branch that goes down the list, or out of it."""
    modules = os.path.join(t.dir, "modules")
    os.mkdir(modules)
    os.chmod(modules, 0o755)
    so = os.path.join(modules, "pepsi-stage-header-filter.so")
    built = subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-I" + os.path.join(pepsi.SOURCE, "modules", "include"),
                            os.path.join(pepsi.SOURCE, "contrib", "example-stage", "header-filter.c"), "-o", so])
    pepsi.check(built.returncode == 0, "the example stage cannot be built")
    more = ("[stage-tags]\nPROGRAM = pepsi-stage-header-filter\nRULE_1 = X-Token: *tagged* => tag [seen]\n"
            "RULE_2 = X-Token: *exe* => reject no programs by mail, please\n"
            "RULE_3 = X-Token: *aside* => stage aside\nNEXT_STAGE = init\nBOUNCE_STAGE = bounce\n"
            "[stage-sort]\nPROGRAM = pepsi-stage-if\nCONDITION_1 = recipient void@example.test\nTHEN = drop\nELSE = ways\n"
            "[stage-ways]\nPROGRAM = pepsi-stage-route\nROUTE_1 = nobody@example.test bounce\nROUTE_2 = * init\nBOUNCE_STAGE = bounce\n"
            "[stage-drop]\nPROGRAM = pepsi-stage-discard\n")
    d = daemon(t, before="tags sort ways drop", stages=more, pepsi_lines="MODULE_PATH = %s:%s\n"
               % (modules, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")))
    code, text = ask(d, "nothing", "void@example.test")
    pepsi.check(code == 250 and "queued" not in text, "discard: %d %s" % (code, text))
    pepsi.check(of(d, "drop")["discarded"] == 1 and of(d, "ways")["passed"] == 0, "discarded: %s" % d.status()["ingress"]["before"])
    pepsi.check(d.metrics()["pepsi_smtp_messages_accepted_total"] == 0, "a discarded message counts as accepted")
    code, text = ask(d, "exe")
    pepsi.check(code == 550 and "no programs by mail, please" in text, "the example refuses: %d %s" % (code, text))
    code, text = ask(d, "x", "nobody@example.test")
    pepsi.check(code == 550 and text.startswith("5.4.4 "), "a route that leads to the bounce stage: %d %s" % (code, text))
    code, text = ask(d, "x", ["bob@example.test", "nobody@example.test"])  # two ways: two rows, and there are none
    pepsi.check(code == 451 and text.startswith("4.7.1 "), "a fan-out: %d %s" % (code, text))
    pepsi.check(d.metrics()['pepsi_before_accept_failures_total{stage="ways",kind="misuse"}'] == 1, "metrics")
    with open(d.log) as f:
        pepsi.check("no rows can be made of it" in f.read(), "the log does not say what the module did")
    code, text = ask(d, "tagged")
    pepsi.check(code == 250 and "queued as" in text, "tagged: %d %s" % (code, text))
    mail = pepsi.wait_for("the tagged message", lambda: d.maildir("bob@example.test"), 20)
    pepsi.check(b"Subject: [seen]" in mail[0], "tagged: %r" % mail)
    pepsi.check(ask(d, "aside")[0] == 250 and of(d, "sort")["passed"] == 4, "aside leaves the list: %s" % of(d, "sort"))
    pepsi.wait_for("the message put aside", lambda: os.path.isdir(os.path.join(d.mail, "aside", "bob", "new")), 20)
    d.wait_empty(20)
    balance(d)
    d.stop()


def hang(t):
    """A command that hangs costs its own listener time, and a killed worker; the others nothing."""
    d = daemon(t, listener="BEFORE_ACCEPT_TIMEOUT = 3 s\n", check="PARALLELISM = 2\nTIMEOUT = 600 s\n")
    threads, got = [], []
    for i in range(2):
        threads.append(threading.Thread(target=lambda: got.append(ask(d, "hang"))))
        threads[-1].start()
    pepsi.wait_for("both at a worker", lambda: of(d)["busy"] == 2, 10)
    slowest = 0
    for i in range(20):
        at = time.monotonic()
        s = pepsi.Smtp(d.plain)
        pepsi.check(s.send("alice@example.test", "bob@example.test", pepsi.message("p%d" % i))[0] == 250, "the other listener")
        s.close()
        slowest = max(slowest, time.monotonic() - at)
    pepsi.check(of(d)["busy"] == 2 or got, "the hang was over before the others were through: nothing was shown")
    for x in threads:
        x.join(60)
    pepsi.check([g[0] for g in got] == [451, 451], "hang: %s" % got)
    pepsi.wait_for("commands gone", lambda: not [p for p in os.listdir("/proc") if p.isdigit() and d.command in (pepsi.proc_cmdline(int(p)) or "")], 15)
    code, text = ask(d, "fine")
    pepsi.check(code == 250, "after the hang: %d %s" % (code, text))
    pepsi.say("slowest message of the other listener while two hang: %.0f ms" % (slowest * 1000))
    d.stop()


def killed(t):
    """kill -9 of the worker: the policy decides."""
    d = daemon(t)
    for policy, want in (("tempfail", 451), ("reject", 550), ("accept", 250)):
        d.lines["listener"] = "BEFORE_ACCEPT = check\nBEFORE_ACCEPT_FAILURE = %s\n" % policy
        d.write_config(**d.lines)
        pepsi.check(d.cli("reload")[0] == 0, "reload")
        got = []
        x = threading.Thread(target=lambda: got.append(ask(d, "hang")))
        x.start()
        busy = pepsi.wait_for("a busy worker", lambda: of(d)["busy"] == 1 and of(d), 15)
        tree = set(pepsi.proc_tree(d.process.pid))
        for p in busy["pids"]:
            if p in tree:
                os.kill(p, signal.SIGKILL)
        x.join(60)
        pepsi.check(got and got[0][0] == want, "killed with %s: %s" % (policy, got))
    pepsi.check(d.metrics()['pepsi_before_accept_failures_total{stage="check",kind="crash"}'] == 3, "metrics: %s" % of(d))
    mail = pepsi.wait_for("the message that was accepted all the same", lambda: d.maildir("bob@example.test"), 20)
    pepsi.check(len(mail) == 1 and b"X-Seen" not in mail[0], "stored: %r" % mail)
    d.wait_empty(20)
    balance(d)
    d.stop()


def client_gone(t):
    """No 250 was said, so nothing is kept."""
    d = daemon(t, check="PARALLELISM = 1\n")
    for end in ("fin", "rst"):
        s = pepsi.Smtp(d.port)
        pepsi.check(s.envelope("alice@example.test", "bob@example.test")[0] == 354, "DATA")
        s.raw(pepsi.message("slow") + b".\r\n")
        pepsi.wait_for("a busy worker", lambda: of(d)["busy"] == 1, 10)
        if end == "rst":
            s.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.file.close()
        s.sock.close()
        pepsi.wait_for("session gone", lambda: d.status()["ingress"]["sessions"] == 0, 15)
        pepsi.wait_for("the worker is free again", lambda: of(d)["busy"] == 0, 15)
    pepsi.check(d.metrics()["pepsi_before_accept_clients_gone_total"] == 2, "metrics")
    pepsi.check(d.metrics()["pepsi_smtp_messages_accepted_total"] == 0 and not d.maildir("bob@example.test"), "the message was kept")
    # who only closes its side behind QUIT wants to know
    s = pepsi.Smtp(d.port)
    s.envelope("alice@example.test", "bob@example.test")
    s.raw(pepsi.message("slow") + b".\r\nQUIT\r\n")
    s.sock.shutdown(socket.SHUT_WR)
    pepsi.check(s.reply()[0] == 250, "half closed")
    pepsi.wait_for("its message", lambda: d.maildir("bob@example.test"), 20)
    d.stop()


def crowd(t):
    """50 sessions at once through two workers; a queue that is full is the policy's business."""
    d = daemon(t, listener="BEFORE_ACCEPT_TIMEOUT = 60 s\n", check="PARALLELISM = 2\n")
    got, lock = [], threading.Lock()

    def one(i):
        token = ("refuse-%d" if i % 5 == 0 else "ok-%d") % i
        r = ask(d, token)
        with lock:
            got.append((i, r[0]))
    threads = [threading.Thread(target=one, args=(i,)) for i in range(50)]
    for x in threads:
        x.start()
    for x in threads:
        x.join(120)
    pepsi.check(len(got) == 50 and all(c == (550 if i % 5 == 0 else 250) for i, c in got), "replies: %s" % got)
    pepsi.wait_for("40 messages", lambda: len(d.maildir("bob@example.test")) == 40, 30)
    pepsi.check(all(b"X-Seen" in m for m in d.maildir("bob@example.test")), "one was not changed")
    pepsi.check(len(of(d)["pids"]) <= 2, "more workers than PARALLELISM: %s" % of(d))
    d.lines["stages"] = d.lines["stages"].replace("PARALLELISM = 2", "PARALLELISM = 1\nQUEUE_LIMIT = 1")
    d.write_config(**d.lines)
    pepsi.check(d.cli("reload")[0] == 0, "reload")
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(ask(d, "slow")[0])) for i in range(6)]
    for x in threads:
        x.start()
    for x in threads:
        x.join(60)
    pepsi.check(set(codes) == {250, 451} and codes.count(250) >= 1, "a full queue: %s" % codes)
    pepsi.check(d.metrics()['pepsi_before_accept_failures_total{stage="check",kind="overload"}'] == codes.count(451), "overload")
    d.wait_empty(30)
    balance(d)
    d.stop()


def configuration(t):
    """Faults with file and line; a module that cannot start."""
    d = daemon(t)
    d.stop()

    def faults(listener, stages=""):
        d.write_config(**dict(d.lines, listener=listener, stages=d.lines["stages"] + stages))
        code, out, err = d.cli("config", "check")
        return code, out + err
    code, text = faults("BEFORE_ACCEPT = chek\n")
    pepsi.check(code and re.search(r"pepsi\.conf:\d+:.*there is no \[stage-chek\]; did you mean check", text), text)
    code, text = faults("BEFORE_ACCEPT = check maildir\n")
    pepsi.check(code and re.search(r"pepsi\.conf:\d+:.*\[stage-maildir\] runs pepsi-stage-relay-to-maildir, which delivers", text), text)
    code, text = faults("BEFORE_ACCEPT = bounce\n")
    pepsi.check(code and "makes bounces" in text, text)
    code, text = faults("BEFORE_ACCEPT = check Check\n")
    pepsi.check(code and "twice" in text, text)
    code, text = faults("BEFORE_ACCEPT_TIMEOUT = 5 s\n")
    pepsi.check("has no effect without BEFORE_ACCEPT" in text, text)
    os.chmod(d.command, 0o600)  # open() of the module fails
    d.write_config(**d.lines)
    d.start()
    code, text = ask(d, "fine")
    pepsi.check(code == 451, "no worker: %d %s" % (code, text))
    pepsi.check(d.metrics()['pepsi_before_accept_failures_total{stage="check",kind="no-worker"}'] == 1, "metrics: %s" % of(d))
    d.stop()


pepsi.main(__file__, [verdicts, order, hang, killed, client_gone, crowd, configuration])
