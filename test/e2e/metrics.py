"""/healthz and /metrics while mail flows, waits, bounces and is thrown away: the text is well-formed Prometheus, and
accepted = delivered + bounced + discarded + in queue in every single answer; `pepsi status` agrees. And what modules count
(host->measure()): from workers of both kinds, through crashes, and from modules that say what they may not."""
import os
import re
import socket
import threading
import time

import pepsi


def books(m):
    """(accepted, delivered, bounced, discarded, in queue) out of /metrics"""
    def total(name):
        pepsi.check("pepsi_messages_%s_total" % name in m, "/metrics has no count of %s: %s" % (name, sorted(m)[:60]))
        return m["pepsi_messages_%s_total" % name]
    queue = [v for k, v in m.items() if k.startswith("pepsi_queue_messages{")]
    pepsi.check(len(queue) == 5, "pepsi_queue_messages: %s" % sorted(m)[:60])
    return total("accepted"), total("delivered"), total("bounced"), total("discarded"), sum(queue)


def balance_holds(t):
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda l: "550 5.1.1 gone" if "gone" in l else "450 4.2.0 later" if "later" in l else None}
    d = pepsi.Pepsid(t, pepsi.route("init", [("far.test", "relay"), ("void.test", "void")], "void") + pepsi.smarthost("relay", sink.port, "MAX_LIFETIME = 4 s\n")
                     + "[stage-void]\nPROGRAM = pepsi-stage-discard\n\n" + pepsi.bounce())
    status, body = d.http_get("/healthz")
    pepsi.check(status == 200, "/healthz: %d %s" % (status, body))
    pepsi.check(d.http_get("/nothing")[0] == 404, "an unknown path is not 404")
    loads = [pepsi.Load(d, 2, rcpt=r, prefix=p, pause=0.01, size=800) for r, p in
             (("ok@far.test", "ok"), ("gone@far.test", "gone"), ("later@far.test", "later"), ("x@void.test", "void"))]
    wrong, looks, stop = [], [0], threading.Event()

    def watch():
        while not stop.is_set():
            try:
                a, *rest = books(d.metrics())
                looks[0] += 1
                if a != sum(rest):
                    wrong.append((a, rest))
            except Exception as e:
                wrong.append(repr(e))
            time.sleep(0.02)
    w = threading.Thread(target=watch, daemon=True)
    w.start()
    time.sleep(6)
    n = sum(len(l.stop()) for l in loads)
    d.wait_empty(60)
    stop.set()
    w.join(10)
    pepsi.check(not wrong, "%d of %d answers do not add up, e.g. accepted = %s" % (len(wrong), looks[0], wrong[:1]))
    a, delivered, bounced, discarded, queue = books(d.metrics())
    s = d.status()
    pepsi.check((a, delivered, bounced, discarded, queue) == (s["accepted"], s["delivered"], s["bounced"], s["discarded"], s["queue"]["total"]),
                "status says %s, /metrics %s" % (s, (a, delivered, bounced, discarded, queue)))
    # bounces are messages too: they were accepted from ourselves and thrown away at [stage-void]
    pepsi.check(a >= n and delivered > 0 and discarded > 0, "the books: %s of %d" % ((a, delivered, bounced, discarded), n))
    pepsi.say("      %d messages, %d looks, always balanced: accepted %d = delivered %d + bounced %d + discarded %d" % (n, looks[0], a, delivered, bounced, discarded))
    d.stop()


def well_formed(t):
    """Every sample has a # TYPE before it and a name and labels of the exposition format."""
    d = pepsi.Pepsid(t, pepsi.smarthost("init", pepsi.free_port()) + pepsi.bounce())
    status, body = d.http_get("/metrics")
    pepsi.check(status == 200 and body.endswith("\n"), "/metrics: %d" % status)
    types, seen = {}, set()
    for line in body.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            pepsi.check(name not in types, "# TYPE %s stands twice" % name)
            types[name] = kind
        elif line and not line.startswith("#"):
            m = re.match(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="(\\.|[^"\\])*",?)*\})? (-?[0-9.e+]+|NaN|\+Inf)$', line)
            pepsi.check(m, "no sample line: %r" % line)
            base = re.sub(r"_(bucket|sum|count)$", "", m.group(1))
            pepsi.check(m.group(1) in types or base in types, "no # TYPE before %s" % line)
            pepsi.check(line.rsplit(" ", 1)[0] not in seen, "twice: %s" % line)
            seen.add(line.rsplit(" ", 1)[0])
    d.stop()


def crowd_that_says_nothing(t):
    """600 connections without a request: who asks is answered at once, and a connection that is used is not the one that gives way."""
    d = pepsi.Pepsid(t, pepsi.smarthost("init", pepsi.free_port()) + pepsi.bounce())
    crowd = [socket.create_connection(("127.0.0.1", d.http), 10) for _ in range(600)]
    began = time.monotonic()
    status, _ = d.http_get("/healthz")
    took = time.monotonic() - began
    pepsi.check(status == 200 and took < 0.5 * pepsi.SLACK, "/healthz beside 600 idle connections: %d after %.1f s" % (status, took))
    pepsi.check(d.metrics()["pepsi_http_evicted_total"] >= 500, "nobody gave way")
    for c in crowd:
        c.close()
    d.stop()


BUILT = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def measuring(t, more="", many=False, init="PARALLELISM = 1\n"):
    if not os.path.exists(os.path.join(BUILT, "pepsi-stage-measure.so")):
        raise pepsi.Skip("test/stages was not built")
    stages = "[stage-init]\nPROGRAM = pepsi-stage-measure%s\n%s\n" % ("-many" if many else "", init)
    return pepsi.Pepsid(t, stages + more, pepsi="MODULE_PATH = %s:%s\n" % (BUILT, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")))


def modules_count(t, many=False):
    """Counters, gauges and timings of a module at /metrics and in status, under the names they have there."""
    d = measuring(t, many=many)
    for i in range(3):
        d.accept("s@example.test", ["x-%d@far.test" % i], b"Subject: x\r\n\r\nhello\r\n")
    d.accept("s@example.test", ["big@far.test"], b"Subject: x\r\n\r\n" + (b"y" * 70 + b"\r\n") * 30)
    d.counts(3, "seen_total", size="small")
    d.counts(1, "seen_total", size="large")
    d.counts(8, "plain_total")
    d.counts(4, "level")
    d.counts(4, "took_seconds_count")
    d.counts(4, "took_seconds_bucket", le="0.05")
    pepsi.check(d.module("took_seconds_bucket", le="0.01") == 0, "the buckets")
    pepsi.check(abs(d.module("took_seconds_sum") - 0.08) < 1e-6, "the sum")
    body = d.http_get("/metrics")[1]
    pepsi.check("# HELP pepsi_module_seen_total Messages seen.\n# TYPE pepsi_module_seen_total counter\n" in body, "no help")
    pepsi.check("# TYPE pepsi_module_took_seconds histogram\n" in body and "# TYPE pepsi_module_level gauge\n" in body, "no types")
    m = {x["name"]: x for s in d.status()["stages"] if s["name"] == "init" for x in s["metrics"]}
    pepsi.check(m["seen"]["values"] == {"large": 1, "small": 3} and m["level"]["value"] == 4 and m["took"]["value"] == {"count": 4, "seconds": 0.08}, "status: %s" % m)
    code, out, _ = d.cli("status")
    pepsi.check(code == 0 and re.search(r"init: seen .*small 3", out) and "took 4 in 0.080 s" in out, "status: %s" % out)
    # a worker that ends in order has told all, its last words too; its level goes with it
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s" % err)
    d.counts(1, "seen_total", size="closed")
    d.counts(0, "level")
    pepsi.check(d.module("seen_total", size="small") == 3, "what was counted is gone with its worker")
    d.stop()


def many_count(t):
    """The same from a module that drives many messages at once."""
    modules_count(t, True)


def crash_costs_a_second(t):
    """What a worker counted before its last second stays; the crash itself is the dispatcher's to count."""
    d = measuring(t, init="PARALLELISM = 1\nMAX_RUNTIME = 60 s\n")
    d.accept("s@example.test", ["x@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    d.counts(1, "seen_total", size="small")
    d.accept("s@example.test", ["crash@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("the crashes", lambda: d.metrics()['pepsi_stage_crashes_total{stage="init"}'] >= 3, 60, 0.2)
    pepsi.check(1 <= d.module("seen_total", size="small") <= 4, "counted: %s" % d.module("seen_total", size="small"))
    d.counts(0, "level")  # a dead worker has none
    d.accept("s@example.test", ["y@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("another count", lambda: d.module("seen_total", size="small") >= 2, 20, 0.1)
    d.stop()


def nothing_forged(t):
    """A module that writes to its worker's channel by itself: nothing of the core's, nothing of a stage that shares no process with it; too many values become
    "other"; one that never stops is killed."""
    other = "[stage-other]\nPROGRAM = pepsi-stage-measure\n\n[stage-alone]\nPROGRAM = pepsi-stage-measure\nALLOW_FUSION = NO\n\n"
    d = measuring(t, other, many=True)
    before = d.metrics()["pepsi_stage_messages_total{stage=\"init\"}"]
    d.accept("s@example.test", ["forge@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("refusals", lambda: d.metrics()["pepsi_dispatch_metrics_refused_total"] == 7, 20, 0.1)
    d.accept("s@example.test", ["x@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    d.counts(2, "seen_total", size="small")
    pepsi.check(not [k for k in d.metrics() if "pepsi_module_forged" in k], "forged")
    pepsi.check(d.metrics()["pepsi_stage_messages_total{stage=\"init\"}"] <= before + 2, "messages of the core")
    d.accept("s@example.test", ["values@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("other", lambda: (d.module("seen_total", size="other") or 0) > 700, 20, 0.1)
    seen = [k for k in d.metrics() if k.startswith("pepsi_module_seen_total{")]
    pepsi.check(len(seen) <= 257, "%d series" % len(seen))
    pepsi.check(sum(v for k, v in d.metrics().items() if k in seen) == 1003, "some are lost")
    d.stop()
    d = measuring(t)
    d.accept("s@example.test", ["flood@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("its end", lambda: d.metrics()['pepsi_stage_crashes_total{stage="init"}'] >= 1, 60, 0.2)
    pepsi.check(d.status()["healthy"], "the reactor suffers")
    d.cli("queue", "delete", "--all")
    d.stop()


def boasted(t):
    """A report whose numbers no sum holds and whose words would steer a terminal: shown as far as it goes, by tools that go on."""
    d = measuring(t)
    d.accept("s@example.test", ["boast@far.test"], b"Subject: x\r\n\r\nhello\r\n")
    pepsi.wait_for("the report", lambda: len(d.json("queue", "destinations")) == 3, 30, 0.2)
    code, out, err = d.cli("queue", "destinations")
    pepsi.check(code == 0 and "near.test" in out and not err, "%d %s %s" % (code, out, err))
    pepsi.check(not [c for c in out if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"], "characters that steer: %r" % out)
    for pattern in ("far.test", "*", "[", "x" * 600):
        pepsi.check(d.cli("queue", "destinations", pattern)[0] == 0, pattern)
    pepsi.check(d.status()["healthy"], "the reactor suffers")
    d.stop()


def relays_count(t):
    """The next hops of an operator: what was handed on, put off and refused, over how many sessions; the same names for all."""
    hop, store = pepsi.Sink(t), pepsi.Sink(t, lmtp=True)
    box = os.path.join(t.dir, "box")
    os.mkdir(box)
    os.chmod(box, 0o777)
    d = pepsi.Pepsid(t, pepsi.route("init", [("far.test", "hop"), ("near.test", "store"), ("void.test", "void")], "box")
                     + pepsi.smarthost("hop", hop.port, "IDLE_TIMEOUT = 60 s\nPARALLELISM = 1\n") + pepsi.lmtp("store", store.port)
                     + "[stage-void]\nPROGRAM = pepsi-stage-discard\n\n" + pepsi.maildir("box", box) + pepsi.bounce(to="void"))
    hop.script = {"rcpt": lambda l: "550 5.1.1 gone" if "gone" in l else "450 4.2.0 later" if "later" in l else None}

    def send(*rcpts):
        d.accept("s@example.test", list(rcpts), b"Subject: x\r\n\r\nhello\r\n")
    send("ok@far.test")
    pepsi.wait_for("the first", lambda: len(hop.messages) == 1, 20)
    send("ok@far.test", "gone@far.test")
    send("later@far.test")
    send("a@near.test")
    send("b@box.test")

    def result(stage, what):
        return d.module("deliveries_total", stage, result=what)
    pepsi.wait_for("the hop's", lambda: result("hop", "delivered") == 2 and result("hop", "failed") == 1 and result("hop", "deferred") >= 1, 30)
    pepsi.wait_for("the store's", lambda: result("store", "delivered") == 1 and result("box", "delivered") == 1, 30)
    pepsi.wait_for("sessions", lambda: d.module("sessions_total", "hop", how="opened") >= 1 and d.module("sessions_total", "hop", how="reused") >= 1, 20)
    d.counts(1, "sessions_tls_total", "store", safety="plain")
    d.counts(2, "delivery_seconds_count", "hop")
    pepsi.check(d.module("sessions_total", "box", how="opened") is None and d.module("maybe_delivered_total", "hop") == 0, "sessions, and doubts")
    stored = pepsi.wait_for("the store among the destinations", lambda: [h for h in d.json("queue", "destinations", "--stage", "store") if h["sent"]], 30, 0.5)
    pepsi.check(len(stored) == 1 and stored[0]["destination"] == "127.0.0.1:%d" % store.port and stored[0]["state"] == "good" and stored[0]["sent"] == 1, stored)
    hop.script = {"eod": "drop"}
    send("ok@far.test")
    pepsi.wait_for("what may have arrived", lambda: d.module("maybe_delivered_total", "hop") >= 1, 30)
    hop.down()
    send("ok@far.test")
    pepsi.wait_for("failed sessions", lambda: d.module("sessions_total", "hop", how="failed") >= 1, 30)
    d.cli("queue", "delete", "--all")
    d.stop()
    with open(d.log, errors="replace") as f:
        misused = [line for line in f if "event=misuse" in line]
    pepsi.check(not misused, "one of our own: %s" % misused[:3])


pepsi.main(__file__, [well_formed, balance_holds, crowd_that_says_nothing, modules_count, many_count, crash_costs_a_second, nothing_forged, boasted, relays_count])
