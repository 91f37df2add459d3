"""Clients that misbehave: gone at every octet of a transaction, talking before the banner, never reading, never ending.
What was acknowledged arrives once, nobody else is kept waiting, and the reactor's memory stays bounded."""
import os
import signal
import socket
import time

import pepsi

KEPT_KIB = 2 * 8 * 1024
TRANSACTION = [b"EHLO client.example.test\r\n", b"MAIL FROM:<sender@example.test>\r\n", b"RCPT TO:<rcpt@far.test>\r\n", b"DATA\r\n",
               b"X-Token: %d\r\n\r\nhello\r\n.\r\n", b"QUIT\r\n"]


def resident(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def connect(d):
    s = socket.create_connection(("127.0.0.1", d.port), 20)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def reply(f):
    """The last line of the next reply, or b"" at the end."""
    try:
        while True:
            line = f.readline()
            if not line or line[3:4] == b" ":
                return line
    except OSError:
        return b""


def gone_at(d, cut, token, how):
    """A client that leaves after `cut` octets, waiting for each reply on the way. Did it get its 250?"""
    s = connect(d)
    f = s.makefile("rb")
    reply(f)
    acknowledged = False
    for i, whole in enumerate(TRANSACTION):
        line = whole % token if b"%d" in whole else whole
        part, cut = line[:cut], cut - len(line[:cut])
        s.sendall(part)
        if len(part) < len(line) or (how == "deaf" and i == 4):
            break
        answer = reply(f)
        acknowledged = acknowledged or (i == 4 and answer.startswith(b"250"))
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    f.close()
    s.close()
    return acknowledged


def gone_at_every_octet(t):
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce())
    acked, token = set(), 1000
    for cut in range(sum(len(x) for x in TRANSACTION) + 3):
        for how in ("end", "reset", "deaf"):
            token += 1
            if gone_at(d, cut, token, how):
                acked.add(str(token))
    d.wait_empty(30)
    got = sink.tokens()
    pepsi.check(len(acked) > 10, "only %d were acknowledged" % len(acked))
    pepsi.check(not acked - set(got), "acknowledged and lost: %s" % sorted(acked - set(got)))
    pepsi.check(len(got) == len(set(got)), "some arrived twice")
    pepsi.wait_for("no session left", lambda: d.status()["ingress"]["sessions"] == 0, 10)
    d.stop()


def talks_before_the_banner(t):
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-discard\n")
    refused = 0
    for first in (b"EHLO client.example.test\r\n", b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"x" * 5000):
        # stopped, it finds the connection and the octets at the same time: no race
        reactor = d.reactor_pid()
        os.kill(reactor, signal.SIGSTOP)
        s = connect(d)
        s.sendall(first)
        os.kill(reactor, signal.SIGCONT)
        answer = b""
        try:
            while len(answer) < 4096:
                got = s.recv(4096)
                if not got:
                    break
                answer += got
        except OSError:
            pass
        s.close()
        refused += answer.startswith(b"554 ")
        pepsi.check(b"220 " not in answer and b"250" not in answer, "%r was answered %r" % (first[:20], answer))
    pepsi.check(refused >= 3, "only %d were told why" % refused)
    d.accept("sender@example.test", "rcpt@example.test", pepsi.message("patient"))
    d.stop()


def trickles(t):
    """Who sends octet by octet is served at leisure, nothing is lost, deadlines hold, and who recovers is served at once."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(), listener="COMMAND_TIMEOUT = 10 s\n")

    def trickle(s, octets, gap=0.15):
        for i in range(len(octets)):
            s.sendall(octets[i:i + 1])
            time.sleep(gap)
    s = connect(d)
    f = s.makefile("rb")
    reply(f)
    trickle(s, b"EHLO client.example.test\r\n")
    began = time.monotonic()
    pepsi.check(reply(f).startswith(b"250 "), "no answer to what trickled in")
    pepsi.check(time.monotonic() - began < 4.5 + pepsi.SLACK, "the answer to what trickled in took %.1f s" % (time.monotonic() - began))
    pepsi.wait_for("the reactor knows that it trickles", lambda: trickle(s, b"NOOP xxxxxxx") or d.metrics()["pepsi_smtp_trickling"] == 1, 5)
    # whole lines, long or short, are heard again; so is the message, part of which trickles
    s.sendall(b"\r\nRSET\r\n")
    pepsi.check([reply(f)[:3] for _ in range(2)] == [b"250"] * 2, "RSET behind the trickle")
    for line in TRANSACTION[1:4]:
        s.sendall(line)
        pepsi.check(reply(f)[:1] in (b"2", b"3"), "%r" % line)
    trickle(s, b"X-Token: trickled\r\n")
    s.sendall(b"X-Filler: %s\r\n\r\nhello\r\n" % (b"x" * 500))
    trickle(s, b"the end\r\n.\r\n")
    pepsi.check(reply(f).startswith(b"250 "), "the message that trickled in")
    pepsi.wait_for("the message", lambda: "trickled" in sink.tokens(), 20)
    # one that only trickles is dropped by its deadline, within a look or two
    deaf = connect(d)
    f = deaf.makefile("rb")
    reply(f)
    began, gone = time.monotonic(), b""
    deaf.settimeout(0.3)
    while not gone and time.monotonic() < began + 40 * pepsi.SLACK:
        try:
            deaf.sendall(b"x")
            gone = deaf.recv(100)
        except socket.timeout:
            pass
        except OSError:
            break
    took = time.monotonic() - began
    pepsi.check(gone.startswith(b"421 ") and 9.5 < took < 12 + pepsi.SLACK, "%r after %.1f s" % (gone, took))
    # the last octet that came in time counts, fetched or not: the command is answered, not timed out
    s, late = connect(d), 0.0
    f = s.makefile("rb")
    reply(f)
    began = time.monotonic()
    while time.monotonic() < began + 8.5:
        s.sendall(b"x" if late else b"NOOP ")
        late = 1.0
        time.sleep(0.5)
    s.sendall(b"\r\n")
    pepsi.check(reply(f).startswith(b"250 "), "a command that was complete before its deadline")
    d.stop()


def crowds(t):
    """Sessions that never read, sessions that hang in the middle of a message, and header bombs, all at once."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(), listener="MAX_CONNECTIONS = 3000\nMAX_CONNECTIONS_PER_ADDRESS = 3000\n")
    pid, begin, crowd = d.reactor_pid(), 0, []
    begin = resident(pid)

    def into_data():
        s = connect(d)
        f = s.makefile("rb")
        reply(f)
        for line in TRANSACTION[:4]:
            s.sendall(line)
            reply(f)
        crowd.append(s)
        return s
    for _ in range(30):
        s = connect(d)
        s.settimeout(0.3)
        try:
            for _ in range(3000):
                s.sendall(b"NOOP\r\n" * 1000)
        except OSError:
            pass
        crowd.append(s)
    for _ in range(300):
        into_data().sendall(b"Subject: x\r\n\r\n" + b"y" * 70000)
    for _ in range(150):
        s = into_data()
        s.settimeout(2)
        try:
            s.sendall(b"X: y\r\n" * 9000 + b"Z: " + b"a" * 900000)
        except OSError:
            pass
    began = time.monotonic()
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("through"))
    pepsi.check(time.monotonic() - began < 2 * pepsi.SLACK, "an honest message took %.1f s" % (time.monotonic() - began))
    top = resident(pid)
    for s in crowd:
        s.close()
    pepsi.wait_for("no session left", lambda: d.status()["ingress"]["sessions"] == 0, 20)
    pepsi.wait_for("the honest message", lambda: "through" in sink.tokens(), 20)
    after = resident(pid)
    pepsi.say("      resident: %d KiB before, %d at the height, %d after" % (begin, top, after))
    if not pepsi.SANITIZED:
        pepsi.check(top < 256 * 1024, "the reactor grew to %d KiB" % top)
        # what may stay is MEMORY_KEEP and the pages that something small lies in (core/daemon/memory.h); as much again for these
        pepsi.wait_for("memory given back", lambda: resident(pid) < begin + KEPT_KIB, 10, 0.5)
        pepsi.say("      %d KiB when it was given back: %.3f s for %.0f MiB" % (resident(pid), d.metrics()["pepsi_reactor_returning_seconds_total"],
                                                                          d.metrics()["pepsi_reactor_returned_bytes_total"] / (1 << 20)))
    for name, data, codes in (("11000 header lines", b"X: y\r\n" * 11000 + b"\r\nb\r\n", (554,)), ("a header of 1.1 MiB", b"X: " + b"a" * 1100000 + b"\r\n\r\nb\r\n", (554,)),
                              ("120 Received", b"Received: x\r\n" * 120 + b"\r\nb\r\n", (554,)), ("a line of 5 MiB", b"a: b\r\n\r\n" + b"x" * 5000000 + b"\r\n", (250, 554))):
        code, text = d.send("sender@example.test", "rcpt@far.test", data)
        pepsi.check(code in codes, "%s: %d %s" % (name, code, text))
    d.stop()


pepsi.main(__file__, [gone_at_every_octet, talks_before_the_banner, trickles, crowds])
