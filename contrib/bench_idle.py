"""What a worker costs that has nothing to do, and what it takes to get one (contrib/bench --idle; see there): a real pepsid
with a private cluster, its workers made by mail that a next hop keeps waiting, then left alone. Stops by pid only what it
started; contacts 127.0.0.1 only."""
import argparse
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_MIB = 400 # what 200 idle workers may have together
FILTER = "#!/bin/sh\ncat >/dev/null\nwhile [ ! -e %s ]; do sleep 0.2; done\necho '{\"action\":\"accept\"}'\n"

HEAD = """[pepsi]
HOSTNAME = idle.example.test
RELAY_NETWORKS = 127.0.0.0/8
%s
[listener-mx]
BIND = 127.0.0.1:%d
MAX_CONNECTIONS_PER_ADDRESS = 1000
[pepsi-httpd]
BIND = none
[pepsi-dispatch]
WORKER_IDLE_TIMEOUT = 1 h
"""


def die(text):
    sys.exit("bench: %s" % text)


def free_port(taken=set()):
    """A loopback port above 20000 that nobody listens on, and no call gave before: several runs on one machine do not meet."""
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in taken:
            taken.add(port)
            return port


def until(what, condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            die("%s: not within %d s" % (what, seconds))
        time.sleep(0.05)


class Sink:
    """A next hop, SMTP and LMTP, that answers the final dot when `go` is set. arrivals: monotonic times of final dots."""

    def __init__(self):
        self.go, self.arrivals = threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            c.sendall(b"220 sink\r\n")
            f = c.makefile("rb")
            for line in f:
                verb = line[:4].upper()
                if verb == b"DATA":
                    c.sendall(b"354 go\r\n")
                    for data in f:
                        if data == b".\r\n":
                            break
                    self.arrivals.append(time.monotonic())
                    self.go.wait()
                c.sendall(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
        except OSError:
            pass
        c.close()


class Client:
    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), 60)
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.f = self.s.makefile("rb")
        self.reply(220)
        self.cmd("EHLO bench.example.test", 250)

    def reply(self, code):
        line = self.f.readline()
        while line[3:4] == b"-":
            line = self.f.readline()
        if line[:3] != b"%d" % code:
            die("pepsid said %r" % line)

    def cmd(self, text, code):
        self.s.sendall(text.encode() + b"\r\n")
        self.reply(code)

    def send(self, rcpt):
        """One message; when its final dot was sent."""
        self.cmd("MAIL FROM:<a@bench.example>", 250)
        self.cmd("RCPT TO:<%s>" % rcpt, 250)
        self.cmd("DATA", 354)
        at = time.monotonic()
        self.s.sendall(b"Subject: idle\r\n\r\nx\r\n.\r\n")
        self.reply(250)
        return at


class Daemon:
    def __init__(self, work, name, stages, pepsi=""):
        self.d = os.path.join(work, name)
        os.makedirs(os.path.join(self.d, "state"))
        self.conf, self.port = os.path.join(self.d, "pepsi.conf"), free_port()
        with open(self.conf, "w") as f:
            f.write(HEAD % (pepsi, self.port) + stages)
        with open(os.path.join(self.d, "log"), "ab") as log:
            self.p = subprocess.Popen([os.environ["PEPSI_BIN"] + "/pepsid", "-c", self.conf, "--state", self.d + "/state"],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.cli("status", "--wait", "60")

    def cli(self, *args):
        r = subprocess.run([os.environ["PEPSI_BIN"] + "/pepsi", "--json", "-c", self.conf, "--state", self.d + "/state", *args],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if r.returncode:
            die("pepsi %s: %s (%s/log)" % (" ".join(args), r.stderr.decode().strip(), self.d))
        return json.loads(r.stdout)

    def workers(self, stage=None):
        return [p for s in self.cli("status")["stages"] if stage in (None, s["name"]) for p in s["pids"]]

    def empty(self, seconds=60):
        until("the queue is empty", lambda: self.cli("status")["queue"]["total"] == 0, seconds)

    def stop(self):
        if self.p.poll() is None:
            self.p.terminate()
            try:
                self.p.wait(60)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()


def memory(pids):
    """[(PSS, private) in KiB]"""
    out = []
    for p in pids:
        try:
            with open("/proc/%d/smaps_rollup" % p) as f:
                v = {line.split(":")[0]: int(line.split()[1]) for line in f if line.rstrip().endswith("kB")}
        except PermissionError:
            die("the memory of worker %d cannot be read: run as root" % p)
        out.append((v["Pss"], v["Private_Clean"] + v["Private_Dirty"]))
    return out


def backends(daemon):
    """Server processes of the private cluster."""
    with open(os.path.join(daemon.d, "state", "postgres", "postmaster.pid")) as f:
        parent = int(f.readline())
    out = [parent]
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/stat" % d) as f:
                    s = f.read()
                if int(s[s.rindex(")") + 2:].split()[1]) == parent:
                    out.append(int(d))
            except OSError:
                pass
    return out


def mib(kib):
    return kib / 1024


def spawn(work, rounds):
    """The first message to a stage without a worker, and the next one, which finds it waiting."""
    sink = Sink()
    sink.go.set()
    d = Daemon(work, "spawn", "[stage-init]\nPROGRAM = pepsi-stage-relay-to-smarthost\nHOST = 127.0.0.1\nPORT = %d\nTLS = none\nPARALLELISM = 1\n"
               % sink.port)
    took = {"cold": [], "warm": []}
    try:
        c = Client(d.port)

        def one():
            n = len(sink.arrivals)
            at = c.send("x@far.example")
            until("the message arrives", lambda: len(sink.arrivals) > n, 30)
            d.empty()
            return (sink.arrivals[n] - at) * 1000
        one()
        alone = memory(d.workers())[0]
        for _ in range(rounds):
            for p in d.workers():  # it leaves in order
                os.kill(p, signal.SIGTERM)
            until("the worker leaves", lambda: not d.workers(), 20)
            took["cold"].append(one())
            took["warm"].append(one())
    finally:
        d.stop()
    cold, warm = sorted(took["cold"]), statistics.median(took["warm"])
    spawned = [max(t - warm, 0) for t in cold]
    print("one idle worker alone: PSS %.2f MiB, private %.2f MiB" % (mib(alone[0]), mib(alone[1])))
    print("spawn, as a message feels it (%d times): median %.1f ms, p95 %.1f ms" % (
        rounds, statistics.median(spawned), spawned[min(len(spawned) - 1, int(len(spawned) * .95))]))
    print("    final dot to next hop: %.1f ms with a worker to be made (and its connection to the database), %.1f ms with one waiting" % (
        statistics.median(cold), warm), flush=True)


def together(work, n, fused):
    """n workers that each had work, idle; the sum of their PSS in MiB."""
    sink, go = Sink(), os.path.join(work, "go-%d" % fused)
    command = os.path.join(work, "filter-%d" % fused)
    with open(command, "w") as f:
        f.write(FILTER % go)
    os.chmod(command, 0o755)
    hop = "[stage-%s]\nPROGRAM = pepsi-stage-relay-to-%s\nHOST = 127.0.0.1\nPORT = " + str(sink.port) + "\nPARALLELISM = %d\nQUEUE_LIMIT = 1\n"
    if fused:
        share = {"init": n}
        stages = ("[stage-init]\nPROGRAM = pepsi-stage-route\nDEFAULT = smtp\nPARALLELISM = %d\nQUEUE_LIMIT = 1\n" % n
                  + hop % ("smtp", "smarthost", n) + "TLS = none\n")
    else:
        share = {"smtp": n // 2, "lmtp": n // 4, "filter": n - n // 2 - n // 4 - 1, "init": 1}
        stages = ("[stage-init]\nPROGRAM = pepsi-stage-route\nROUTE_1 = lmtp.example lmtp\nROUTE_2 = filter.example filter\nDEFAULT = smtp\nPARALLELISM = 1\n"
                  + hop % ("smtp", "smarthost", share["smtp"]) + "TLS = none\n" + hop % ("lmtp", "lmtp", share["lmtp"])
                  + "[stage-filter]\nPROGRAM = pepsi-stage-pipe\nCOMMAND = %s\nTIMEOUT = 10 min\nNEXT_STAGE = end\nPARALLELISM = %d\nQUEUE_LIMIT = 1\n"
                  "[stage-end]\nPROGRAM = pepsi-stage-discard\n" % (command, share["filter"]))
    d = Daemon(work, "fused" if fused else "apart", stages, "" if fused else "ALLOW_FUSION = NO")
    try:
        c = Client(d.port)
        sent = {s: 0 for s in share}
        end = time.monotonic() + 180

        def short():
            have = {s["name"]: len(s["pids"]) for s in d.cli("status")["stages"]}
            return {s: k - have.get(s, 0) for s, k in share.items() if have.get(s, 0) < k and (s != "init" or fused)}
        while short():  # everybody who has a message has it until the next hop goes on
            if time.monotonic() > end:
                die("not all workers were made: %s missing (%s/log)" % (short(), d.d))
            for s, k in short().items():
                for _ in range(min(k, max(0, share[s] + 20 - sent[s]))):
                    c.send("x@%s.example" % s)
                    sent[s] += 1
            time.sleep(0.2)
        until("every worker has work", lambda: len(sink.arrivals) >= (n if fused else share["smtp"] + share["lmtp"]), 120)
        sink.go.set()
        with open(go, "w"):
            pass
        d.empty(120)
        time.sleep(2)
        pids = {s["name"]: s["pids"] for s in d.cli("status")["stages"]}
        have = [p for s in share for p in pids[s]]
        if len(have) < n:
            die("only %d workers of %d are there" % (len(have), n))
        m = memory(have)
        total = mib(sum(x[0] for x in m))
        server = memory(backends(d))
        rest = memory([d.p.pid] + [p for p in children(d.p.pid) if p not in set(have) and p not in set(backends(d))])
        what = "route and relay in one process each" if fused else ", ".join("%d of %s" % (len(pids[s]), s) for s in share)
        print("%d workers idle together (%s): PSS %.1f MiB, one %.2f MiB (largest %.2f), private %.2f MiB" % (
            len(m), what, total, mib(statistics.mean(x[0] for x in m)), mib(max(x[0] for x in m)), mib(statistics.mean(x[1] for x in m))))
        print("    beside them: spawner and reactor %.1f MiB, PostgreSQL %.1f MiB in %d processes" % (
            mib(sum(x[0] for x in rest)), mib(sum(x[0] for x in server)), len(server)), flush=True)
        return total
    finally:
        sink.go.set()
        if not os.path.exists(go):
            with open(go, "w"):
                pass
        d.stop()


def children(pid):
    out = []
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                with open("/proc/%s/stat" % d) as f:
                    s = f.read()
                if int(s[s.rindex(")") + 2:].split()[1]) == pid:
                    out.append(int(d))
            except OSError:
                pass
    return out


def measure(work, workers=200, rounds=40, limit=LIMIT_MIB):
    """Prints the figures. Whether 200 workers (or their part of the limit, where it is another number) are within it."""
    folder = tempfile.mkdtemp(prefix="idle.", dir=work)
    os.chmod(folder, 0o755)
    try:
        spawn(folder, rounds)
        totals = [together(folder, workers, fused) for fused in (False, True)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    good = max(totals) <= limit * workers / 200
    print("to be reached: %.0f MiB for %d idle workers: %s" % (limit * workers / 200, workers, "yes" if good else "NO"), flush=True)
    return good


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", required=True)
    ap.add_argument("--workers", type=int, default=200)
    ap.add_argument("--spawns", type=int, default=40)
    ap.add_argument("--limit", type=int, default=LIMIT_MIB, help="MiB for 200 workers")
    ap.add_argument("--strict", action="store_true", help="exit status 1 above the limit")
    a = ap.parse_args()
    if a.workers < 8 or a.spawns < 1:
        die("--workers: at least 8; --spawns: at least 1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    good = measure(a.work, a.workers, a.spawns, a.limit)
    sys.exit(0 if good or not a.strict else 1)


if __name__ == "__main__":
    main()
