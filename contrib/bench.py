"""The work of contrib/bench (see there). With the shared harness: a scratch copy of it, in which Postfix is an instance
of the installed package. Without: smtp-source and smtp-sink of Postfix, the same cells, fewer figures. Stops by pid
only what it started; contacts 127.0.0.1 only."""
import argparse
import bench_idle
import json
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

SIZES = {"4k": 4096, "100k": 102400, "1m": 1048576}

MAIN_CF = """compatibility_level = 3.6
queue_directory = {d}/spool
data_directory = {d}/data
multi_instance_name = postfix-pepsibench
maillog_file = {d}/maillog
maillog_file_prefixes = {d}
myhostname = postfix.bench.example
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
relayhost = [127.0.0.1]:{sink}
smtp_dns_support_level = disabled
smtp_host_lookup = native
smtpd_peername_lookup = no
smtpd_relay_restrictions = permit_mynetworks, reject
smtp_tls_security_level = none
smtpd_tls_security_level = none
message_size_limit = 104857600
biff = no
enable_long_queue_ids = yes
# tuning: no client limits, no input throttle, wide and reused output
default_process_limit = 600
smtpd_client_connection_count_limit = 0
smtpd_client_event_limit_exceptions = static:all
in_flow_delay = 0
qmgr_message_active_limit = 50000
qmgr_message_recipient_limit = 50000
initial_destination_concurrency = 20
default_destination_concurrency_limit = 20
smtp_connection_cache_destinations = static:all
max_use = 1000
"""

POSTFIX_TARGET = """# written by contrib/bench: an instance of the installed Postfix
T_DESC="Postfix, tuned relay"
T_ADDR=127.0.0.1 T_PORT={port}
T_SINK_ADDR=127.0.0.1 T_SINK_PORT={sink}
D="{d}"
t_version() {{ dpkg-query -W postfix; }}
t_start() {{ postfix -c "$D/etc" start >/dev/null 2>&1; wait_port $T_ADDR $T_PORT; }}
t_pids() {{ tr -d ' ' <"$D/spool/pid/master.pid" 2>/dev/null; }}
t_stop() {{ postfix -c "$D/etc" stop >/dev/null 2>&1; }}
t_queue() {{ find "$D"/spool/incoming "$D"/spool/active "$D"/spool/deferred "$D"/spool/maildrop -type f 2>/dev/null | wc -l; }}
t_reset() {{ postsuper -c "$D/etc" -d ALL >/dev/null 2>&1; }}
"""

PEPSI_CONF = """[pepsi]
HOSTNAME = relay.example.test
RELAY_NETWORKS = 127.0.0.0/8
[listener-mx]
BIND = 127.0.0.1:{port}
PROTOCOL = smtp
[pepsi-httpd]
BIND = 127.0.0.1:{http}
[stage-init]
PROGRAM = pepsi-stage-relay-to-smarthost
HOST = 127.0.0.1
PORT = {sink}
TLS = none
PARALLELISM = 4
QUEUE_LIMIT = 64
BOUNCE_STAGE = bounce
[stage-bounce]
PROGRAM = pepsi-stage-bounce
NEXT_STAGE = init
"""


def free_ports(n):
    return [bench_idle.free_port() for _ in range(n)]


def make_postfix(work, port, sink):
    """Configuration and queue of a private instance; the caller starts it."""
    d = os.path.join(work, "postfix")
    for sub in ("etc", "spool", "data"):
        os.makedirs(os.path.join(d, sub), exist_ok=True)
    shutil.chown(os.path.join(d, "data"), "postfix")
    with open(os.path.join(d, "etc", "main.cf"), "w") as f:
        f.write(MAIN_CF.format(d=d, sink=sink))
    src = next(p for p in ("/usr/share/postfix/master.cf.dist", "/etc/postfix/master.cf.proto", "/etc/postfix/master.cf") if os.path.exists(p))
    out, skip = [], False
    for line in open(src):
        if line[:1] not in " \t#\n":
            c = line.split()
            skip = c[1] == "inet" and c[0] != "smtp"
            if c[0] == "smtp" and c[1] == "inet":
                line = "127.0.0.1:%d inet n - n - - smtpd\n" % port
            elif len(c) > 4 and c[4] == "y":
                c[4] = "n"
                line = " ".join(c) + "\n"
        if not skip:
            out.append(line)
    if not any(l.startswith("postlog ") for l in out):
        out.append("postlog unix-dgram n - n - 1 postlogd\n")
    with open(os.path.join(d, "etc", "master.cf"), "w") as f:
        f.writelines(out)
    return d


# ------------------------------------------------------------------------------------------------- with the harness
def with_harness(a):
    home = os.path.join(a.work, "harness")
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(os.path.join(home, "targets"))
    for f in ("relay-bench.py", "lib.sh"):
        shutil.copyfile(os.path.join(a.harness, f), os.path.join(home, f))
    port, sink, http, postfix_port, postfix_sink = free_ports(5)
    with open(os.path.join(a.harness, "targets", "pepsi.sh")) as f:
        target = f.read()
    target = re.sub(r"\bT_PORT=\d+", "T_PORT=%d" % port, target)
    target = re.sub(r"\bT_SINK_PORT=\d+", "T_SINK_PORT=%d" % sink, target)
    target = re.sub(r"(\[pepsi-httpd\]\s+BIND = 127\.0\.0\.1:)\d+", r"\g<1>%d" % http, target)
    with open(os.path.join(home, "targets", "pepsi.sh"), "w") as f:
        f.write(target)
    d = make_postfix(a.work, postfix_port, postfix_sink)
    with open(os.path.join(home, "targets", "postfix.sh"), "w") as f:
        f.write(POSTFIX_TARGET.format(d=d, port=postfix_port, sink=postfix_sink))
    for sub in ("bin", "run"):
        os.makedirs(os.path.join(a.work, sub), exist_ok=True)
    for tool in ("benchsink", "benchsource"):
        subprocess.run(["cc", "-O2", "-o", os.path.join(a.work, "bin", tool), os.path.join(a.harness, "src", tool + ".c"), "-lm"], check=True)
    env = dict(os.environ, BENCH_WORK=a.work)
    results = os.path.join(a.work, "results.jsonl")
    if os.path.exists(results):
        os.unlink(results)

    def run(*args):
        r = subprocess.run([sys.executable, "-B", os.path.join(home, "relay-bench.py"), "--targets", "postfix,pepsi", "--sizes", a.sizes, "--out", results, *args], env=env)
        if r.returncode:
            sys.exit("the harness failed (%d)" % r.returncode)
    shape = ["--conc", a.conc] + (["--n", str(a.n)] if a.n else [])
    run("--rounds", str(a.rounds), *shape)
    run("--latency", "--rounds", "1", "--lat-n", "60")
    run("--memory", "--rounds", "1", *shape)
    return [json.loads(l) for l in open(results)]


# ---------------------------------------------------------------------------------------------------------- our own
def wait_port(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit("nothing listens on 127.0.0.1:%d" % port)


def tree(roots):
    kids = {}
    for d in os.listdir("/proc"):
        if d.isdigit():
            try:
                s = open("/proc/%s/stat" % d).read()
                kids.setdefault(int(s[s.rindex(")") + 2:].split()[1]), []).append(int(d))
            except OSError:
                pass
    out, todo = [], list(roots)
    while todo:
        p = todo.pop()
        out.append(p)
        todo += kids.get(p, [])
    return out


class Postfix:
    name = "postfix"

    def __init__(self, work):
        self.port, self.sink = free_ports(2)
        self.d = make_postfix(work, self.port, self.sink)

    def postfix(self, what):
        subprocess.run(["postfix", "-c", self.d + "/etc", what], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self):
        self.postfix("start")
        wait_port(self.port)

    def stop(self):
        self.postfix("stop")

    def roots(self):
        return [int(open(self.d + "/spool/pid/master.pid").read())]


class Pepsi:
    name = "pepsi"

    def __init__(self, work):
        self.port, self.sink, self.http = free_ports(3)
        self.d, self.p = os.path.join(work, "pepsi"), None
        os.makedirs(self.d, exist_ok=True)
        self.conf = os.path.join(self.d, "pepsi.conf")
        with open(self.conf, "w") as f:
            f.write(PEPSI_CONF.format(port=self.port, sink=self.sink, http=self.http))

    def start(self):
        b = os.environ["PEPSI_BIN"]
        with open(os.path.join(self.d, "log"), "ab") as log:
            self.p = subprocess.Popen([b + "/pepsid", "-c", self.conf, "--state", self.d + "/state"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if subprocess.run([b + "/pepsi", "-c", self.conf, "status", "--wait", "60"], stdout=subprocess.DEVNULL).returncode:
            sys.exit("pepsid does not start: see %s/log" % self.d)

    def stop(self):
        if self.p and self.p.poll() is None:
            self.p.terminate()
            self.p.wait(60)

    def roots(self):
        return [self.p.pid]


def cpu(t):
    """user + system seconds of its processes and of their children that ended"""
    s = 0
    for p in tree(t.roots()):
        try:
            f = open("/proc/%d/stat" % p).read()
            s += sum(int(x) for x in f[f.rindex(")") + 2:].split()[11:15])
        except OSError:
            pass
    return s / os.sysconf("SC_CLK_TCK")


def pss(t):
    k = 0
    for p in tree(t.roots()):
        try:
            k += next(int(l.split()[1]) for l in open("/proc/%d/smaps_rollup" % p) if l.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return k


def cell(t, n, size, conc):
    sink = subprocess.Popen(["smtp-sink", "-u", "nobody", "-4", "-M", str(n), "inet:127.0.0.1:%d" % t.sink, "1000"])
    peak, over = [0], threading.Event()

    def sample():
        while not over.wait(0.5):
            peak[0] = max(peak[0], pss(t))
    try:
        time.sleep(0.3)
        watcher = threading.Thread(target=sample)
        watcher.start()
        c0, t0 = cpu(t), time.monotonic()
        subprocess.run(["smtp-source", "-4", "-s", str(conc), "-m", str(n), "-l", str(SIZES[size]), "-f", "sender@bench.example",
                        "-t", "rcpt@bench.example", "inet:127.0.0.1:%d" % t.port], check=True)
        t1 = time.monotonic()
        sink.wait(120)
        t2 = time.monotonic()
        time.sleep(1)
        c1 = cpu(t)
    finally:
        over.set()
        watcher.join()
        if sink.poll() is None:
            sink.kill()
            sink.wait()
    return dict(kind="load", target=t.name, size=size, conc=conc, n=n, ok=True, accept_rate=n / (t1 - t0), e2e_rate=n / (t2 - t0),
                cpu_per_1000=(c1 - c0) * 1000 / n, pss_peak_kb=peak[0])


def latency(t, size, n=60):
    """end of data → 250, one message at a time"""
    body = b"Subject: probe\r\n\r\n" + (b"x" * 76 + b"\r\n") * (SIZES[size] // 78) + b".\r\n"
    sink = subprocess.Popen(["smtp-sink", "-u", "nobody", "-4", "-M", str(n), "inet:127.0.0.1:%d" % t.sink, "1000"])
    took = []
    try:
        time.sleep(0.3)
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", t.port), 20)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            f = s.makefile("rb")

            def reply():
                while f.readline()[3:4] == b"-":
                    pass
            reply()
            for line in (b"EHLO probe.bench.example", b"MAIL FROM:<probe@bench.example>", b"RCPT TO:<rcpt@bench.example>", b"DATA"):
                s.sendall(line + b"\r\n")
                reply()
            s.sendall(body[:-3])
            began = time.monotonic()
            s.sendall(body[-3:])
            reply()
            took.append((time.monotonic() - began) * 1000)
            f.close()
            s.close()
            time.sleep(0.02)
        sink.wait(30)
    finally:
        if sink.poll() is None:
            sink.kill()
            sink.wait()
    took.sort()
    return dict(kind="latency", target=t.name, size=size, ok=True, ack_p50_ms=took[len(took) // 2], ack_p95_ms=took[int(len(took) * .95)])


def on_our_own(a):
    targets, rows = [Postfix(a.work), Pepsi(a.work)], []
    try:
        for t in targets:
            t.start()
            cell(t, 50, "4k", 5)
        for r in range(a.rounds):
            for s in a.sizes.split(","):
                for c in a.conc.split(","):
                    n = a.n or (4000 if s == "4k" else 1000 if s == "100k" else 200)
                    for t in targets[r % 2:] + targets[:r % 2]:
                        rows.append(dict(cell(t, n, s, int(c)), round=r))
                        print("%-8s %-5s c=%-3s accepted %6.0f/s end to end %6.0f/s" % (t.name, s, c, rows[-1]["accept_rate"], rows[-1]["e2e_rate"]), flush=True)
        for s in a.sizes.split(","):
            rows += [latency(t, s) for t in targets]
    finally:
        for t in targets:
            t.stop()
    return rows


# ---------------------------------------------------------------------------------------------------------- summary
def summary(rows):
    def med(values):
        values = [v for v in values if v is not None]
        return statistics.median(values) if values else float("nan")
    load = [r for r in rows if r["kind"] == "load"]
    for cell_key in sorted({(r["size"], r["conc"]) for r in load}, key=lambda k: (SIZES.get(k[0], 0), k[1])):
        mine = [r for r in load if (r["size"], r["conc"]) == cell_key]
        by = {t: [r for r in mine if r["target"] == t and r["ok"]] for t in ("pepsi", "postfix")}
        bad = [r for r in mine if not r["ok"]]
        print("\n%s x %d sessions" % cell_key)
        print("%-30s %12s %12s %10s" % ("", "pepsi", "postfix", "ratio"))
        for label, key in (("accepted/s", "accept_rate"), ("end to end/s", "e2e_rate"), ("CPU s/1000 messages", "cpu_per_1000"), ("250 after final dot, p50 ms", "ack_p50_ms"),
                           ("250 after final dot, p95 ms", "ack_p95_ms"), ("arrival under load, p50 ms", "arr_p50_ms"), ("arrival under load, p95 ms", "arr_p95_ms")):
            p, q = (med([r.get(key) for r in by[t]]) for t in ("pepsi", "postfix"))
            if p == p and q == q:
                print("%-30s %12.2f %12.2f %10.2f" % (label, p, q, p / q if q else 0))
        peak = {t: max([r.get("pss_peak_kb", 0) for r in rows if r.get("size") == cell_key[0] and r.get("conc") == cell_key[1] and r["target"] == t] or [0]) for t in by}
        if all(peak.values()):
            print("%-30s %12.1f %12.1f %10.2f" % ("peak memory (PSS), MiB", peak["pepsi"] / 1024, peak["postfix"] / 1024, peak["pepsi"] / peak["postfix"]))
        ratios = []
        for r in sorted({x["round"] for x in mine}):
            e = {x["target"]: x["e2e_rate"] for x in mine if x["round"] == r and x["ok"]}
            if len(e) == 2:
                ratios.append(e["pepsi"] / e["postfix"])
        if ratios:
            print("end-to-end ratio by round: %s; median %.2f" % (" ".join("%.2f" % x for x in ratios), statistics.median(ratios)))
        for r in bad:
            print("NOT OK: %s round %s: %s of %s arrived" % (r["target"], r.get("round"), r.get("got"), r.get("n")))
    for r in rows:
        if r["kind"] == "latency":
            print("one at a time, %s, %-8s 250 p50/p95 %.2f/%.2f ms%s" % (r["size"], r["target"], r["ack_p50_ms"], r["ack_p95_ms"],
                  "; arrival p50/p95 %.2f/%.2f ms" % (r["p50_ms"], r["p95_ms"]) if r.get("p50_ms") else ""))
        elif r["kind"] == "idle":
            print("idle memory (PSS), %-8s %.1f MiB in %d processes" % (r["target"], r["pss_kb"] / 1024, r["procs"]))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--work", required=True)
    ap.add_argument("--harness", required=True)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--sizes", default="4k")
    ap.add_argument("--conc", default="20")
    ap.add_argument("--n", type=int, default=0)
    ap.add_argument("--strict", action="store_true")
    a = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = with_harness(a) if os.path.exists(os.path.join(a.harness, "relay-bench.py")) else on_our_own(a)
    summary(rows)
    print()
    good = bench_idle.measure(a.work) or not a.strict
    sys.exit(0 if good and all(r.get("ok", True) for r in rows) else 1)


main()
