"""What an operator says comes before a put-off. Sixty messages become due at once for a host that takes nothing: one is tried, many of the others are
never claimed, and all wait for a quarter of an hour at least. `pepsi queue retry` lets what it names go at once, what is held stays held all the time."""
import re
import time

import authority
import pepsi
from pepsi import Pepsid, Sink, check, message, wait_for

ADDRESS, EACH, HELD = "127.9.2.1", 50, 10
MINUTE = 60


def ok(d, *args):
    code, out, err = d.cli(*args)
    check(code == 0, "%s: %d %s%s" % (" ".join(args), code, out, err))
    return out


def site(t):
    port = pepsi.free_port()
    dns = authority.start(t, {"sender.test": "@ IN MX 10 mx\nmx IN A 127.9.0.1\n", "d.test": "@ IN MX 10 mx\nmx IN A %s\n" % ADDRESS})
    sink = Sink(t, port=port, address=ADDRESS)
    sink.script["banner"] = "421 4.3.2 not now"
    stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nFAMILY = ipv4\nDANE = NO\nMTA_STS = NO\nTLSRPT = NO\n"
             "PARALLELISM = 1\nQUEUE_LIMIT = 10\nRETRY_MIN = 15 min\nRETRY_MAX = 30 min\nSHAPE_1 = * backoff=15min..30min\nBOUNCE_STAGE = bounce\n" % port)
    return Pepsid(t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n" % dns), sink


def due_at_once(d, sender, n, due):
    s = pepsi.Smtp(d.port)
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due))
    for _ in range(n):
        s.sock.sendall(b"MAIL FROM:<%s> HOLDUNTIL=%s\r\nRCPT TO:<x@d.test>\r\nDATA\r\n" % (sender.encode(), until.encode()))
        check([s.reply()[0] for _ in range(3)] == [250, 250, 354], "refused")
        s.sock.sendall(message("p", sender=sender) + b".\r\n")
        check(s.reply()[0] == 250, "refused")
    s.close()


def ahead(row):
    """Seconds until it is tried again."""
    at = time.strptime(row["next_attempt_at"][:19], "%Y-%m-%dT%H:%M:%S")
    return time.mktime(at) - time.mktime(time.gmtime())


def operator(t):
    """retry by id while the host takes nothing and when it is well again; hold rules and holds by hand; all of it arrives once, in the end"""
    pepsi.need("nsd")
    d, sink = site(t)
    held = re.match(r"rule (\d+) is in force", ok(d, "queue", "hold", "add", "--sender", "held@sender.test")).group(1)
    due = int(time.time()) + 5
    due_at_once(d, "me@sender.test", EACH, due)
    due_at_once(d, "held@sender.test", HELD, due)

    def settled():
        rows = d.queue()
        free = [r for r in rows if not r["held"]]
        return (len(rows), len(free)) == (EACH + HELD, EACH) and all(r["status"] == "paused" and r["last_error"] and ahead(r) > 5 * MINUTE for r in free)
    wait_for("all to wait for the host, and the rule's to be held", settled, 90)
    n = d.status()["dispatch"]["put_off"]
    pepsi.say("      %d of %d were put off unseen" % (n, EACH))
    check(n >= EACH // 5, "%d were put off" % n)
    waits = [r for r in d.queue() if not r["held"] and "not tried now" in r["last_error"]]
    check(len(waits) >= EACH * 3 // 5, "%s" % waits[:2])

    # the host still takes nothing: a worker is asked all the same, and says why not
    first = str(waits[-1]["id"])

    def asked():
        with open(d.log, errors="replace") as f:
            return sum("id=%s " % first in line and "waits domain=d.test why=backoff" in line for line in f)
    before = asked()
    check(ok(d, "queue", "retry", first).startswith("1 message made to run again"), "retry")
    wait_for("a worker to be asked", lambda: asked() > before, 60)

    # it is well again, and a new worker knows nothing of its past: of those that wait only the one that is named is tried
    wait_for("it to wait again", settled, 60)
    sink.script.clear()
    ok(d, "reload")
    ok(d, "queue", "retry", first)
    wait_for("one message", lambda: len(sink.messages) >= 1, 60)
    wait_for("its row to go", lambda: len(d.queue()) < EACH + HELD, 60)
    check(len(sink.messages) == 1 and len(d.queue()) == EACH + HELD - 1, "%d arrived, %d wait" % (len(sink.messages), len(d.queue())))
    by_hand = [str(r["id"]) for r in d.queue() if not r["held"]][:5]
    check(ok(d, "queue", "hold", *by_hand).startswith("5 messages held"), "by hand")
    check(ok(d, "queue", "retry", "--all").startswith("%d messages made to run again" % (EACH - 1 - 5)), "all that is not held")
    wait_for("all that is not held", lambda: len(sink.messages) >= EACH - 5, 60)
    wait_for("what is held to be all", lambda: len(d.queue()) == HELD + 5 and all(r["held"] for r in d.queue()), 60)
    check(len(sink.messages) == EACH - 5, "%d arrived" % len(sink.messages))
    ok(d, "queue", "hold", "remove", held)
    ok(d, "queue", "release", *by_hand)
    d.wait_empty(60)
    check(len(sink.messages) == EACH + HELD, "%d arrived" % len(sink.messages))


pepsi.main(__file__, [operator])
