"""A crowd at the door: idle sessions, plain and within TLS, then clients that say one octet a second, while mail flows. Two daemons, one with
the crowd and one without, take turns within one run, so that what else the machine does hits both; what is compared is the median of the
rounds' ratios. The suite runs it small and holds only what does not depend on the machine's speed; `sh contrib/crowd` runs it at full size
on the release build and holds the figures, too.

    PEPSI_BIN=build/bin python3 test/e2e/crowd.py
    PEPSI_CROWD="10000 5000 5000"   sizes: idle plain, idle TLS, slow (default: 300 200 200)
    PEPSI_CROWD_ROUNDS=7            rounds of each comparison, each PEPSI_CROWD_SECONDS=4 for either daemon
    PEPSI_CROWD_STRICT=1            fail when a figure is missed
"""
import itertools
import multiprocessing
import os
import resource
import selectors
import socket
import ssl
import statistics
import struct
import time

import pepsi
from certs import Authority

PLAIN, TLS, SLOW = (int(x) for x in (os.environ.get("PEPSI_CROWD") or "300 200 200").split())
ROUNDS, SECONDS = int(os.environ.get("PEPSI_CROWD_ROUNDS") or 2), float(os.environ.get("PEPSI_CROWD_SECONDS") or 1)
STRICT = os.environ.get("PEPSI_CROWD_STRICT") == "1"
SENDERS = 16
SPARE = 1024 + 100  # descriptors of the reactor that no session of the crowd may have: its own, and those of who sends
COMMAND_S, SESSION_S = (8, 12) if SLOW <= 1000 else (int(ROUNDS * SECONDS * 2 + 75), int(ROUNDS * SECONDS * 2 + 90))
GOALS = {"rate": 0.9, "plain": 16, "tls": 64, "new": 100, "p99": 250}
missed = []


def goal(what, good, text):
    pepsi.say("      %s%s" % (text, "" if good else "   MISSED"))
    if not good:
        missed.append(what + ": " + text)


def connect(port, n):
    """From one of a few addresses, so that there are ports enough."""
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
    s.bind(("127.0.0.%d" % (2 + n % 8), 0))
    s.settimeout(120)
    s.connect(("127.0.0.1", port))
    return s


def until(s, buffer=b""):
    """One reply, read from s."""
    while not (buffer.endswith(b"\n") and b" " == buffer[buffer.rfind(b"\n", 0, -1) + 4:][:1]):
        got = s.recv(4096)
        if not got:
            raise pepsi.Failed("the connection ended: %r" % buffer)
        buffer += got
    return buffer


def many_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Crowd:
    """A process that holds sessions; commands go to it over a pipe."""

    def __init__(self, t, function, *args):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self.main, args=(function, theirs) + args, daemon=True)
        self.process.start()
        theirs.close()
        t.cleanup(self.end)

    @staticmethod
    def main(function, pipe, *args):
        pepsi.signal.signal(pepsi.signal.SIGALRM, pepsi.signal.SIG_DFL)
        pepsi.signal.signal(pepsi.signal.SIGTERM, pepsi.signal.SIG_DFL)
        pepsi.die_with_me()
        many_descriptors()
        try:
            function(pipe, *args)
        except EOFError:
            pass
        except Exception as e:  # the parent says it
            pipe.send("%s: %s" % (type(e).__name__, e))

    def ask(self, *command, seconds=180):
        if command:
            self.pipe.send(command)
        if not self.pipe.poll(seconds):
            raise pepsi.Failed("the crowd did not answer to %s within %d s" % (command[:2], seconds))
        got = self.pipe.recv()
        pepsi.check(not isinstance(got, str), "the crowd: %s" % (got,))
        return got

    def end(self):
        self.process.terminate()
        self.process.join(10)
        self.pipe.close()


def idle(pipe, port, n, ca):
    """n sessions behind EHLO; "more", k: k more; "fewer", k: k are closed; "alive": how many of them still are."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    sessions = []

    def one():
        s = connect(port, len(sessions))
        until(s)
        if n == "tls":
            s.sendall(b"EHLO idle.example.test\r\n")
            until(s)
            s.sendall(b"STARTTLS\r\n")
            until(s)
            s = context.wrap_socket(s)
        s.sendall(b"EHLO idle.example.test\r\n")
        until(s)
        sessions.append(s)
    while True:
        what, k = pipe.recv()
        if what == "more":
            for _ in range(k):
                one()
        elif what == "fewer":
            for _ in range(k):
                sessions.pop().close()
        else:
            for s in sessions[::max(1, len(sessions) // 100)]:
                s.sendall(b"NOOP\r\n")
                if not until(s).startswith(b"250"):
                    raise pepsi.Failed("an idle session was told something else than 250")
        pipe.send(len(sessions))


def hello(ca):
    """The octets of a ClientHello."""
    out = ssl.MemoryBIO()
    o = ssl.create_default_context(cafile=ca).wrap_bio(ssl.MemoryBIO(), out, server_hostname="mx.example.test")
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


KINDS = {  # what is said at once, how many replies there are to it, what then trickles, over and over
    "command": (b"", 0, b"NOOP " + b"x" * 400),
    "commands": (b"", 0, b"NOOP\r\n"),
    "data": (b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@example.test>\r\nDATA\r\n", 3, b"Subject: slow\r\n\r\n" + b"x" * 400),
    "bdat": (b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@example.test>\r\nBDAT 100000 LAST\r\n", 2, b"Subject: slow\r\n\r\n" + b"x" * 400),
    "handshake": (b"STARTTLS\r\n", 1, None),
}


def slow(pipe, port, n, ca):
    """n clients of all kinds, one octet a second each while it is "go"; "ended": [(kind, seconds lived)] of those that are gone."""
    greeting, clients, ended = hello(ca), {}, []
    names = list(KINDS)
    sel = selectors.DefaultSelector()
    for i in range(n):
        kind = names[i % len(names)]
        first, replies, trickle = KINDS[kind]
        s = connect(port, i)
        began = time.monotonic()
        until(s)
        s.sendall(b"EHLO slow.example.test\r\n")
        until(s)
        if first:
            s.sendall(first)
            got = b""
            while got.count(b"\r\n") < replies:
                got += s.recv(4096)
        s.setblocking(False)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        octets = trickle or greeting[:-1]
        # as cheap as Python can: what is to be measured is the server, and this process has one of the processors that it wants
        clients[s] = [kind, began, s.send, itertools.cycle([octets[k:k + 1] for k in range(len(octets))]).__next__]
        sel.register(s, selectors.EVENT_READ)
    pipe.send(len(clients))
    going, order, at, due = False, list(clients), 0, time.monotonic()

    def gone(s):
        kind, began = clients.pop(s)[:2]
        ended.append((kind, time.monotonic() - began))
        sel.unregister(s)
        s.close()
    while True:
        if pipe.poll(0):
            what = pipe.recv()[0]
            if what in ("go", "pause"):
                going, due = what == "go", time.monotonic()
            pipe.send((list(ended), len(clients)))
        if going and order:
            # a hundredth of them every 10 ms, so that it is a stream and no burst
            for s in order[at::100]:
                c = clients.get(s)
                if not c:
                    continue
                try:
                    c[2](c[3]())
                except BlockingIOError:
                    pass
                except OSError:
                    gone(s)
            at = (at + 1) % 100
            if at == 0:
                order = [s for s in order if s in clients]
            due += 0.01
        for key, _ in sel.select(max(0.0, min(0.01, due - time.monotonic())) if going else 0.01):
            try:
                if not key.fileobj.recv(65536):
                    gone(key.fileobj)
            except BlockingIOError:
                pass
            except OSError:
                gone(key.fileobj)


BODY = b"From: <a@b.test>\r\nSubject: flow\r\n\r\n" + b"all work and no play makes mail a dull thing to look at, line for line\r\n" * 28 + b".\r\n"
ENVELOPE = b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@example.test>\r\nDATA\r\n"


def flow(pipe):
    """Normal clients. "run", port, seconds: (messages, seconds, their latencies in s, new clients' times in s)."""
    while True:
        _, port, seconds = pipe.recv()
        sel, latencies, news = selectors.DefaultSelector(), [], []
        for i in range(SENDERS):
            s = connect(port, i)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            until(s)
            s.sendall(b"EHLO flow.example.test\r\n")
            until(s)
            s.setblocking(False)
            sel.register(s, selectors.EVENT_READ, [b"", False, 0.0])
        begin = now = time.monotonic()
        for key in list(sel.get_map().values()):
            key.data[2] = now
            key.fileobj.sendall(ENVELOPE)
        next_new, new = begin, None
        while now < begin + seconds:
            if new is None and now >= next_new:
                new, new_at, next_new = connect(port, 5), time.monotonic(), now + 0.05
                new.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                new.setblocking(False)
                sel.register(new, selectors.EVENT_READ, None)
            for key, _ in sel.select(0.05):
                s, state = key.fileobj, key.data
                got = s.recv(65536)
                now = time.monotonic()
                if state is None:  # the newcomer: banner, then EHLO
                    if got.startswith(b"220") and len(got) < 200:
                        s.sendall(b"EHLO new.example.test\r\n")
                    elif got:
                        news.append(now - new_at)
                    if not got.startswith(b"220"):
                        sel.unregister(s)
                        s.close()
                        new = None
                    continue
                if not got:
                    raise pepsi.Failed("a normal session was ended")
                state[0] += got
                lines = state[0].count(b"\r\n")
                if not state[1] and lines >= 3:
                    if b"\r\n354 " not in state[0]:
                        raise pepsi.Failed("no 354 but %r" % state[0])
                    s.sendall(BODY)
                    state[:2] = b"", True
                elif state[1] and lines >= 1:
                    if not state[0].startswith(b"250 "):
                        raise pepsi.Failed("no 250 but %r" % state[0])
                    latencies.append(now - state[2])
                    state[:] = b"", False, now
                    s.sendall(ENVELOPE)
            now = time.monotonic()
        took = now - begin
        for key in list(sel.get_map().values()):
            # with a reset, so that no port stays behind; what is under way is not counted
            key.fileobj.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            key.fileobj.close()
        sel.close()
        pipe.send((len(latencies), took, latencies, news))


def resident(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def cpu(pid):
    with open("/proc/%d/stat" % pid) as f:
        s = f.read()
    c = s[s.rindex(")") + 2:].split()
    return (int(c[11]) + int(c[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * q))] * 1000 if values else 0.0


def compare(what, mail, crowded, empty, slow_ones=None):
    """Rounds in turns; prints the figures."""
    ratios, rates, latencies, news, other = [], ([], []), [], [], []
    total, spent, pids = [0, 0], [0.0, 0.0], [crowded.reactor_pid(), empty.reactor_pid()]
    drivers, used, lasted = [("mail", mail)] + ([("the slow clients", slow_ones)] if slow_ones else []), {}, [0.0, 0.0]
    for i in range(ROUNDS + 1):
        got = [None, None]
        for which in ((0, 1) if i % 2 else (1, 0)):
            if slow_ones:
                slow_ones.ask("pause" if which else "go")
            at, ours = cpu(pids[which]), [cpu(w.process.pid) for _, w in drivers]
            n, took, lat, new = mail.ask("run", (empty if which else crowded).port, SECONDS)
            got[which] = n / took
            total[which] += n
            spent[which] += cpu(pids[which]) - at
            lasted[which] += took
            for (name, w), before in zip(drivers, ours):
                used[name, which] = used.get((name, which), 0.0) + cpu(w.process.pid) - before
            if i:  # the first round warms both up
                (other if which else latencies).extend(lat)
                if not which:
                    news.extend(new)
        if i:
            ratios.append(got[0] / got[1])
            rates[0].append(got[0])
            rates[1].append(got[1])
    if slow_ones:
        slow_ones.ask("go")
    pepsi.check(latencies and news, "nothing went through")
    goal("rate", statistics.median(ratios) >= GOALS["rate"],
         "%s: %.0f messages/s beside %.0f without the crowd; ratio %.2f (median of %d rounds; half of them between %.2f and %.2f)"
         % (what, statistics.median(rates[0]), statistics.median(rates[1]), statistics.median(ratios), ROUNDS, *(sorted(ratios)[int(ROUNDS * q)] for q in (0.25, 0.75))))
    pepsi.say("      %s: the reactor takes %.0f us a message, %.0f without the crowd" % (what, spent[0] / total[0] * 1e6, spent[1] / total[1] * 1e6))
    pepsi.say("      %s: the test's own processes take %s of one CPU" % (what, ", ".join(
        "%.0f %% (%.0f without) for %s" % (used[name, 0] / lasted[0] * 100, used[name, 1] / lasted[1] * 100, name) for name, _ in drivers)))
    p99 = quantile(latencies, 0.99)
    goal("p99", p99 < GOALS["p99"], "%s: a normal message p50 %.1f ms, p99 %.1f ms, max %.1f ms (%d messages); without the crowd p99 %.1f ms"
         % (what, quantile(latencies, 0.5), p99, quantile(latencies, 1), len(latencies), quantile(other, 0.99)))
    goal("new", quantile(news, 0.99) < GOALS["new"], "%s: a new client is served (banner and EHLO) in p50 %.1f ms, p99 %.1f ms, max %.1f ms (%d clients)"
         % (what, quantile(news, 0.5), quantile(news, 0.99), quantile(news, 1), len(news)))


def octets(d, slow_ones):
    """What one octet costs by itself: nothing else happens."""
    slow_ones.ask("go")
    time.sleep(6)  # five octets each, and it is known who they are
    pid = d.reactor_pid()
    began, at, ours = time.monotonic(), cpu(pid), cpu(slow_ones.process.pid)
    time.sleep(4)
    n = (time.monotonic() - began) * SLOW
    pepsi.say("      an octet of a slow client: %.1f us of the reactor, %.1f of the client" % ((cpu(pid) - at) / n * 1e6, (cpu(slow_ones.process.pid) - ours) / n * 1e6))
    pepsi.check(d.metrics()["pepsi_smtp_trickling"] > SLOW * 0.9, "%d of them are known by their pace" % d.metrics()["pepsi_smtp_trickling"])


def crowd(t):
    many_descriptors()
    ca = Authority(t)
    tls = "TLS_CERT = %s\nTLS_KEY = %s\n" % ca.issue("mx.example.test", "DNS:mx.example.test")
    limits = "MAX_CONNECTIONS = 50000\nMAX_CONNECTIONS_PER_ADDRESS = 50000\n"
    waiting, slow_port = pepsi.free_port(), pepsi.free_port()
    stage = "[stage-init]\nPROGRAM = pepsi-stage-discard\n"
    crowded = pepsi.Pepsid(t, stage, listener=limits,
                           more="[listener-waiting]\nBIND = 127.0.0.1:%d\nCOMMAND_TIMEOUT = 1 h\n%s%s[listener-slow]\nBIND = 127.0.0.1:%d\n"
                           "COMMAND_TIMEOUT = %d s\nSESSION_TIMEOUT = %d s\n%s%s" % (waiting, limits, tls, slow_port, COMMAND_S, SESSION_S, limits, tls))
    empty = pepsi.Pepsid(t, stage, listener=limits)
    reactor = crowded.reactor_pid()
    room = 1 << 30
    with open("/proc/%d/limits" % reactor) as f:
        for line in f:
            if line.startswith("Max open files"):
                room = int(line.split()[3]) - SPARE
    mail = Crowd(t, flow)
    mail.ask("run", crowded.port, 1.0)  # pools, caches, the first worker
    # -- idle
    plain, secure = Crowd(t, idle, waiting, "plain", ca.cert), Crowd(t, idle, waiting, "tls", ca.cert)
    for name, key, who, n in (("plain", "plain", plain, min(PLAIN, room)), ("TLS", "tls", secure, min(TLS, max(0, room - PLAIN)))):
        warm = min(100, n // 2)
        who.ask("more", warm)
        before = resident(reactor)
        began = time.monotonic()
        for at in range(warm, n, 500):
            who.ask("more", min(500, n - at))
        each = (resident(reactor) - before) / (n - warm)
        goal(key, pepsi.SANITIZED or each <= GOALS[key], "%d idle sessions, %s: %.1f KiB each in the reactor; made at %.0f a second" % (
            n, name, each, (n - warm) / (time.monotonic() - began)))
    have = crowded.status()["ingress"]["sessions"]
    pepsi.check(have == min(PLAIN + TLS, room), "%d sessions are there" % have)
    at = cpu(reactor)
    time.sleep(3)
    pepsi.say("      the reactor takes %.1f %% of one CPU for the idle sessions" % ((cpu(reactor) - at) / 3 * 100))
    compare("%d idle" % have, mail, crowded, empty)
    # -- slow
    left = PLAIN + TLS - max(0, PLAIN + TLS + SLOW - room)
    if left < have:
        pepsi.say("      descriptors end at %d: %d idle sessions leave first" % (room + SPARE, have - left))
        plain.ask("fewer", have - left)
    slow_ones = Crowd(t, slow, slow_port, SLOW, ca.cert)
    pepsi.check(slow_ones.ask() == SLOW, "not all slow clients got in")
    compare("%d idle and %d slow" % (min(left, have), SLOW), mail, crowded, empty, slow_ones)
    if COMMAND_S > 60:  # in the small form they are about to be dropped (e2e/abuse has clients that trickle)
        octets(crowded, slow_ones)
    ended, still = slow_ones.ask("go")
    early = [e for e in ended if e[1] < COMMAND_S - 1]
    pepsi.check(not early, "slow clients were dropped before their deadline: %s" % early[:5])
    # they all go at about the same time: nobody else may notice
    latencies, news, end = [], [], time.monotonic() + SESSION_S + 60
    while still:
        pepsi.check(time.monotonic() < end, "%d slow clients are still there" % still)
        n, took, lat, new = mail.ask("run", crowded.port, 1.0)
        latencies += lat
        news += new
        ended, still = slow_ones.ask("look")
    late = {}
    for kind in KINDS:
        limit = SESSION_S if kind == "commands" else COMMAND_S
        lived = [s for k, s in ended if k == kind]
        late[kind] = max(lived) - limit
        # (a command that a pause of ours stretched may be the one that took too long)
        pepsi.check(min(lived) > COMMAND_S - 1, "%s: dropped after %.1f s, before its deadline of %d" % (kind, min(lived), COMMAND_S))
    pepsi.say("      %d slow clients dropped, each by its deadline: at most %s s after it" % (len(ended), ", ".join("%s %.1f" % (k, v) for k, v in late.items())))
    goal("drop", max(late.values()) < 5 * (3 if pepsi.SANITIZED else 1), "the last of them %.1f s after it" % max(late.values()))
    goal("p99", quantile(latencies, 0.99) < GOALS["p99"], "while they were dropped: a normal message p99 %.1f ms, max %.1f ms; a new client p99 %.1f ms, max %.1f ms"
         % (quantile(latencies, 0.99), quantile(latencies, 1), quantile(news, 0.99), quantile(news, 1)))
    # those who wait were not touched
    pepsi.check(plain.ask("alive", 0) + secure.ask("alive", 0) == min(left, have), "idle sessions were lost")
    pepsi.check(crowded.reactor_pid() == reactor, "another reactor")
    for who in (plain, secure, slow_ones):
        who.end()
    pepsi.wait_for("no session of theirs left", lambda: crowded.status()["ingress"]["sessions"] <= SENDERS, 30)
    crowded.wait_empty(60)
    m = crowded.metrics()
    pepsi.check(m["pepsi_smtp_timeouts_total"] == SLOW, "%s timeouts were counted" % m["pepsi_smtp_timeouts_total"])
    for d in (crowded, empty):
        d.stop(60)
    if STRICT:
        pepsi.check(not missed, "missed: " + "; ".join(missed))


pepsi.main(__file__, [crowd])
