"""Smuggling, end to end: whatever stands around a hidden end of data, whichever way it comes in (DATA, BDAT, BINARYMIME, LMTP, a unix
socket) and however it is cut, a second server sees one message or none, never two, and no octets that a sloppier receiver would take for
an end. That server is a sink that takes every sloppy end, and Postfix with its defence off. Beside it what else may put words into
somebody's mouth: STARTTLS with something behind it, AUTH outside TLS, input behind a refused DATA, parameters."""
import base64
import email
import os
import re
import socket
import ssl
import time

import peers
import pepsi
from certs import Authority

HIDDEN = b"MAIL FROM:<evil@example.test>\r\nRCPT TO:<victim@far.test>\r\nDATA\r\nSubject: smuggled\r\nX-Token: smuggled\r\n\r\nboo\r\n.\r\n"
# near misses of CR LF . CR LF: none of them ends anything, all are refused
ENDS = [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r.\r\n", b"\r\n.\r", b"\r\r\n.\r\r\n", b"\n.\r\r\n", b"\r\n.\r\r\n", b"\r\n\0.\r\n", b"\r\n.\0\r\n",
        b"\n\n.\r\n", b"\r\n.\n\r\n", b"\n\r.\r\n", b"\r\n.\r\0\n", b"\r\0\n.\r\0\n"]
# what is fine in a chunk, where a dot is a dot: it must reach the second server as content
CHUNK_ENDS = [b"\r\n.\r\n", b"\r\n..\r\n", b"\r\n.\r\n.\r\n", b"\r\n.QUIT\r\n"]
HEAD = (b"From: <sender@example.test>\r\nTo: <rcpt@far.test>\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\nMessage-ID: <1@client.example.test>\r\nSubject: carrier\r\n"
        b"X-Token: %s\r\n\r\nhello")


class LooseSink(pepsi.Sink):
    """Takes for an end of data what any receiver was ever known to take."""
    LOOSE = re.compile(rb"(?:\r\n|\n|\r|\r\r\n|\0\r\n|\r\0\n)[\0]?\.[\0]?(?:\r\r\n|\r\n|\r\0\n|\n|\r(?!\n))")

    @classmethod
    def read_data(cls, f):
        data = b""
        while True:
            octet = f.read(1)
            if not octet:
                return None
            data += octet
            # one octet more is needed to see whether a CR is a bare one
            m = cls.LOOSE.search(data[-12:])
            if m and not data.endswith(b"\r"):
                end = data.rfind(m.group(0))
                return re.sub(rb"(?m)^\.", b"", data[:end + 2])


class Ways:
    """The ways in, each a function of (token, what stands behind `hello`, cut): the code of the last reply, or None for a closed session."""

    def __init__(self, d, unix, lmtp):
        self.d, self.unix, self.lmtp = d, unix, lmtp

    @staticmethod
    def pieces(s, data, cut):
        """cut: 0 all at once, n > 0 in pieces of n, n < 0 in two at the octet n from the carrier's beginning"""
        cuts = [data] if not cut else [data[:-cut], data[-cut:]] if cut < 0 else [data[i:i + cut] for i in range(0, len(data), cut)]
        for i, piece in enumerate(cuts):
            s.raw(piece)
            if len(cuts) > 1 and i < 200:
                time.sleep(0.0004)

    def session(self, path=None):
        if not path:
            return pepsi.Smtp(self.d.port)
        s = pepsi.Smtp.__new__(pepsi.Smtp)
        s.sock = socket.socket(socket.AF_UNIX)
        s.sock.settimeout(30)
        s.sock.connect(path)
        s.file = s.sock.makefile("rb")
        s.reply()
        s.cmd(("LHLO" if path == self.lmtp else "EHLO") + " client.example.test")
        return s

    def go(self, path, params, data_of, replies, cut):
        s = self.session(path)
        try:
            code, text = s.cmd("MAIL FROM:<sender@example.test>" + params)
            pepsi.check(code == 250, "MAIL: %d %s" % (code, text))
            code, text = s.cmd("RCPT TO:<rcpt@far.test>")
            pepsi.check(code == 250, "RCPT: %d %s" % (code, text))
            if replies == 0:
                code, text = s.cmd("DATA")
                pepsi.check(code == 354, "DATA: %d %s" % (code, text))
            self.pieces(s, data_of, cut)
            code = None
            for _ in range(max(1, replies)):
                code, text = s.reply()
            return code
        except (OSError, pepsi.SmtpError):
            return None
        finally:
            s.file.close()
            s.sock.close()

    def by_data(self, token, rest, cut):
        return self.go(None, "", HEAD % token + rest, 0, cut)

    def by_unix(self, token, rest, cut):
        return self.go(self.unix, "", HEAD % token + rest, 0, cut)

    def by_lmtp(self, token, rest, cut):
        return self.go(self.lmtp, "", HEAD % token + rest, 0, cut)

    def chunks(self, params, token, rest, cut):
        data = HEAD % token + rest
        if cut < 0:  # two chunks instead of two segments
            return self.go(None, params, b"BDAT %d\r\n%sBDAT %d LAST\r\n%s" % (-cut, data[:-cut], len(data) + cut, data[-cut:]), 2, 0)
        return self.go(None, params, b"BDAT %d LAST\r\n%s" % (len(data), data), 1, cut)

    def by_bdat(self, token, rest, cut):
        return self.chunks("", token, rest, cut)

    def by_binary(self, token, rest, cut):
        return self.chunks(" BODY=BINARYMIME", token, rest, cut)


def clean(m, what):
    pepsi.check(b"\0" not in m.data and not re.search(rb"\r(?!\n)|(?<!\r)\n", m.data), "%r: bare CR, bare LF or NUL went out" % (what,))


def start(t, port):
    folder = os.path.join(t.dir, "sockets%d" % t.next_number())
    os.mkdir(folder, 0o755)
    d = pepsi.Pepsid(t, pepsi.route("init", [("example.test", "maildir")], "relay") + pepsi.smarthost("relay", port) + "[stage-maildir]\nPROGRAM = pepsi-stage-discard\n"
                     + pepsi.bounce(), pepsi="RELAY_NETWORKS = 127.0.0.0/8 unix\n",
                     more="[listener-unix]\nBIND = unix:%s/in\n[listener-lmtp]\nBIND = unix:%s/lmtp\nPROTOCOL = lmtp\n" % (folder, folder))
    return d, Ways(d, folder + "/in", folder + "/lmtp")


def all_ways(t, sink, port, cuts_of, after=lambda: None):
    """Every near miss by every way, then the same cuts with what chunks may carry. The second server gets nothing of the first, all of the second."""
    d, ways = start(t, port)
    tried = 0
    for way in ("by_data", "by_unix", "by_lmtp", "by_bdat"):
        for end in ENDS:
            for cut in cuts_of(end):
                tried += 1
                code = getattr(ways, way)(b"carrier", end + HIDDEN, cut)
                pepsi.check(code is None or 500 <= code < 600, "%s %r cut %d: %s" % (way, end, cut, code))
    pepsi.check(d.status()["accepted"] == 0, "near misses were accepted")
    expected = {}
    for n, end in enumerate(CHUNK_ENDS):
        for cut in cuts_of(end):
            tried += 1
            token = b"chunk-%d-%d" % (n, cut)
            code = ways.by_bdat(token, end + HIDDEN + b"tail\r\n", cut)
            pepsi.check(code == 250, "%r cut %d: %s" % (end, cut, code))
            expected[token.decode()] = HEAD % token + end + HIDDEN + b"tail\r\n"
    # binary content may hold anything; over DATA it leaves as base64, in which nothing ends anything
    binary = 0
    for end in ENDS:
        tried += 1
        binary += ways.by_binary(b"binary", end + HIDDEN, 0) == 250
    pepsi.check(binary == len(ENDS), "%d of %d binary ones were taken" % (binary, len(ENDS)))
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("straight"))
    d.wait_empty(60)
    after()
    got = pepsi.wait_for("what is honest arrives", lambda: len(sink.messages) >= len(expected) + binary + 1 and list(sink.messages), 30)
    tokens = [m.token for m in got]
    pepsi.check(sorted(tokens) == sorted(list(expected) + ["straight"] + ["binary"] * binary), "the second server saw %s" % tokens)
    for m in got:
        clean(m, m.token)
        pepsi.check(m.mail_from == "sender@example.test" and [r[0] for r in m.rcpts] == ["rcpt@far.test"], "envelope %s %s" % (m.mail_from, m.rcpts))
        if m.token in expected:
            problem = pepsi.below_trace(m.data, expected[m.token])
            pepsi.check(problem is None, "%s %s" % (m.token, problem))
    came = sorted(email.message_from_bytes(m.data).get_payload(decode=True) for m in got if m.token == "binary")
    pepsi.check(came == sorted(b"hello" + end + HIDDEN for end in ENDS), "binary content changed: %r" % came)
    pepsi.say("      %d attempts; %d of them content, each one message behind it" % (tried, len(expected)))
    d.stop()


def carrier(end):
    return len(HEAD % b"carrier")


def one_or_none(t):
    """All at once, octet by octet, in sevens, and cut in two at every octet of the near miss and around it."""
    sink = LooseSink(t)
    all_ways(t, sink, sink.port, lambda end: [0, 1, 7] + [-(carrier(end) + i) for i in range(-1, len(end) + 2)])


def behind_postfix(t):
    """The second server is Postfix 3.7 as it was before the attacks were known (smtpd_forbid_bare_newline = no)."""
    sink = pepsi.Sink(t)
    forbid = "".join("%s = no\n" % o for o in ("smtpd_forbid_bare_newline", "smtpd_forbid_unauth_pipelining") if o in
                     peers.subprocess.run([pepsi.need("postconf"), "-d"], stdout=peers.subprocess.PIPE, stderr=peers.subprocess.DEVNULL).stdout.decode())
    p = peers.Postfix(t, "relayhost = [127.0.0.1]:%d\nsmtp_tls_security_level = none\n%s" % (sink.port, forbid))
    all_ways(t, sink, p.port, lambda end: [0, -(carrier(end) + 1)], lambda: pepsi.wait_for("Postfix has passed all on", p.idle, 30))


def pipelined_honest(t):
    """Two messages of one pipelined session are two: what stands behind a true end of data is commands."""
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce())
    s = pepsi.Smtp(d.port)
    for n in (1, 2):
        s.raw(b"MAIL FROM:<sender@example.test>\r\nRCPT TO:<rcpt@far.test>\r\nDATA\r\n")
        pepsi.check([s.reply()[0] for _ in range(3)] == [250, 250, 354], "pipelined envelope")
        s.raw(pepsi.message("m%d" % n) + b"..\r\n.\r\n")
        pepsi.check(s.reply()[0] == 250, "message %d" % n)
    s.close()
    pepsi.wait_for("both", lambda: sorted(sink.tokens()) == ["m1", "m2"], 10)
    pepsi.check(all(m.data.endswith(b"\r\n.\r\n") for m in sink.messages), "dot-stuffing")
    d.stop()


# ------------------------------------------------------------------------------------------------------------ sessions
EVIL = b"MAIL FROM:<evil@example.test>\r\nRCPT TO:<rcpt@example.test>\r\nDATA\r\nSubject: evil\r\n\r\nboo\r\n.\r\n"


def rest(s):
    """All replies until the other side is silent or gone; (codes, closed)."""
    s.sock.settimeout(2)
    got, closed = b"", False
    try:
        while True:
            more = s.sock.recv(65536)
            if not more:
                closed = True
                break
            got += more
    except socket.timeout:
        pass
    except OSError:
        closed = True
    return [int(x) for x in re.findall(rb"(?m)^(\d{3}) ", got)], closed


def plain():
    return b"AUTH PLAIN " + base64.b64encode(b"\0alice\0secret") + b"\r\n"


INJECTIONS = [  # what is sent in one go behind EHLO; no code of it may be one that means something was begun
    ("STARTTLS with a command behind it", "mx", b"STARTTLS\r\n" + EVIL),
    ("STARTTLS with half a command behind it", "mx", b"STARTTLS\r\nRSET"),
    ("STARTTLS with one octet behind it", "mx", b"STARTTLS\r\n\n"),
    ("a transaction, then STARTTLS, then more", "mx", b"MAIL FROM:<a@example.test>\r\nSTARTTLS\r\n" + EVIL),
    ("AUTH with a transaction behind it, outside TLS", "submission", plain() + EVIL),
    ("AUTH LOGIN outside TLS", "submission", b"AUTH LOGIN\r\nYWxpY2U=\r\nc2VjcmV0\r\n" + EVIL),
    ("MAIL outside TLS", "submission", EVIL),
    ("AUTH where nobody signs in", "mx", plain() + EVIL[:33]),
    ("input behind a DATA that is refused", "mx", b"MAIL FROM:<a@example.test>\r\nRCPT TO:<x@elsewhere.test>\r\nDATA\r\nSubject: x\r\n\r\n" + EVIL),
    ("input behind DATA", "mx", b"MAIL FROM:<a@example.test>\r\nRCPT TO:<rcpt@example.test>\r\nDATA\r\nSubject: x\r\n"),
    ("EHLO with a command behind it", "mx", b"EHLO again.example.test\r\n" + EVIL),
    ("a web form", "mx", b"POST / HTTP/1.1\r\nHost: 127.0.0.1:25\r\nContent-Length: 200\r\n\r\n" + EVIL),
    ("commands that end in LF", "mx", EVIL.replace(b"\r\n", b"\n")),
    ("a command with a bare CR in it", "mx", b"NOOP x\r" + EVIL[:31] + b"\r\n"),
    ("BDAT before its envelope, its content a transaction", "mx", b"BDAT %d LAST\r\n" % len(EVIL) + EVIL),
    ("BDAT where DATA was begun", "mx", b"MAIL FROM:<a@example.test>\r\nRCPT TO:<x@elsewhere.test>\r\nBDAT %d LAST\r\n" % len(EVIL) + EVIL),
]


def injected(t):
    """Nothing of these is queued, and no session goes on as if the rest had been said by somebody who may."""
    ca = Authority(t)
    tls = "TLS_CERT = %s\nTLS_KEY = %s\n" % ca.issue("mx.example.test", "DNS:mx.example.test")
    submission = pepsi.free_port()
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-discard\n", pepsi="RELAY_NETWORKS = 192.0.2.0/24\n", listener=tls,
                     more="[listener-submission]\nBIND = 127.0.0.1:%d\nPROTOCOL = submission\n%s" % (submission, tls))
    for name, where, wire in INJECTIONS:
        for step in (0, 1):
            s = pepsi.Smtp(d.port if where == "mx" else submission)
            try:
                for i in range(0, len(wire), step or len(wire)):
                    s.raw(wire[i:i + (step or len(wire))])
            except OSError:
                pass
            if step and "STARTTLS" in name:
                # it is answered before the rest comes, which then is no handshake
                codes, closed = rest(s)
                # (a record of TLS has five octets of header: what is shorter waits for the rest, until its deadline)
                pepsi.check((closed or len(wire) < 16) and codes[-1:] in ([220], [554], [503], [250], []), "%s, octet by octet: %s" % (name, codes))
            elif not step:
                codes, closed = rest(s)
                pepsi.check(354 not in codes and 235 not in codes and 334 not in codes and 220 not in codes or name == "input behind DATA" and codes[-1] != 250,
                            "%s: %s" % (name, codes))
                pepsi.check(closed or where == "submission" or not name.startswith(("STARTTLS", "a transaction", "input", "EHLO", "a web")), "%s: goes on: %s" % (name, codes))
            s.file.close()
            s.sock.close()
    # the transaction before is forgotten within TLS, and so is who one said to be
    context = ssl.create_default_context(cafile=ca.cert)
    s = pepsi.Smtp(d.port)
    pepsi.check(s.cmd("MAIL FROM:<a@example.test>")[0] == 250 and s.cmd("RSET")[0] == 250 and s.cmd("MAIL FROM:<a@example.test>")[0] == 250, "before")
    code, text = s.cmd("STARTTLS")
    if code == 220:
        s.sock = context.wrap_socket(s.sock, server_hostname="mx.example.test")
        s.file = s.sock.makefile("rb")
        code, text = s.cmd("RCPT TO:<rcpt@example.test>")
        pepsi.check(code == 503, "RCPT of a transaction from outside TLS: %d %s" % (code, text))
        code, text = s.cmd("STARTTLS")
        pepsi.check(code in (502, 503), "STARTTLS within TLS: %d %s" % (code, text))
    else:
        pepsi.check(code == 503, "STARTTLS within a transaction: %d %s" % (code, text))
    s.file.close()
    s.sock.close()
    # (octet by octet, a relay's refusal or a web form is followed by honest commands of the same client; nobody else's)
    with open(d.log, errors="replace") as f:
        taken = [x for x in f if "event=accepted" in x]
    pepsi.check(not [x for x in taken if "evil" in x], "taken: %s" % taken[:3])
    d.stop()


M, R = b"MAIL FROM:<a@example.test>", b"RCPT TO:<rcpt@example.test>"
GRAMMAR = [  # (line, the code): parameters and addresses as nobody should send them
    (M + b" SIZE=1 SIZE=1", 501), (M + b" SIZE=", 501), (M + b" SIZE", 501), (M + b" SIZE=-1", 501), (M + b" SIZE=1e3", 501), (M + b" SIZE=0x10", 501),
    (M + b" SIZE=99999999999999999999999", 501), (M + b" SIZE=9999999999", 552), (M + b" =1", 501), (M + b" SIZE==1", 501), (M + b" BODY=9BIT", 501), (M + b" BODY", 501),
    (M + b" BODY=8BITMIME BODY=7BIT", 501), (M + b" SMTPUTF8=1", 501), (M + b" RET=SOME", 501), (M + b" RET=FULL RET=HDRS", 501), (M + b" ENVID=a+0Ab", 501),
    (M + b" ENVID=a+0D+0AX-Injected:+20x", 501), (M + b" ENVID=a+00", 501), (M + b" ENVID=+4", 501), (M + b" ENVID=a+zz", 501), (M + b" ENVID=" + b"x" * 101, 501),
    (M + b" AUTH=<>", 555), (M + b" X-UNKNOWN=1", 555), (M + b" NOTIFY=NEVER", 555), (M + b"SIZE=1", 501), (M + b"\tSIZE=1", 501),
    (M + b" SIZE=1\0", 500), (M + b" ENVID=\xff", 501), (b"MAIL FROM:<a@example.test", 501), (b"MAIL FROM:a@example.test>", 501), (b"MAIL FROM:<<a@example.test>>", 501),
    (b"MAIL FROM:<a@example.test> <b@example.test>", 501), (b"MAIL FROM:<a b@example.test>", 501), (b"MAIL FROM:<a@exam ple.test>", 501), (b"MAIL FROM:<a@b@c>", 501),
    (b"MAIL FROM:<\"a\r@example.test>", 500), (b"MAIL FROM:<a@[127.0.0.1>", 501), (b"MAIL FROM:<a@[300.0.0.1]>", 501), (b"MAIL FROM:<a@-x.test>", 501), (b"MAIL FROM:<a@x..test>", 501),
    (b"MAIL FROM:<;id@example.test|sh>", 501), (b"MAIL FROM:<\xc3\xa9@example.test>", 553), (b"MAIL FROM:<\xc3\x28@example.test> SMTPUTF8", 501), (b"MAIL FROM :<a@example.test>", 501),
    (b"MAIL FROM:  <a@example.test>", 501), (b"MAILFROM:<a@example.test>", 500), (b"MAIL TO:<a@example.test>", 501), (b"MAIL FROM:<" + b"a" * 65 + b"@example.test>", 501),
    (b"MAIL FROM:<a@" + b"b" * 300 + b".test>", 501), (M + b" X" + b"x" * 5000, 500), (b"NOOP\0", 500), (b"\xff\xfe", 500), (b"", 500),
]
GRAMMAR_RCPT = [
    (R + b" NOTIFY=NEVER,SUCCESS", 501), (R + b" NOTIFY=", 501), (R + b" NOTIFY=SUCCESS,,DELAY", 501), (R + b" NOTIFY=SUCCESS NOTIFY=DELAY", 501), (R + b" ORCPT=rfc822", 501),
    (R + b" ORCPT=rfc822;", 501), (R + b" ORCPT=;x", 501), (R + b" ORCPT=rfc822;a+0D+0Ab", 501), (R + b" ORCPT=rfc822;a+7F", 501), (R + b" ORCPT=utf-8;a\\x{A}", 501),
    (R + b" ORCPT=rfc822;+C3+A4", 501), (R + b" ORCPT=rfc822;" + b"x" * 500, 501), (R + b" SIZE=1", 555), (R + b" X=1", 555), (b"RCPT TO:<>", 501), (b"RCPT TO:<|/bin/sh>", 501),
    (b"RCPT TO:<a@example.test>,<b@example.test>", 501), (b"RCPT TO:<rcpt@example.test\r.x>", 500), (b"RCPT TO:<-bs@elsewhere.test>", 550),
    (b"RCPT TO:<a%elsewhere.test@elsewhere.test>", 550), (b"RCPT TO:<@elsewhere.test:x@else.test>", 550), (b"RCPT TO:<\"x@elsewhere.test\"@elsewhere.test>", 550),
]


def grammar(t):
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-discard\n", pepsi="RELAY_NETWORKS = 192.0.2.0/24\n")
    wrong = []
    for before, table in (([], GRAMMAR), ([M], GRAMMAR_RCPT)):
        for line, want in table:
            s = pepsi.Smtp(d.port)
            for b in before:
                pepsi.check(s.cmd(b)[0] == 250, "before it")
            try:
                code, text = s.cmd(line)
            except (pepsi.SmtpError, OSError):
                code, text = None, "closed"
            if code != want:
                wrong.append("%r: %s %s, not %d" % (line[:80], code, text, want))
            # a DATA behind it finds nothing to take
            try:
                code, text = s.cmd("DATA")
                if not (500 <= code < 600):
                    wrong.append("%r: then DATA: %d %s" % (line[:80], code, text))
            except (pepsi.SmtpError, OSError):
                pass
            s.file.close()
            s.sock.close()
    pepsi.check(not wrong, "\n".join(wrong))
    pepsi.check(d.status()["accepted"] == 0, "something was queued")
    d.stop()


pepsi.main(__file__, [one_or_none, behind_postfix, pipelined_honest, injected, grammar])
