"""Many messages wait for their verdict at once while the DNS is silent: each takes a bounded piece of memory, others are served meanwhile, all get an answer
when their time is up, and the memory is given back. PEPSI_AUTH_CROWD: how many (1000; the attack is 5000, which takes 20,000 descriptors for both)."""
import os
import resource
import socket
import time

import pepsi

CROWD = int(os.environ.get("PEPSI_AUTH_CROWD", "1000"))
PER_SESSION = 128 if pepsi.SANITIZED else 64  # KiB: 32 are charged for an evaluation, the rest is session, spool and questions; a sanitizer pads every piece
SIGNED = "".join("DKIM-Signature: v=1; a=rsa-sha256; d=s%d.ZONE.test; s=k; h=from; bh=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=; b=AAAA\r\n" % i for i in range(10))


def line(s, want):
    got = b""
    while not got.endswith(b"\n") or got.splitlines()[-1][3:4] == b"-":
        piece = s.recv(4096)
        pepsi.check(piece, "closed: %r" % got)
        got += piece
    pepsi.check(got.startswith(want), got)
    return got


def rss(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def crowd(t):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * CROWD + 500), hard))
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    t.cleanup(silent.close)
    d = pepsi.Pepsid(t, pepsi.maildir("init", os.path.join(t.dir, "mail")) + pepsi.bounce(), pepsi="RELAY_NETWORKS = 192.0.2.0/24\n",
                     listener="MAX_CONNECTIONS = %d\nMAX_CONNECTIONS_PER_ADDRESS = 100000\nMAX_CONNECTIONS_PER_NETWORK = 0\nMESSAGES_PER_MINUTE = 0\nMESSAGES_PER_HOUR = 0\n"
                              "CONNECTIONS_PER_MINUTE = 0\nRECIPIENTS_PER_MINUTE = 0\nRECIPIENTS_PER_HOUR = 0\nAUTHENTICATION_QUERIES_PER_MINUTE = 0\nSPF = enforce\nDKIM = enforce\nDMARC = enforce\n"
                              "AUTHENTICATION_TIMEOUT = 25 s\n" % (CROWD + 200),
                     more="[pepsi-dns]\nSERVERS = 127.0.0.1:%d\nTIMEOUT = 30 s\nLOOKUP_DEADLINE = 60 s\n" % silent.getsockname()[1])
    pid, sessions = d.reactor_pid(), []
    before = rss(pid)
    begun = time.monotonic()
    for i in range(CROWD):
        s = socket.create_connection(("127.0.0.1", d.port), timeout=60)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line(s, b"220")
        s.sendall(b"EHLO client.test\r\n")
        line(s, b"250")
        s.sendall(b"MAIL FROM:<a@n%d.test>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\n" % i)
        got = b""
        while b"354" not in got:
            got += s.recv(4096)
            pepsi.check(b"\r\n4" not in got and b"\r\n5" not in got, got)
        s.sendall((SIGNED.replace("ZONE", "n%d" % i) + "From: <a@n%d.test>\r\nSubject: x\r\n\r\nx\r\n.\r\n" % i).encode())
        sessions.append(s)
        if time.monotonic() - begun > 20:
            break
    n, took = len(sessions), time.monotonic() - begun
    height = rss(pid)
    each = (height - before) / n
    # others are served meanwhile
    worst = 0.0
    for _ in range(20):
        t0 = time.monotonic()
        p = pepsi.Smtp(d.port)
        p.cmd("NOOP")
        p.close()
        worst = max(worst, time.monotonic() - t0)
    pepsi.say("%d messages wait after %.1f s: %.1f KiB each; another session needs %.0f ms at worst" % (n, took, each, worst * 1000))
    pepsi.check(n >= min(CROWD, 300), "only %d sessions in time" % n)
    pepsi.check(each <= PER_SESSION, "%.1f KiB each" % each)
    pepsi.check(worst < 0.5 * pepsi.SLACK, "another session waited %.2f s" % worst)
    m = d.metrics()
    pepsi.check(0 < m["pepsi_dns_in_flight"] <= 1000, "questions under way: %s" % m["pepsi_dns_in_flight"])
    answers = {}
    for s in sessions:
        s.settimeout(90)
        code = line(s, b"")[:3]
        answers[code] = answers.get(code, 0) + 1
        s.close()
    pepsi.check(sum(answers.values()) == n and set(answers) <= {b"250", b"452"}, answers)
    if not pepsi.SANITIZED:  # which keeps what is freed for a while
        pepsi.wait_for("the memory is given back", lambda: rss(pid) < before + (height - before) / 2 + 16384, 30)
    pepsi.say("answers: %s; resident before %d, at the height %d, then %d KiB" % ({k.decode(): v for k, v in answers.items()}, before, height, rss(pid)))
    d.stop()


pepsi.main(__file__, [crowd])
