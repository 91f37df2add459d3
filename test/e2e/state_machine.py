"""Random stage graphs, random outcomes, crashes, hangs and kills, over the real daemon and its database (test/stages/chaos.c).
Once all is quiet: no recipient lost, none delivered twice unless a process that died explains it, none that nobody sent;
bodies go with the last row that has them; the books are even. PEPSI_TRANSITIONS sets how many passes of stages to go
through (default 3000; the long run is 100000)."""
import collections
import os
import random
import signal
import subprocess
import time

import pepsi

TRANSITIONS = int(os.environ.get("PEPSI_TRANSITIONS") or (1000 if pepsi.SANITIZED else 3000))
BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
KINDS = ["pepsi-stage-chaos", "pepsi-stage-chaos-batch", "pepsi-stage-chaos-headers", "pepsi-stage-chaos-full"]


def graph(rng, journal, fusion):
    """Sections of a random graph: NEXT_STAGE leads forward, as it must, the modules' own choices anywhere. Fresh mail enters
    at init; drain ends everything."""
    names = ["init"] + ["s%d" % i for i in range(1, rng.randint(4, 8))]
    out = ""
    for i, n in enumerate(names):
        out += ("[stage-%s]\nPROGRAM = %s\nNEXT_STAGE = %s\nJOURNAL = %s\nSTAGES = %s\nPARALLELISM = %d\nQUEUE_LIMIT = %d\nMAX_RUNTIME = 2 s\n"
                "MAX_MESSAGES = %d\nHARM = %d\n%s\n"
                % (n, rng.choice(KINDS), rng.choice(names[i + 1:] or ["drain"]), journal, " ".join(names), rng.randint(1, 3), rng.choice([1, 8, 50]),
                   rng.choice([30, 10000]), rng.choice([0, 2, 8]), "" if rng.random() < 0.8 else "ALLOW_FUSION = NO\n"))
    return out + "[stage-drain]\nPROGRAM = pepsi-stage-chaos\nJOURNAL = %s\nSTAGES = drain\nDRAIN = YES\n" % journal, names


class Journal:
    def __init__(self, path):
        self.path = path
        with open(path, "w"):
            pass
        os.chmod(path, 0o666)

    def read(self):
        """Deliveries as (pid, recipient) in order, and the processes that said they would die."""
        deliveries, dying = [], set()
        with open(self.path) as f:
            for line in f:
                kind, pid, *rest = line.split()
                if kind == "D":
                    deliveries.append((int(pid), rest[0].split("@")[0].split("+")[0]))
                else:
                    dying.add(int(pid))
        return deliveries, dying


def sql(d, statement):
    """A value from the embedded cluster, asked as the account that the daemon's own connections have."""
    me = pepsi.service_account() if os.geteuid() == 0 else None

    def become():
        if me:
            os.setgroups([])
            os.setgid(me.pw_gid)
            os.setuid(me.pw_uid)
    psql = pepsi.need("psql")
    psql = psql[0] if isinstance(psql, (list, tuple)) else psql
    r = subprocess.run([psql, "-qXAt", "-h", os.path.join(d.state, "run"), "-U", "pepsi", "-d", "pepsi", "-c", statement],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=become, timeout=60, cwd="/")
    pepsi.check(r.returncode == 0, "psql: %s" % r.stderr.decode(errors="replace"))
    return r.stdout.decode().strip()


def passes(d):
    return sum(s["done"] for s in d.status()["stages"])


def workers(d, names):
    return [p for n in names for p in d.worker_pids(n)]


def play(t, fusion):
    if not os.path.exists(os.path.join(BUILT, KINDS[0] + ".so")):
        raise pepsi.Skip("test/stages was not built")
    seed = int(os.environ.get("PEPSI_SEED") or random.SystemRandom().randrange(1 << 32))
    pepsi.say("      PEPSI_SEED=%d" % seed)
    rng = random.Random(seed)
    journal = Journal(os.path.join(t.dir, "journal-%s" % fusion))
    stages, names = graph(rng, journal.path, fusion)
    t.environment["ASAN_OPTIONS"] += ":handle_segv=0"  # a crash on purpose is no report
    d = pepsi.Pepsid(t, stages, pepsi="MODULE_PATH = %s\nALLOW_FUSION = %s\n" % (BUILT, fusion),
                     more="[pepsi-dispatch]\nPOLL_INTERVAL = 1 s\nLAUNCH_COOLDOWN = 1 s\n")
    sent, killed, n = set(), set(), 0
    smtp = pepsi.Smtp(d.port)
    want, kills, last = TRANSITIONS // 2, 0, time.monotonic()
    begun = passes(d)
    while passes(d) - begun < want:
        for _ in range(40):
            rcpts = ["r%d.%d@chaos.test" % (n, i) for i in range(rng.choice([1, 1, 2, 3, 7]))]
            smtp.send("sender@example.test", rcpts, pepsi.message("m%d" % n, size=rng.choice([0, 100, 5000, 90000])))
            sent.update(r.split("@")[0] for r in rcpts)
            n += 1
        if time.monotonic() - last > 0.7:  # somebody from outside
            last = time.monotonic()
            pids = workers(d, names)
            if pids:
                victim = rng.choice(pids)
                try:
                    os.kill(victim, signal.SIGKILL)
                    killed.add(victim)
                    kills += 1
                except ProcessLookupError:
                    pass
        without = sql(d, "SELECT count(*) FROM pepsi.workqueue w WHERE NOT EXISTS (SELECT FROM pepsi.workqueue_body b WHERE b.id = w.body_id)")
        pepsi.check(without == "0", "%s rows have no body" % without)
        # what failed waits for the drain at the end, and is no sign of a queue that does not move
        pepsi.wait_for("the queue is not too long",
                       lambda: sum(d.status()["queue"][k] for k in ("pending", "running", "paused")) < 600 or None, 120, 0.2)
    smtp.close()

    # quiet: what failed is sent to the drain until nothing is left
    def over():
        q = d.status()["queue"]
        if not q["total"]:
            return True
        if q["failed"] or q["timeout"]:
            ids = [str(r["id"]) for r in d.queue() if r["status"] in ("failed", "timeout")]
            for i in range(0, len(ids), 50):
                d.cli("queue", "set-stage", "drain", *ids[i:i + 50])
        return False
    pepsi.wait_for("the queue is empty", over, 240, 0.3)

    got, dying = journal.read()
    dying |= killed
    by = collections.defaultdict(list)
    for pid, rcpt in got:
        by[rcpt].append(pid)
    lost = sorted(sent - set(by))
    pepsi.check(not lost, "%d of %d recipients lost, e.g. %s" % (len(lost), len(sent), lost[:5]))
    invented = sorted(r for r in by if r not in sent and not r.startswith("side-"))
    pepsi.check(not invented, "recipients out of nowhere: %s" % invented[:5])
    # every delivery but the last was by a process that died before it could be believed
    odd = [(r, pids) for r, pids in by.items() if len(pids) > 1 and any(p not in dying for p in pids[:-1])]
    pepsi.check(not odd, "%d delivered twice without a death to explain it, e.g. %s" % (len(odd), odd[:3]))
    sql(d, "SELECT pepsi.workqueue_body_gc()")
    bodies = sql(d, "SELECT count(*) FROM pepsi.workqueue_body")
    pepsi.check(bodies == "0", "%s bodies are left without a row" % bodies)
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"], "the books: %s" % {k: s[k] for k in ("accepted", "delivered", "bounced", "discarded")})
    fused = sum(g.get("fused", 0) for g in s["stages"])
    pepsi.check(fused > 0 if fusion == "YES" else fused == 0, "%d hops were fused" % fused)
    pepsi.say("      %d messages, %d recipients, %d side messages, %d passes (%d fused), %d crashes, %d kills, %d again" % (
        n, len(sent), len([r for r in by if r.startswith("side-")]), passes(d) - begun, fused, sum(g["crashes"] for g in s["stages"]), kills,
        sum(len(p) - 1 for p in by.values())))
    d.stop()


def with_fusion(t):
    play(t, "YES")


def without_fusion(t):
    play(t, "NO")


pepsi.main(__file__, [with_fusion, without_fusion])
