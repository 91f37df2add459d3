"""Warm-up plans of source addresses: a new address sends each destination what today's step allows, the surplus leaves by the old one in the same
minute; workers share the allowance; what is not used is given back; without the database the new address sends nothing."""
import datetime
import os
import subprocess
import time

import authority
import pepsi
from pepsi import check, wait_for  # psql looks at what is counted, as the superuser

OLD, NEW = "127.9.1.1", "127.9.1.2"
DAY = datetime.timedelta(days=1)


def today():
    """Today's date in UTC, with a quarter of an hour of it left at least: a test that meets midnight waits, which is seen about once a hundred days."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if now.hour == 23 and now.minute >= 57:
        wait_for("midnight", lambda: datetime.datetime.now(datetime.timezone.utc).hour == 0, 240, 1)
    return datetime.datetime.now(datetime.timezone.utc).date()


class Site:
    def __init__(self, t, plan, workers=1, sources="SOURCES_1 = %s=old.sender.test %s=new.sender.test" % (OLD, NEW), more=""):
        self.port = pepsi.free_port()
        zones = {"sender.test": "@ IN MX 10 mx\nmx IN A 127.9.0.1\n"}
        for i in (1, 2):
            zones["d%d.test" % i] = "@ IN MX 10 mx\nmx IN A 127.9.0.1%d\n" % i
        dns = authority.start(t, zones)
        self.sinks = {i: pepsi.Sink(t, port=self.port, address="127.9.0.1%d" % i) for i in (1, 2)}
        stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nMTA_STS = NO\nTLSRPT = NO\nPARALLELISM = %d\n"
                 "QUEUE_LIMIT = 1000\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n%s\nWARMUP_1 = %s %s\n%sBOUNCE_STAGE = bounce\n\n" %
                 (self.port, workers, sources, NEW, plan, more))
        self.d = pepsi.Pepsid(t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n" % dns)

    def send(self, n, *domains):
        for k in range(n):
            for domain in domains:
                self.d.accept("me@sender.test", ["x%d@%s" % (k, domain)], pepsi.message("w", sender="me@sender.test"))

    def sent(self, address, domain):
        """How many left by that address, as the log says."""
        with open(self.d.log, errors="replace") as f:
            return sum(1 for line in f if " relayed " in line and "from=%s " % address in line and "@%s" % domain in line)

    def arrived(self, i, n):
        wait_for("%d messages at %d" % (n, i), lambda: len(self.sinks[i].messages) >= n, 60)
        check(len(self.sinks[i].messages) == n, "%d messages arrived" % len(self.sinks[i].messages))

    def sql(self, text):
        r = subprocess.run(["psql", "-qXAt", "-h", os.path.join(self.d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", text], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        check(r.returncode == 0, "psql: %s" % r.stderr.decode())
        return r.stdout.decode()

    def taken(self):
        """{destination: messages of today's allowance}"""
        rows = self.sql("SELECT destination, taken FROM pepsi.warmup WHERE source = '%s' AND taken > 0" % NEW).split()
        return {d: int(n) for d, n in (r.rsplit("|", 1) for r in rows)}

    def logged(self, what):
        with open(self.d.log, errors="replace") as f:
            return [line for line in f if what in line]


def steps(t):
    """today's step for each destination, the rest by the old address, at once"""
    s = Site(t, "start=%s steps=1,7,100" % (today() - DAY))
    began = time.monotonic()
    s.send(20, "d1.test", "d2.test")
    for i in (1, 2):
        s.arrived(i, 20)
        check(s.sent(NEW, "d%d.test" % i) == 7, "%d messages by the new address to d%d" % (s.sent(NEW, "d%d.test" % i), i))
        check(s.sent(OLD, "d%d.test" % i) == 13, "%d by the old one" % s.sent(OLD, "d%d.test" % i))
    check(time.monotonic() - began < 60 * pepsi.SLACK, "the surplus waited")
    full = s.logged("event=warmup-full")
    check(len(full) == 2 and all("source=%s" % NEW in line and "allowance=7" in line for line in full), str(full))
    check(sorted(s.taken().values()) == [7, 7], str(s.taken()))
    name = 'pepsi_module_warmup_messages_total{stage="init",result="%s"}'
    wait_for("the metric", lambda: s.d.metrics().get(name % "sent") == 14)
    wait_for("those turned away", lambda: s.d.metrics().get(name % "turned-away", 0) > 0)


def shared(t):
    """four workers have one allowance between them; shares that are not used go back when a worker ends"""
    s = Site(t, "start=%s steps=500" % today(), workers=4)
    s.send(6, "d1.test", "d2.test")
    s.arrived(1, 6)
    s.arrived(2, 6)
    check(s.sent(NEW, "d1.test") == 6 and s.sent(NEW, "d2.test") == 6, "they did not leave by the new address")
    check(max(s.taken().values()) >= 10, "no share was taken: %s" % s.taken())
    s.d.stop()
    s.d.start()
    check(sorted(s.taken().values()) == [6, 6], "not given back: %s" % s.taken())


def before_and_over(t):
    """before its start an address sends nothing; behind its last step it is like any other; a pool of new ones only sends all the same, and says so"""
    for plan, new in (("start=%s steps=50" % (today() + DAY), 0), ("start=%s first=1 factor=2 last=2" % (today() - 2 * DAY), None)):
        s = Site(t, plan)
        s.send(3, "d1.test")
        s.arrived(1, 3)
        got = s.sent(NEW, "d1.test")
        check(got == new if new is not None else got in (0, 3), "%s: %d by the new address" % (plan, got))
        check(not s.taken() , "something was counted: %s" % s.taken())
        s.d.stop()
    s = Site(t, "start=%s steps=2" % today(), sources="SOURCE_ADDRESSES = %s" % NEW)
    s.send(5, "d1.test")
    s.arrived(1, 5)
    check(s.sent(NEW, "d1.test") == 5 and len(s.logged("event=warmup-over")) == 1, "over the plan: %s" % s.logged("event=warmup"))


def away(t):
    """the counts cannot be read: the old address sends, nothing waits"""
    s = Site(t, "start=%s steps=50" % today())
    s.sql("ALTER TABLE pepsi.warmup RENAME TO warmup_gone")
    s.send(3, "d1.test")
    s.arrived(1, 3)
    check(s.sent(OLD, "d1.test") == 3, "the new address sent without knowing how much it may")
    check(s.logged("event=destinations-database"), "nobody was told")
    s.sql("ALTER TABLE pepsi.warmup_gone RENAME TO warmup")

    def again():
        s.send(1, "d1.test")
        return s.sent(NEW, "d1.test") > 0
    wait_for("the new address to be used again", again, 60, 2)


def wrong(t):
    """faults of the configuration are told with the option's name"""
    for line, why in (("WARMUP_2 = 127.9.1.9 start=2026-12-01 steps=5", "127.9.1.9 stands in no SOURCES_n line"), ("WARMUP_2 = %s start=2026-13-01 steps=5" % OLD, "takes a date"),
                      ("WARMUP_2 = %s start=2026-12-01 steps=5" % NEW, "has a plan already")):
        config = os.path.join(t.dir, "wrong.conf")
        with open(config, "w") as f:
            f.write("[pepsi]\nHOSTNAME = a.test\n[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nSOURCES_1 = %s %s\nWARMUP_1 = %s start=2026-12-01 steps=5\n%s\n" % (OLD, NEW, NEW, line))
        r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", config, "config", "check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        check(why in r.stdout.decode() and "WARMUP_2" in r.stdout.decode() and r.returncode != 0, r.stdout.decode())


pepsi.main(__file__, [steps, shared, before_and_over, away, wrong])
