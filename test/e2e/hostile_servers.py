"""Servers that were made to harm whoever sends mail to them: each phase refused, cut, silent, endless, an octet a second, with replies that are none,
replies ahead of their commands, replies behind STARTTLS, certificates that are wrong. All at the same time, beside one that behaves.
For each: the right verdict and reason, in the time that the options give, in bounded memory, without a crash; where TLS is a must not a word
of mail in plain text. At the end they all behave, and whatever waited arrives, once."""
import email
import os
import re
import threading
import time

import hops
import pepsi
import sink
from certs import Authority
from sink import OK, Drip, Forever, Raw

MEMORY = 24 << 10   # KiB that a worker may need more than one whose hop behaves
CASES = []


def case(name, script, verdict, why="", **more):
    """verdict: ok (taken as if nothing were), retry (waits, last_error matches why), bounce (so does the report). more: tls: of the stage;
    cert: good, name, expired, stranger; offer: keywords; body; converted: it comes so; binary; rcpts; perhaps: it may have come before; unread: the
    hop's reply to the content begins, and has no end that is read: it counts by its first line (RFC 5321 4.2.1); lmtp."""
    CASES.append((name, script, verdict, why, more))


EHLO = "250-sink.example.test\r\n"
TEXT = "x" * 60
# -- the banner
case("banner-silent", {"banner": "hang"}, "retry", "timed out")
case("banner-closed", {"banner": "drop"}, "retry", "closed")
case("banner-reset", {"banner": "reset"}, "retry")
case("banner-554", {"banner": "554 5.7.1 not you"}, "retry", "554 5.7.1 not you")
case("banner-421", {"banner": "421 4.3.2 later"}, "retry", "421 4.3.2")
case("banner-354", {"banner": "354 go ahead"}, "retry")
case("banner-slow", {"banner": [1.0, OK]}, "ok")
case("banner-multiline", {"banner": [b"220-one\r\n220-two\r\n220 three\r\n"]}, "ok")
case("banner-ssh", {"banner": [b"SSH-2.0-OpenSSH_9.2\r\n", "hang"]}, "retry", "malformed")
case("banner-long-line", {"banner": Forever(b"220-" + b"x" * 5000)}, "retry", "too long")
case("banner-endless", {"banner": Forever(b"220-" + TEXT.encode() + b"\r\n")}, "retry")
case("banner-octets", {"banner": [Drip(b"220 " + b"x" * 200)]}, "retry", "timed out")
case("banner-lines", {"banner": [Drip(b"220-\r\n" * 200, 0.2)]}, "retry", "timed out")
case("banner-nul", {"banner": [b"220 a\0b\xff\xfe\x80 \x1b[2J\r\n"]}, "ok")
case("banner-bare-lf", {"banner": [b"220 sink\n", "hang"]}, "retry", "CR LF")
case("banner-bare-cr", {"banner": [b"220 sink\r250 hello\r\r\n", OK]}, "retry")
case("banner-and-more", {"banner": [b"220 sink\r\n250 hello\r\n250 ok\r\n250 ok\r\n354 go\r\n250 taken\r\n"]}, "retry", "without a command")
# -- EHLO
case("ehlo-old-server", {"ehlo": "500 5.5.1 what?"}, "ok", lmtp=False)
case("ehlo-no-esmtp", {"ehlo": "502 5.5.1 no", "helo": "502 5.5.1 no"}, "retry", "502 5.5.1")
case("ehlo-silent", {"ehlo": "hang"}, "retry", "timed out")
case("ehlo-closed", {"ehlo": "drop"}, "retry", "closed")
case("ehlo-421", {"ehlo": ["421 4.3.0 busy", "drop"]}, "retry", "421 4.3.0")
case("ehlo-10000-lines", {"ehlo": [b"".join(b"250-X%d\r\n" % i for i in range(10000)) + b"250 OK\r\n", "hang"]}, "retry", "malformed")
case("ehlo-endless", {"ehlo": Forever(EHLO.encode() * 50)}, "retry")
case("ehlo-octets", {"ehlo": [Drip(b"250 sink.example.test\r\n" * 20)]}, "retry", "timed out")
case("ehlo-two-codes", {"ehlo": [b"250-sink\r\n550 no\r\n", "hang"]}, "retry", "malformed")
case("ehlo-torn", {"ehlo": [b"250-sink\r\nPIPELINING\r\n", "hang"]}, "retry", "malformed")
case("ehlo-bare", {"ehlo": [b"250\r\n"]}, "ok")
case("ehlo-lower-case", {"ehlo": [b"250-sink\r\n250-pipelining\r\n250 size 1000000\r\n"]}, "ok")
case("ehlo-numbers", {"ehlo": [b"250-sink\r\n250-SIZE 99999999999999999999999\r\n250-DELIVERBY -1\r\n250-SIZE=5\r\n250-LIMITS RCPTMAX=x MAILMAX=\r\n250 \r\n"]}, "ok")
case("ehlo-size", {"ehlo": [b"250-sink\r\n250 SIZE 10\r\n"]}, "bounce", "5.3.4")
case("ehlo-controls", {"ehlo": [b"250-sink\0\x01\r\n250-\xff\xff\r\n250 PIPELINING\r\n"]}, "ok")
case("ehlo-no-8bit", {"ehlo": [b"250 sink\r\n"]}, "ok", converted=True, body=b"na\xc3\xafve\r\n")
# -- the envelope
case("mail-451", {"mail": "451 4.3.0 not now"}, "retry", "451 4.3.0 not now")
case("mail-550", {"mail": "550 5.7.1 no such sender here"}, "bounce", "550 5.7.1 no such sender here")
case("mail-530", {"mail": "530 5.7.0 sign in first"}, "retry", "530 5.7.0")
case("mail-silent", {"mail": "hang"}, "retry", "timed out")
case("mail-closed", {"mail": "drop"}, "retry")
case("mail-354", {"mail": "354 go ahead"}, "retry")
case("mail-twice", {"mail": [OK, OK, 0.2]}, "retry")
case("mail-all-at-once", {"mail": [OK, b"250 ok\r\n354 go\r\n250 taken\r\n", 0.2]}, "retry")
case("mail-one-code-three-lines", {"mail": [b"250-2.1.0 a\r\n250-2.1.0 b\r\n250 2.1.0 c\r\n"]}, "ok")
case("mail-199", {"mail": [b"199 hm\r\n", "hang"]}, "retry", "malformed")
case("mail-650", {"mail": [b"650 hm\r\n", "hang"]}, "retry", "malformed")
case("mail-no-blank", {"mail": [b"250ok\r\n", "hang"]}, "retry", "malformed")
case("rcpt-550", {"rcpt": "550 5.1.1 no such user"}, "bounce", "550 5.1.1 no such user")
case("rcpt-450", {"rcpt": "450 4.2.1 busy"}, "retry", "450 4.2.1 busy")
case("rcpt-552", {"rcpt": "552 5.2.2 too many"}, "retry", "552")
case("rcpt-silent", {"rcpt": "hang"}, "retry", "timed out")
case("rcpt-closed", {"rcpt": "drop"}, "retry")
case("rcpt-354", {"rcpt": "354 go ahead"}, "retry")
case("rcpt-status-lies", {"rcpt": "450 5.1.1 for now or for ever"}, "retry", "450")
case("rcpt-text-tricks", {"rcpt": [b"550 5.1.1 \x1b]0;owned\x07 \0 id=1 event=accepted\r\n"]}, "bounce", "550 5.1.1")
case("rcpt-octets", {"rcpt": [Drip(b"250 2.1.5 all is well, only slow\r\n")]}, "retry", "timed out")
case("limits", {"rcpt": None}, "ok", offer=["PIPELINING", "8BITMIME", "LIMITS RCPTMAX=2 MAILMAX=1"], rcpts=5, limit=2)
case("data-451", {"data": "451 4.3.0 not now"}, "retry", "451 4.3.0")
case("data-554", {"data": "554 5.7.1 no mail from you"}, "bounce", "554 5.7.1")
case("data-250", {"data": "250 2.0.0 fine"}, "retry")
case("data-silent", {"data": "hang"}, "retry", "timed out")
case("data-closed", {"data": "drop"}, "retry")
case("data-354-twice", {"data": [b"354 go\r\n354 go\r\n", 0.3]}, "retry")
case("data-and-taken", {"data": [b"354 go\r\n250 2.0.0 taken\r\n", "hang"]}, "retry")
case("data-two-lines", {"data": [b"354-go\r\n354 ahead\r\n"]}, "ok")
# -- the content
LONG = (b"all work and no play makes mail a dull thing to look at\r\n" * 20000)
case("content-closed", {"content": (200, ["drop"])}, "retry", body=LONG)
case("content-reset", {"content": (300000, ["reset"])}, "retry", body=LONG)
case("content-not-read", {"content": (100, [60.0, "drop"])}, "retry", "progress|timed out", body=LONG * 8)
case("content-552", {"content": (500, ["552 5.3.4 too much", "hang"])}, "bounce", "552 5.3.4", body=LONG)
case("content-451", {"content": (500, ["451 4.3.1 disk full", "hang"])}, "retry", "451 4.3.1", body=LONG)
case("content-250", {"content": (500, ["250 2.0.0 taken", 2.0, "hang"])}, "retry", "wrong reply", body=LONG * 8)
# -- behind the last dot
case("dot-451", {"eod": "451 4.3.0 not now"}, "retry", "451 4.3.0")
case("dot-554", {"eod": "554 5.6.0 do not like it"}, "bounce", "554 5.6.0")
case("dot-silent", {"eod": "hang"}, "retry", "timed out", perhaps=True)
case("dot-closed", {"eod": "drop"}, "retry", "closed", perhaps=True)
case("dot-354", {"eod": "354 more"}, "retry", perhaps=True)
case("dot-endless", {"eod": Forever(b"250-" + TEXT.encode() + b"\r\n")}, "ok", unread=True)
case("dot-10000-lines", {"eod": [b"250-ok\r\n" * 10000 + b"250 ok\r\n"]}, "ok", unread=True)
case("dot-10000-no", {"eod": [b"451-4.3.0 no\r\n" * 10000 + b"451 4.3.0 no\r\n"]}, "retry", "451 4.3.0", perhaps=True)
case("dot-begun", {"eod": [b"250-2.0.0 taken\r\n250-and", "drop"]}, "ok", unread=True)
case("dot-begun-silent", {"eod": [b"250-2.0.0 taken\r\n", "hang"]}, "ok", unread=True)
case("dot-torn", {"eod": [b"250-2.0.0 taken\r\n550 5.0.0 or not\r\n"]}, "retry", "malformed", perhaps=True)
case("dot-octets", {"eod": [Drip(b"250 2.0.0 taken\r\n")]}, "retry", "timed out", perhaps=True)
case("dot-half", {"eod": [b"250 2.0.0 ta", "drop"]}, "retry", "closed", perhaps=True)
case("dot-multiline", {"eod": [b"250-2.0.0 one\r\n250-2.0.0 two\r\n250 2.0.0 three\r\n"]}, "ok")
case("dot-then-noise", {"eod": [b"250 2.0.0 taken\r\n250 2.0.0 taken\r\n\xff\xff\xff"]}, "ok", lmtp=False)
case("dot-then-closed", {"eod": [OK, "drop"]}, "ok", lmtp=False)
case("dot-421", {"eod": ["421 4.3.2 closing down", "drop"]}, "retry", "421 4.3.2")
case("rset-silent", {"rcpt": "550 5.1.1 nobody", "rset": "hang"}, "bounce", "550 5.1.1")
case("quit-silent", {"quit": "hang"}, "ok")
case("quit-endless", {"quit": Forever(b"221-" + TEXT.encode() + b"\r\n")}, "ok")
# -- binary content: one chunk
CHUNKS = ["PIPELINING", "8BITMIME", "CHUNKING", "BINARYMIME"]
BINARY = {"offer": CHUNKS, "body": b"a bare\nline, a NUL \0 and \r alone\n.\r\n", "binary": True}
case("bdat", {}, "ok", **BINARY)
case("bdat-not-offered", {}, "ok", converted=True, **dict(BINARY, offer=["PIPELINING", "8BITMIME", "CHUNKING"]))
case("bdat-451", {"eod": "451 4.3.0 not now"}, "retry", "451 4.3.0", **BINARY)
case("bdat-554", {"eod": "554 5.6.0 do not like it"}, "bounce", "554 5.6.0", **BINARY)
case("bdat-354", {"eod": "354 more"}, "retry", perhaps=True, **BINARY)
case("bdat-closed", {"eod": "drop"}, "retry", "closed", perhaps=True, **BINARY)
case("bdat-silent", {"eod": "hang"}, "retry", "timed out", perhaps=True, **BINARY)
case("bdat-rcpt-550", {"rcpt": "550 5.1.1 nobody"}, "bounce", "550 5.1.1", **BINARY)
case("bdat-rcpt-and-taken", {"rcpt": [b"250 ok\r\n250 2.0.0 taken\r\n", 0.2]}, "retry", **BINARY)
# -- TLS, where it may be left out
MAY, MUST = "may", "require"
GARBAGE = Raw(b"\x16\x03\x01\x40\x00" + b"\xa5" * 3000)
ALERT = Raw(b"\x15\x03\x03\x00\x02\x02\x28")
case("tls-good", {}, "ok", tls=MAY)
case("tls-refused", {"starttls": "454 4.7.0 no TLS now"}, "ok", tls=MAY)
case("tls-closed", {"starttls": [OK, "drop"]}, "ok", tls=MAY)
case("tls-garbage", {"tls": [GARBAGE, "hang"]}, "ok", tls=MAY)
case("tls-alert", {"tls": [ALERT, "drop"]}, "ok", tls=MAY)
case("tls-expired", {}, "ok", tls=MAY, cert="expired")
case("tls-stranger", {}, "ok", tls=MAY, cert="stranger")
case("tls-injected", {"starttls": [b"220 go\r\n250-evil\r\n250 SIZE 10\r\n250 ok\r\n354 go\r\n250 taken\r\n"]}, "ok", tls=MAY)
case("tls-forgets", {"ehlo": None}, "ok", tls=MAY, offer=["SIZE 10"], inside=["PIPELINING", "SIZE 1000000", "8BITMIME"])
case("tls-octets", {"mail": Drip(b"250 2.1.0 ok\r\n", 0.02)}, "ok", tls=MAY)
# -- TLS as a must
case("must-good", {}, "ok", tls=MUST)
case("must-injected", {"starttls": [b"220 go\r\n250-evil\r\n250 ok\r\n"]}, "ok", tls=MUST)
case("must-stripped", {}, "retry", "STARTTLS|TLS", tls=MUST, cert=None)
case("must-no-esmtp", {"ehlo": "500 5.5.1 what?"}, "retry", "STARTTLS|TLS", tls=MUST, lmtp=False)
case("must-refused", {"starttls": "454 4.7.0 no TLS now"}, "retry", "454 4.7.0|TLS is a must", tls=MUST)
case("must-554", {"starttls": "554 5.7.0 never"}, "retry", "554 5.7.0|TLS is a must", tls=MUST)
case("must-closed", {"starttls": [OK, "drop"]}, "retry", "TLS", tls=MUST)
case("must-silent", {"tls": "hang"}, "retry", "TLS", tls=MUST)
case("must-garbage", {"tls": [GARBAGE, "hang"]}, "retry", "TLS", tls=MUST)
case("must-plain-answers", {"starttls": [b"220 go\r\n", 0.3, b"250-sink\r\n250 PIPELINING\r\n250 ok\r\n250 ok\r\n", "hang"]}, "retry", "TLS", tls=MUST)
case("must-alert", {"tls": [ALERT, "drop"]}, "retry", "TLS", tls=MUST)
case("must-expired", {}, "retry", "expired", tls=MUST, cert="expired")
case("must-name", {}, "retry", "certificate", tls=MUST, cert="name")
case("must-stranger", {}, "retry", "certificate", tls=MUST, cert="stranger")
case("must-cut-mid-mail", {"mail": [GARBAGE, "hang"]}, "retry", tls=MUST)
case("must-alert-mid-content", {"content": (100000, [ALERT, "hang"])}, "retry", tls=MUST, body=LONG)
case("must-bye-mid-content", {"content": (100000, ["bye", "hang"])}, "retry", tls=MUST, body=LONG)
case("must-bye-behind-dot", {"eod": ["bye", "drop"]}, "retry", tls=MUST, perhaps=True)
case("must-421-inside", {"ehlo": lambda line: "250 STARTTLS"}, "retry", tls=MUST, inside_421=True)


class Certificates:
    def __init__(self, t):
        self.ours, theirs = Authority(t), Authority(t, "stranger")
        san = "DNS:localhost,IP:127.0.0.1"
        self.pairs = {"good": self.ours.issue("good", san), "name": self.ours.issue("name", "DNS:other.example.test"),
                      "expired": self.ours.issue("expired", san, days=-1), "stranger": theirs.issue("stranger", san), None: None}


def peak(pid):
    """KiB of memory that a process needed at most."""
    try:
        with open("/proc/%d/status" % pid) as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1))
    except (OSError, AttributeError):
        return 0


def limited(n):
    """A RCPT reply of one who takes so many in a transaction."""
    count = [0]

    def reply(_):
        count[0] += 1
        return OK if count[0] % (n + 1) else "452 4.5.3 too many"
    return reply


class Case:
    def __init__(self, way, certificates, name, script, verdict, why, more):
        self.way, self.name, self.verdict, self.why, self.more = way, name, verdict, why, more
        self.tls = more.get("tls")
        self.pair = certificates.pairs[more.get("cert", "good")] if self.tls else None
        kw = {"extensions": more["offer"]} if "offer" in more else {}
        self.sink = way.sink(script=script, tls=self.pair, **kw)
        self.sink.tls_extensions = more.get("inside")
        way.add(name, self.sink, tls=self.tls, ca=certificates.ours.cert)
        if more.get("cert") in ("expired", "name", "stranger") and not way.checks:
            self.verdict = "ok"   # encrypted is what require means there, to whomever
        self.rcpts = [way.rcpt(name, "someone%d" % i) for i in range(more.get("rcpts", 1))]
        self.sent = pepsi.message(name, sender=hops.SENDER, rcpt=self.rcpts[0]) + more.get("body", b"")

    def submit(self, d):
        self.id = d.accept(hops.SENDER, self.rcpts, self.sent, binary=self.more.get("binary", False))

    def arrived(self):
        if self.more.get("unread"):
            return sum(self.sink.taken(self.name)) > 0
        return all(self.sink.taken(self.name, r)[0] for r in self.rcpts)

    def verdict_is_there(self, rows, reports):
        if self.verdict == "ok":
            return self.arrived()
        if self.verdict == "bounce":
            return self.rcpts[0] in reports
        row = rows.get(self.id)
        return row is not None and bool(row.get("last_error"))

    def differs(self, m):
        if not self.more.get("converted"):
            return pepsi.below_trace(m.data, self.sent)
        got, sent = email.message_from_bytes(m.data).get_payload(decode=True), self.sent.partition(b"\r\n\r\n")[2]
        return None if got == sent and m.data.isascii() else "not the same text: %r" % got[-200:]

    def examine(self, rows, reports):
        """What is wrong, or nothing."""
        if self.verdict == "ok":
            m = [m for m in self.sink.messages if m.token == self.name][-1]
            problem = self.differs(m)
            if problem:
                return problem
            if self.tls == MUST and not m.tls:
                return "came in plain text"
            return None
        if self.sink.taken(self.name)[0]:
            return "it was taken"
        text = reports[self.rcpts[0]] if self.verdict == "bounce" else rows[self.id]["last_error"]
        if not re.search(self.why, text):
            return "the reason is not %s: %s" % (self.why, text[-600:])
        return None

    def leaked(self):
        """Where TLS is a must: mail in plain text."""
        if self.tls != MUST:
            return []
        return [c.said[False] for c in self.sink.seen if [x for x in c.said[False] if re.match("(?i)MAIL|RCPT|DATA|BDAT|AUTH", x)]]


def reports_of(way):
    out = {}
    for m in list(way.back.messages):
        text = m.data.decode("utf-8", "replace")
        found = re.search(r"(?mi)^Final-Recipient: rfc822; ?(\S+)", text)
        if found:
            out[found.group(1)] = text
    return out


def rows_of(d):
    return {str(r["id"]): r for r in d.queue()}


def hostile(t, make):
    certificates = Certificates(t)
    way = make(t)
    cases = [Case(way, certificates, *c) for c in CASES if not (way.lmtp and (c[4].get("lmtp") is False or c[4].get("tls")))]
    for c in cases:
        if "limit" in c.more:
            c.sink.script = {"rcpt": limited(c.more["limit"])}
        if c.more.get("inside_421"):
            state = c.sink
            state.script = {"helo": OK, "ehlo": lambda line, s=state: "421 4.3.2 no" if [x for x in s.seen if x.tls and not x.ended] else OK}
    d = way.start()
    d.accept(hops.SENDER, way.rcpt("good"), pepsi.message("first"))
    pepsi.wait_for("the first message", lambda: way.good.taken("first")[0], 20)
    at_first = max([peak(p) for p in d.worker_pids("init")] or [0])
    began = time.monotonic()
    for c in cases:
        c.submit(d)
    # who behaves is served all the while
    over, waited = threading.Event(), []

    def good():
        while not over.is_set():
            token = "good-%d" % len(waited)
            at = time.monotonic()
            try:
                d.accept(hops.SENDER, way.rcpt("good"), pepsi.message(token))
            except (OSError, pepsi.SmtpError):
                return
            while not way.good.taken(token)[0]:
                if time.monotonic() - at > 60:
                    break
                time.sleep(0.01)
            waited.append(time.monotonic() - at)
            over.wait(0.2)
    thread = threading.Thread(target=good, daemon=True)
    thread.start()
    t.cleanup(over.set)
    open_cases = {c.name: c for c in cases}
    wrong = []

    def look():
        rows, reports = rows_of(d), reports_of(way)
        for c in list(open_cases.values()):
            if c.verdict_is_there(rows, reports):
                problem = c.examine(rows, reports)
                if problem:
                    wrong.append("%s: %s" % (c.name, problem))
                del open_cases[c.name]
        return not open_cases
    try:
        pepsi.wait_for("a verdict on each", look, 40, 0.25)
    except pepsi.Failed as e:
        wrong.append(str(e))
        for c in open_cases.values():
            row = rows_of(d).get(c.id)
            wrong.append("%s: no %s: %s, %s" % (c.name, c.verdict, row, [(x.why, x.said) for x in c.sink.seen][-2:]))
    pepsi.check(not wrong, "%d of %d cases:\n  %s" % (len(wrong), len(cases), "\n  ".join(wrong)))
    took = time.monotonic() - began
    # no connection for ever: not an octet a second, not endless lines
    longest = max(((x.ended or time.monotonic()) - x.began, c.name) for c in cases for x in c.sink.seen if c.verdict == "retry" and c.name != "content-not-read")
    limit = (hops.CONNECT + hops.COMMAND + hops.DATA) * (1 if os.environ.get("PEPSI_STRICT") == "1" else 3)
    pepsi.check(longest[0] < limit, "a connection for %.1f s: %s" % longest)
    # nobody needs more memory than who talks to a good one
    groups = {g["name"]: g for g in d.status()["stages"]}
    pepsi.check(not [g for g in groups.values() if g.get("crashes")], "crashes: %s" % groups)
    need = {n: max([peak(p) for p in g["pids"]] or [0]) for n, g in groups.items()}
    bodies = {"to-" + c.name for c in cases if "body" in c.more}
    allowed = 512 << 10 if pepsi.SANITIZED else MEMORY   # what is freed is kept for a while under sanitizers
    if way.kind == "internet":  # one worker has them all, their content included
        beside, most = at_first, (need["init"], "init")
        allowed += 2 * sum(len(c.sent) for c in cases) // 1024
    else:
        beside, most = need["to-good"], max((v, n) for n, v in need.items() if n.startswith("to-") and n not in bodies)
    pepsi.say("      %d cases in %.1f s; longest connection %.1f s (%s); memory %.1f MiB (%s), beside a good server %.1f MiB" % (
        len(cases), took, longest[0], longest[1], most[0] / 1024, most[1], beside / 1024))
    pepsi.check(most[0] <= beside + allowed, "memory of %s: %d KiB, beside a good server %d" % (most[1], most[0], beside))
    # all behave from now on: what waits arrives, and is not torn
    for c in cases:
        c.sink.script, c.sink.tls = {}, certificates.pairs["good"] if c.tls else None
        if "offer" in c.more:
            c.sink.extensions = c.sink.tls_extensions = CHUNKS
    waiting = [c for c in cases if c.verdict == "retry"]
    pepsi.wait_for("what waited arrives", lambda: all(c.arrived() for c in waiting), 40, 0.2)
    over.set()
    thread.join(90)
    d.wait_empty(30)
    for c in cases:
        good_times, perhaps = c.sink.taken(c.name)
        if c.verdict == "bounce":
            pepsi.check((good_times, perhaps) == (0, 0), "%s was returned, and came" % c.name)
            continue
        # megabytes may take a busy hop longer than DATA_TIMEOUT: its reply is no longer read then
        if c.more.get("unread"):
            pepsi.check(good_times + perhaps == 1, "%s: came %d times" % (c.name, good_times + perhaps))
            continue
        pepsi.check(good_times == len(c.rcpts) or good_times and len(c.sent) > 4 << 20, "%s: taken %d times" % (c.name, good_times))
        pepsi.check(not perhaps or c.more.get("perhaps") or len(c.sent) > 4 << 20, "%s: came %d times more" % (c.name, perhaps))
        for m in c.sink.messages:
            problem = c.differs(m)
            pepsi.check(not problem, "%s: %s" % (c.name, problem))
        pepsi.check(not c.leaked(), "%s: mail in plain text: %s" % (c.name, c.leaked()[:2]))
    waited.sort()
    pepsi.say("      beside them %d messages to one that behaves: median %.2f s, longest %.2f s" % (len(waited), waited[len(waited) // 2], waited[-1]))
    pepsi.check(len(waited) > 5 and waited[len(waited) // 2] < 1.0 * pepsi.SLACK, "who behaves has to wait")
    pepsi.check(len(reports_of(way)) == len([c for c in cases if c.verdict == "bounce"]), "reports: %s" % sorted(reports_of(way)))
    d.stop()


def over_smarthost(t):
    hostile(t, hops.Smarthosts)


def over_lmtp(t):
    hostile(t, hops.Lmtps)


def over_internet(t):
    hostile(t, hops.Internet)


if __name__ == "__main__":
    pepsi.main(__file__, [over_smarthost, over_lmtp, over_internet])
