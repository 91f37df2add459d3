"""/healthz and /metrics while mail flows, waits, bounces and is thrown away: the text is well-formed Prometheus, and
accepted = delivered + bounced + discarded + in queue in every single answer; `pepsi status` agrees."""
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


pepsi.main(__file__, [well_formed, balance_holds, crowd_that_says_nothing])
