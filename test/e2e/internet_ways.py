"""By which worker, from which of our addresses and by which records mail leaves for the Internet: a domain's messages go to the worker that has its
connections; source addresses that vanish from the machine and come back; literals, aliases, null MX and IPv6, in a DNS as in life."""
import os
import re
import subprocess
import sys

import pepsi
from internet import OPTIONS, Net, arrives, one_zone, report
from pepsi import check, wait_for

DOMAINS, EACH, WORKERS = 24, 12, 3


def one_worker(t):
    """Of three workers each has domains of its own: a connection that one of them holds is used by the next message, whenever that comes."""
    zones = {"d%d.test" % i: one_zone("mx", "127.9.3.%d" % (i + 1)) for i in range(DOMAINS)}
    net = Net(t, zones, options=OPTIONS.replace("PARALLELISM = 1", "PARALLELISM = %d" % WORKERS) + "SHAPE_1 = * concurrency=1 idle=60s\nIDLE_TIMEOUT = 60 s\n")
    sinks = [net.sink("127.9.3.%d" % (i + 1)) for i in range(DOMAINS)]
    for n in range(EACH):  # one after the other: each comes when the one before it is there
        for i in range(DOMAINS):
            net.accept("w%d.%d" % (i, n), "x@d%d.test" % i)
        wait_for("round %d" % n, lambda n=n: all(len(s.messages) == n + 1 for s in sinks), 60)
    net.d.wait_empty()
    used = sorted(s.connections for s in sinks)
    pepsi.say("      %d messages to %d domains over %d connections, %d workers" % (EACH * DOMAINS, DOMAINS, sum(used), len(net.d.worker_pids("init"))))
    check(len(net.d.worker_pids("init")) == WORKERS, "not all workers have work")
    # one each, and another one here and there from when not all workers were up; by chance it would be one for each worker
    check(sum(used) <= DOMAINS * 3 // 2, "connections to each: %s" % used)


A, B, C = "198.51.100.1", "198.51.100.2", "198.51.100.3"  # of TEST-NET-2: on the loopback interface of a network of our own


def ip(*args):
    r = subprocess.run([pepsi.need("ip"), *args], stdin=subprocess.DEVNULL, capture_output=True)
    check(r.returncode == 0, "ip %s: %s" % (" ".join(args), r.stderr.decode()))


def address(verb, *addresses):
    for a in addresses:
        ip("address", verb, a + "/32", "dev", "lo")


def inside(t):
    """What sources() does, in a network of our own."""
    ip("link", "set", "lo", "up")
    address("add", A, B, C)
    zones = {"d%d.test" % i: one_zone("mx", "127.9.4.%d" % (i + 1)) for i in range(12)}
    zones["own.test"] = one_zone("mx", "127.9.4.100")
    net = Net(t, zones, "SOURCES_1 = from=@sender.test to=@own.test %s=c.sender.test\nSOURCES_2 = from=@sender.test %s=a.sender.test %s=b.sender.test\n"
              "SHAPE_1 = * idle=1s backoff=1s..2s\nIDLE_TIMEOUT = 1 s\n" % (C, A, B), OPTIONS)
    heard = {}

    def sink(address):
        s = net.sink(address)
        s.script = {"ehlo": lambda name: heard.setdefault(s.address, []).append(name)}
        return s
    sinks, own = [sink("127.9.4.%d" % (i + 1)) for i in range(12)], sink("127.9.4.100")
    done = [0]

    def round_of(token, wanted):
        """A message for each of the twelve: who they came from."""
        for i in range(12):
            net.accept(token, "x@d%d.test" % i)
        wait_for(token, lambda: all(token in s.tokens() for s in sinks), 60)
        net.d.wait_empty(20)
        lines = net.logged(" relayed to=")
        new, done[0] = lines[done[0]:], len(lines)
        by = {re.search(r"to=<x@([^>]*)>", x).group(1): re.search(r"from=(\S+)", x).group(1) for x in new}
        check(len(by) == 12 and set(by.values()) == set(wanted), "%s: %s" % (token, by))
        check(len(new) == 12 and all(s.tokens().count(token) == 1 for s in sinks), "%s: twice" % token)
        return by
    first = round_of("first", (A, B))
    names = {net_domain: heard["127.9.4.%d" % (int(net_domain[1:-5]) + 1)][-1] for net_domain in first}
    check(all(("a." if first[k] == A else "b.") + "sender.test" in names[k] for k in first), "names: %s" % names)
    check(round_of("again", (A, B)) == first, "a destination changes its source")
    wait_for("idle", lambda: not any(s.open for s in sinks), 20)
    address("del", A)
    second = round_of("gone", (B,))
    check(len(net.logged("event=source-suspended")) == 1, net.logged("event=source-suspended"))
    check("address=%s " % A in net.logged("event=source-suspended")[0], net.logged("event=source-suspended"))
    net.d.counts(1, "sources", state="suspended")
    net.d.counts(2, "sources", state="usable")
    code, out, err = net.d.cli("status")
    check(code == 0 and "sources usable 2, suspended 1" in out, out + err)
    net.accept("own", "x@own.test")
    arrives("own", own)
    check("c.sender.test" in heard[own.address][-1], heard[own.address])
    done[0] += 1
    wait_for("idle", lambda: not any(s.open for s in sinks), 20)
    address("del", B)
    net.accept("none", "x@d1.test")
    wait_for("it waits, and says why", lambda: [q for q in net.d.queue() if "source addresses" in (q["last_error"] or "")], 20)
    net.accept("own2", "x@own.test")
    arrives("own2", own)
    done[0] += 1
    address("add", A, B)
    arrives("none", sinks[1], seconds=120)
    done[0] += 1
    # a pause is no longer than a minute and a half by now, and what is not suspended counts as usable
    wait_for("all of them usable", lambda: net.d.module("sources", state="suspended") == 0, 120, 0.5)
    check(round_of("back", (A, B)) == first, "they do not go back to the address they had")
    check([x for x in net.logged("event=source-back") if "address=%s\n" % A in x], "not told that it is back")


def sources(t):
    """Source addresses by sender and by destination, each with its name; one that vanishes from the machine is left out, its destinations alone go
    by another one; where none is left mail waits and says why; they are used again when they are back."""
    if not pepsi.ROOT or os.system("unshare -n true 2>/dev/null"):
        raise pepsi.Skip("no network of our own")
    r = subprocess.run(["unshare", "-n", sys.executable, "-B", os.path.abspath(__file__), "inside"], stdin=subprocess.DEVNULL)
    check(r.returncode == 0, "see above")


def ways(t):
    """Each form of a domain, at once: who gets it, or what the sender or the queue says."""
    zones = {"far.test": "@ IN MX 10 mx\nmx IN A 127.9.5.1\nmx IN AAAA ::1\n", "four.test": "@ IN MX 10 mx\nmx IN A 127.9.5.1\n",
             "alias.test": "www IN CNAME four.test.\n@ IN MX 10 a\na IN CNAME mx.four.test.\nr IN CNAME s\ns IN CNAME r\nl IN MX 10 loop\nloop IN CNAME loop2\nloop2 IN CNAME loop\n",
             "plain.test": "@ IN A 127.9.5.2\n", "six.test": "@ IN AAAA ::1\n", "both.test": "@ IN MX 0 .\n@ IN MX 10 mx.four.test.\n",
             "lonely.test": "@ IN MX 10 nowhere.far.test.\n@ IN A 127.9.5.2\n", "dead.test": "@ IN MX 10 nowhere.far.test.\n@ IN MX 20 mx.four.test.\n"}
    net = Net(t, zones, "SHAPE_1 = * backoff=1s..2s\n")
    one, two, six = net.sink("127.9.5.1"), net.sink("127.9.5.2"), net.sink("::1")
    there = {"www.alias.test": one, "alias.test": one, "[127.9.5.2]": two, "[IPv6:::1]": six, "plain.test": two, "six.test": six, "both.test": one, "dead.test": one,
             "far.test": six}
    for domain in there:
        net.accept("to-" + domain, "x@" + domain)
    net.accept("lonely", "x@lonely.test")  # it has exchangers, if none that can be found: its own address is not one (RFC 5321 5.1)
    net.accept("ring", "x@r.alias.test", "x@l.alias.test")
    for domain, where in there.items():
        arrives("to-" + domain, where)
    check(all(m.rcpts[0][0] == "x@" + m.token[3:] for s in (one, two, six) for m in s.messages), "an alias is not written into the envelope")
    text = report(net, "lonely")
    check("Status: 5.4.4" in text and "lonely.test" in text, text)
    wait_for("the rings to wait", lambda: len([q for q in net.d.queue() if "cannot be looked up now" in (q["last_error"] or "")]) == 2, 30)
    check(len(net.back.messages) == 1 and sum(len(s.messages) for s in (one, two, six)) == len(there), "something went elsewhere")


if __name__ == "__main__":
    pepsi.main(__file__, [inside] if "inside" in sys.argv[1:] else [one_worker, sources, ways])
