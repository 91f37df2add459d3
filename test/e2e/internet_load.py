"""Mail for many destinations, most of them slow or dead: those that are well get theirs as if the others were not there. The exchangers are many_hosts.c,
the DNS is nsd, the rest is real: admission, database, one worker of relay-to-internet.

Each is done twice: with the messages for the quick third alone, then with those for the others among them, which answer each command after ten seconds,
or do not answer at all (30 s until a connection times out).
    steady   messages come at a pace, each at its moment; what is compared is the time until the last for a quick host is there
    at_once  all are accepted first (HOLDUNTIL) and due in the same second: the quick third has to get past twice as many rows for the others. Of each
             destination one goes first; the others follow when that was answered, a few more of them each time it is not. So most are never touched
As it is: 60 destinations, 1,200 messages, or 3,000 at once. All of it: PEPSI_INTERNET_LOAD="1000 20000 250" (destinations, messages, a second), PEPSI_TIME_LIMIT=3600."""
import json
import os
import subprocess
import threading
import time

import authority
import pepsi
import proc

WHOLE = os.environ.get("PEPSI_INTERNET_LOAD")
DESTINATIONS, MESSAGES, PACE = (int(x) for x in (WHOLE or "60 1200 60").split())
FAST_MS, SLOW_MS = 20, 10000
SLOTS = int(os.environ.get("PEPSI_INTERNET_SLOTS", max(1000, 3 * DESTINATIONS)))  # as doc/shaping.md advises
BOUND = 1.3
# Of the messages for slow and dead hosts so many are made due and handed to the worker, at most, while the quick ones are delivered. In a small crowd much of
# the time goes into learning who is well: the ratio of the times tells nothing there, how often does.
MOVED_MOST = 0.5
HOSTS = os.path.join(os.path.dirname(pepsi.BIN), "test", "many_hosts")


class Hosts:
    def __init__(self, t):
        if not os.path.exists(HOSTS):
            raise pepsi.Skip("many_hosts was not built")
        self.port, self.fast, self.slow = pepsi.free_port(), DESTINATIONS // 3, DESTINATIONS // 3
        self.dead = DESTINATIONS - self.fast - self.slow
        self.p = subprocess.Popen([HOSTS] + [str(x) for x in (self.port, self.fast, self.slow, self.dead, FAST_MS, SLOW_MS)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, preexec_fn=pepsi.die_with_me)
        t.cleanup(self.end)
        pepsi.check(self.p.stdout.readline() == "ready\n", "many_hosts does not listen")

    def end(self):
        self.p.stdin.close()
        self.p.wait(10)

    def seen(self):
        self.p.stdin.write("?\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())


def zone():
    lines = []
    for i in range(DESTINATIONS):
        lines.append("d%d IN MX 10 mx%d\nmx%d IN A 127.30.%d.%d\n" % (i, i, i, i // 250, i % 250 + 1))
    return "".join(lines)


class Watch:
    """The worker, once in a while: memory (PSS), sockets; and all processes of the daemon."""

    def __init__(self, d):
        self.d, self.over, self.pss, self.sockets, self.processes, self.workers, self.total = d, threading.Event(), 0, 0, 0, 0, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @staticmethod
    def pss_of(pid):
        with open("/proc/%d/smaps_rollup" % pid) as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))

    def cpu(self):
        """Seconds, by kind of process."""
        out = {}
        for pid in proc.proc_tree(self.d.process.pid):
            try:
                with open("/proc/%d/stat" % pid) as f:
                    fields = f.read().rsplit(")", 1)[1].split()
                kind = "database" if "postgres" in proc.proc_exe(pid) else "worker" if pid in self.d.worker_pids("init") else "reactor and others"
                out[kind] = out.get(kind, 0) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            except (OSError, IndexError):
                pass
        return out

    def look(self):
        tree = proc.proc_tree(self.d.process.pid)
        workers = self.d.worker_pids("init")
        self.processes, self.workers = max(self.processes, len(tree)), max(self.workers, len(workers))
        for pid in workers:
            self.pss = max(self.pss, self.pss_of(pid))
            fds = [os.readlink("/proc/%d/fd/%s" % (pid, n)) for n in os.listdir("/proc/%d/fd" % pid)]
            self.sockets = max(self.sockets, sum(x.startswith("socket:") for x in fds))
        self.total = max(self.total, sum(self.pss_of(p) for p in tree if "postgres" not in proc.proc_exe(p)))

    def run(self):
        while not self.over.wait(1):
            try:
                self.look()
            except (OSError, StopIteration):
                pass

    def stop(self):
        self.over.set()
        self.thread.join(10)


def transaction(s, params, to, number):
    s.sock.sendall(b"MAIL FROM:<me@sender.test>%s\r\nRCPT TO:<x@d%d.load.test>\r\nDATA\r\n" % (params.encode(), to))
    for want in (250, 250, 354):
        code, text = s.reply()
        if code != want:
            return code, text
    s.sock.sendall(pepsi.message("t%d" % number, sender="me@sender.test") + b".\r\n")
    return s.reply()


def send(d, to, params="", pace=None):
    """A message for each of these destinations (None: none, but its moment passes)."""
    began, lines, lock, failed = time.time(), iter(enumerate(to)), threading.Lock(), []

    def run():
        try:
            s = pepsi.Smtp(d.port, timeout=120)
            while True:
                with lock:
                    number, i = next(lines, (None, None))
                if number is None:
                    break
                if pace:
                    time.sleep(max(0, began + number / pace - time.time()))
                code, text = transaction(s, params, i, number) if i is not None else (250, "")
                if code != 250:
                    raise pepsi.Failed("%d %s" % (code, text))
            s.close()
        except Exception as e:
            failed.append(e)
    threads = [threading.Thread(target=run, daemon=True) for _ in range(8)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    if failed:
        raise failed[0]


def waits(d, hosts):
    """How often messages were given back: for quick hosts, for others, and why."""
    quick, others, why = 0, 0, {}
    with open(d.log, errors="replace") as f:
        for line in f:
            if " waits domain=d" in line:
                of = int(line.split("domain=d")[1].split(".")[0])
                quick, others = quick + (of < hosts.fast), others + (of >= hosts.fast)
                w = line.split("why=")[1].split()[0]
                why[w] = why.get(w, 0) + 1
    return quick, others, " ".join("%s %d" % x for x in sorted(why.items()))


class Run:
    """One daemon, one crowd of hosts, nothing known of them."""

    def __init__(self, t, slots=SLOTS):
        self.hosts = hosts = Hosts(t)
        dns = authority.start(t, {"load.test": zone(), "sender.test": "@ IN MX 10 mx\nmx IN A 127.30.0.1\n"})
        stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nFAMILY = ipv4\nDANE = NO\nMTA_STS = NO\n"
                 "PARALLELISM = 1\nQUEUE_LIMIT = %d\nMAX_MESSAGES = 10000000\nMAX_RUNTIME = 30 min\nBOUNCE_STAGE = bounce\n" % (hosts.port, slots))
        self.d = pepsi.Pepsid(t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n[pepsi-dispatch]\nWORKER_IDLE_TIMEOUT = 1 h\n" % dns)
        # the first message tells the dispatcher what kind of module that is
        self.d.accept("me@sender.test", ["x@d0.load.test"], pepsi.message("warm"))
        pepsi.wait_for("the first message", lambda: hosts.seen()["fast"]["messages"] == 1, 30)
        self.watch = Watch(self.d)

    def end(self, what, to, began):
        """Seconds until the last for a quick host was there, and how often others were given back."""
        d, hosts, watch = self.d, self.hosts, self.watch
        fast = sum(i is not None and i < hosts.fast for i in to)
        others = sum(i is not None and i >= hosts.fast for i in to)
        time.sleep(max(0, began - time.time()))
        idle = watch.cpu()
        pepsi.wait_for("%d messages at quick hosts" % fast, lambda: hosts.seen()["fast"]["messages"] > fast, 600, 0.2)
        seen, cpu, counts = hosts.seen(), watch.cpu(), d.status()["dispatch"]
        watch.stop()
        took = seen["fast"]["last"] - began
        stage = [g for g in d.status()["stages"] if g["name"] == "init"][0]
        quick_back, others_back, why = waits(d, hosts)
        self.moved = counts["requeued"] - fast  # what was made due more than once counts each time
        pepsi.say("      %s: %d messages for quick hosts in %.2f s, %d for others beside them; given back %d and %d times (%s), put off %d times; "
                  "%d statements claimed, %d times rows were made due"
                  % (what, fast, took, others, quick_back, others_back, why, counts["put_off"], counts["claims"], counts["requeued"]))
        pepsi.say("        connections: %d to quick, %d to slow hosts, at most %d and %d at once; processor: %s"
                  % (seen["fast"]["connections"], seen["slow"]["connections"], seen["fast"]["open_most"], seen["slow"]["open_most"],
                     ", ".join("%s %.1f s" % (k, s - idle.get(k, 0)) for k, s in sorted(cpu.items()))))
        pepsi.say("        %d processes, %d of them workers of the stage; the worker: PSS %.1f MiB, %d sockets; all but the database: %.1f MiB"
                  % (watch.processes, watch.workers, watch.pss / 1024, watch.sockets, watch.total / 1024))
        pepsi.check(seen["fast"]["messages"] == fast + 1 and seen["twice"] == 0, "%s" % seen)
        pepsi.check(watch.workers == 1 and stage["crashes"] == 0, "%s" % stage)
        d.stop()
        seen = hosts.seen()
        left = fast + others + 1 - seen["fast"]["messages"] - seen["slow"]["messages"]
        d.start()
        pepsi.wait_for("nothing is lost: %d wait" % left, lambda: 0 <= d.status()["queue"]["total"] <= left + seen["slow"]["messages"], 30)
        total = d.status()["queue"]["total"] + hosts.seen()["fast"]["messages"] + hosts.seen()["slow"]["messages"]
        pepsi.check(total >= fast + others + 1, "%d messages, %d are accounted for" % (fast + others + 1, total))
        d.stop()
        hosts.end()
        return took, others_back, others


MIXED = [i * 7919 % DESTINATIONS for i in range(MESSAGES)]


def steady(t):
    pepsi.need("nsd")
    took = {}
    for what, to in (("alone  ", [i if i < DESTINATIONS // 3 else None for i in MIXED]), ("crowded", MIXED)):
        r, began = Run(t), time.time()
        send(r.d, to, pace=PACE)
        took[what] = r.end(what, to, began)[0]
    ratio = took["crowded"] / took["alone  "]
    pepsi.say("      ratio %.2f" % ratio)
    pepsi.check(ratio <= BOUND, "the quick third took %.1f s among the others, %.1f s alone" % (took["crowded"], took["alone  "]))


def at_once(t):
    pepsi.need("nsd")
    took = {}
    slots, n = (SLOTS, MESSAGES) if WHOLE else (150, 3000)  # fewer slots than messages, or all would be with the worker at once
    mixed = [i * 7919 % DESTINATIONS for i in range(n)]
    for what, to in (("alone  ", [i for i in mixed if i < DESTINATIONS // 3]), ("crowded", mixed)):
        r, began = Run(t, slots), time.time()
        due = int(began + 10 + len(to) / 200)
        send(r.d, to, " HOLDUNTIL=" + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due)))
        pepsi.check(time.time() < due, "accepting took longer than thought: %.0f s" % (time.time() - began))
        took[what], back, others = r.end(what, to, due)
    ratio = took["crowded"] / took["alone  "]
    pepsi.say("      ratio %.2f" % ratio)
    # what is given back to the queue for a second is made due once more: it was counted as given back
    moved = r.moved - back
    pepsi.check(moved <= others * MOVED_MOST, "%d of %d messages for slow and dead hosts were handed out" % (moved, others))
    pepsi.check(not WHOLE or ratio <= BOUND, "the quick third took %.2f s among the others, %.2f s alone" % (took["crowded"], took["alone  "]))


pepsi.main(__file__, [steady, at_once])
