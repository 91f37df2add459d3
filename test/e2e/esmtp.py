"""The extensions of SMTP against a running daemon: CHUNKING and BINARYMIME in every cut and with every abuse, PRDR, LIMITS, VRFY,
EXPN and HELP, XCLIENT and LMTP, driven by raw sockets, Python's smtplib, curl and swaks."""
import email
import os
import smtplib
import subprocess

import pepsi

FROM, TO = "sender@example.test", "alice@example.test"


def daemon(t, sink):
    """One daemon (its start is what takes the time) with a listener for each set of extensions."""
    d = pepsi.Pepsid(t, "", start=False)
    d.limited, d.bare, d.tools, d.lmtp = (pepsi.free_port() for _ in range(4))
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail)
                   + pepsi.smarthost("relay", sink.port) + pepsi.bounce(),
                   more="[listener-limited]\nBIND = 127.0.0.1:%d\nMAX_TRANSACTIONS = 2\nMAX_RECIPIENTS = 100\n"
                        "[listener-bare]\nBIND = 127.0.0.1:%d\nEXTENSIONS = size enhancedstatuscodes\n"
                        "[listener-tools]\nBIND = 127.0.0.1:%d\nXCLIENT_FROM = 127.0.0.1\n"
                        "EXTENSIONS = pipelining size 8bitmime smtputf8 help expn xclient\n"
                        "[listener-local]\nBIND = 127.0.0.1:%d\nPROTOCOL = lmtp\n" % (d.limited, d.bare, d.tools, d.lmtp))
    d.start()
    return d


def emptied(d):
    """Nothing is under way; what was delivered so far is not counted by the next part."""
    d.wait_empty(15)
    for folder, _, files in os.walk(d.mail):
        for f in files:
            os.unlink(os.path.join(folder, f))


def begin(s, rcpts=TO, params=""):
    s.raw(("MAIL FROM:<%s>%s\r\n" % (FROM, params)).encode() + b"".join(b"RCPT TO:<%s>\r\n" % r.encode() for r in ([rcpts] if isinstance(rcpts, str) else rcpts)))
    for _ in range(1 + (1 if isinstance(rcpts, str) else len(rcpts))):
        code, text = s.reply()
        pepsi.check(code == 250, "envelope: %d %s" % (code, text))


def bdat(s, data, cuts):
    """All chunks in one go (RFC 3030 and 2920), then the replies."""
    wire, at = b"", 0
    for n in cuts + [len(data)]:
        n = min(n, len(data) - at)
        last = n and at + n == len(data)
        wire += b"BDAT %d%s\r\n" % (n, b" LAST" if last else b"") + data[at:at + n]
        at += n
        if last:
            break
    s.raw(wire)
    replies = [s.reply()]
    while replies[-1][0] == 250 and "octets so far" in replies[-1][1]:
        replies.append(s.reply())
    return replies


def chunking(d):
    """Whatever the cut, by chunks or by DATA, the message that arrives is the one that was sent; plain smtplib as the client, too."""
    s = pepsi.Smtp(d.port)
    for keyword in ("CHUNKING", "BINARYMIME", "PRDR", "HELP", "LIMITS RCPTMAX=1000"):
        pepsi.check(keyword in s.extensions, "%s is not in %s" % (keyword, s.extensions))
    for keyword in ("REQUIRETLS", "EXPN", "XCLIENT", "STARTTLS", "AUTH"):
        pepsi.check(not [e for e in s.extensions if e.startswith(keyword)], "%s is in %s" % (keyword, s.extensions))
    data = pepsi.message("cuts", size=300) + b".\r\n..\r\nBDAT 3\r\nQUIT\r\n.\r\nthe end\r\n"
    cuts = [[], [1] * len(data), [0, 0, 5, 0], [len(data) - 1], [data.index(b"\r\n") + 1], [data.index(b"\r\n\r\n") + i for i in (1,)],
            [data.index(b"\r\n\r\n") + 2], [data.index(b"\r\n\r\n") + 3], [7] * 500]
    for cut in cuts:
        begin(s)
        replies = bdat(s, data, cut)
        pepsi.check(replies[-1][0] == 250 and "queued as" in replies[-1][1], "%s: %s" % (cut[:5], replies[-3:]))
    s.close()
    # the library's own session, with two commands it does not know
    c = smtplib.SMTP("127.0.0.1", d.port, timeout=30)
    c.ehlo("client.example.test")
    pepsi.check(c.has_extn("chunking") and c.esmtp_features["size"] == "52428800", "smtplib sees %s" % c.esmtp_features)
    c.mail(FROM, ["SIZE=%d" % len(data), "BODY=8BITMIME"])
    c.rcpt(TO)
    c.send(b"BDAT %d\r\n%sBDAT 0 LAST\r\n" % (len(data), data))
    pepsi.check(c.getreply()[0] == 250 and c.getreply()[0] == 250, "smtplib: BDAT")
    c.quit()
    mails = pepsi.wait_for("all of them", lambda: len(d.maildir(TO)) == len(cuts) + 1 and d.maildir(TO), 20)
    for m in mails:
        problem = pepsi.below_trace(m, data)
        pepsi.check(problem is None, problem)
    metrics = d.http_get("/metrics")
    text = metrics[1] if isinstance(metrics, tuple) else metrics
    text = text.decode() if isinstance(text, bytes) else str(text)
    pepsi.check('pepsi_smtp_extension_total{extension="chunking"} %d' % len(mails) in text, "no metric of %d chunked messages" % len(mails))


EVIL = b"MAIL FROM:<evil@example.test>\r\nRCPT TO:<alice@example.test>\r\nBDAT 3 LAST\r\nx\r\n"
ABUSES = [  # what is sent behind the envelope; the codes that must come of it, None: the connection ends
    ("negative", b"BDAT -1\r\n" + EVIL, [501, None]),
    ("signed", b"BDAT +5\r\n" + EVIL, [501, None]),
    ("hexadecimal", b"BDAT 0x5\r\n" + EVIL, [501, None]),
    ("no size", b"BDAT\r\n" + EVIL, [501, None]),
    ("LAST alone", b"BDAT LAST\r\n" + EVIL, [501, None]),
    ("huge", b"BDAT 9223372036854775807 LAST\r\n" + EVIL, [552, None]),
    ("64 bits and one", b"BDAT 18446744073709551617 LAST\r\n" + EVIL, [501, None]),
    ("a line too long", b"BDAT 5" + b" " * 6000 + b"\r\n" + EVIL, [500, None]),
    ("bare LF", b"BDAT %d LAST\r\n%s" % (len(EVIL) + 2, b"\n" + EVIL + b"."), [550]),
    ("bare LF in the first of two", b"BDAT 1\r\n\nBDAT %d LAST\r\n%s" % (len(EVIL), EVIL), [550, 503]),
    ("bare CR at the end", b"BDAT 2 LAST\r\nx\r", [550]),
    ("NUL", b"BDAT 1 LAST\r\n\0", [550]),
    ("RSET in between", b"BDAT 3\r\nx\r\nRSET\r\nBDAT %d LAST\r\n%s" % (len(EVIL), EVIL), [250, 250, 503]),
    ("DATA in between", b"BDAT 3\r\nx\r\nDATA\r\n", [250, 503]),
    ("MAIL in between", b"BDAT 3\r\nx\r\nMAIL FROM:<evil@example.test>\r\nRSET\r\n", [250, 503, 250]),
    ("BDAT without an envelope", b"RSET\r\nBDAT %d LAST\r\n%s" % (len(EVIL), EVIL), [250, 503]),
]


def abuse(d):
    """Every confusion of BDAT: the right reply, nothing queued, and the octets of a refused chunk are never commands."""
    for name, wire, codes in ABUSES:
        for step in (0, 1):
            if step and len(wire) > 500:
                continue
            s = pepsi.Smtp(d.port)
            begin(s)
            got = []
            try:
                try:
                    for i in range(0, len(wire), step or len(wire)):
                        s.raw(wire[i:i + (step or len(wire))])
                except OSError:
                    pass  # the session ended in the middle, as it may
                while len(got) < len(codes):
                    got.append(s.reply()[0])
            except (pepsi.SmtpError, OSError):
                got.append(None)
            pepsi.check(got == codes, "%s in steps of %d: %s, not %s" % (name, step, got, codes))
            if None not in codes:
                code, text = s.cmd("NOOP")
                pepsi.check(code == 250, "%s: NOOP: %d %s" % (name, code, text))
            s.file.close()
            s.sock.close()
    status = d.status()
    pepsi.check(status["accepted"] == 0 and not d.queue(), "something was queued: %s" % status)
    d.accept(FROM, TO, pepsi.message("honest"))
    pepsi.wait_for("an honest message", lambda: len(d.maildir(TO)) == 1, 10)


def binary(d, sink):
    """A binary body is stored as it came; over SMTP without BDAT it goes out as it is if it is text, else as base64."""
    head = b"From: <%s>\r\nTo: <x@far.test>\r\nSubject: binary\r\nX-Token: %%s\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\r\n" % FROM.encode()
    s = pepsi.Smtp(d.port)
    bodies = {b"text": b"just text\r\n", b"octets": bytes(range(256)) * 4, b"long": b"x" * 3000 + b"\r\n"}
    for token, body in bodies.items():
        begin(s, "x@far.test", " BODY=BINARYMIME")
        replies = bdat(s, head % token + body, [50, 3])
        pepsi.check(replies[-1][0] == 250, "%s: %s" % (token, replies))
    # the headers are no place for that
    begin(s, "x@far.test", " BODY=BINARYMIME")
    pepsi.check(bdat(s, b"Subject: x\n\n" + head % b"headers", [])[-1][0] == 550, "bare LF in binary headers")
    # DATA cannot carry it
    begin(s, "x@far.test", " BODY=BINARYMIME")
    code, text = s.cmd("DATA")
    pepsi.check(code == 503, "DATA with BINARYMIME: %d %s" % (code, text))
    s.close()
    pepsi.wait_for("all at the next hop", lambda: len(sink.tokens()) == len(bodies), 20)
    for m in sink.messages:
        got = email.message_from_bytes(m.data)
        how = "binary" if m.token == "text" else "base64"
        pepsi.check(got.get_payload(decode=True) == bodies[m.token.encode()] and got["Content-Transfer-Encoding"] == how, "%s: %r" % (m.token, m.data[:600]))
    pepsi.check(not d.maildir(FROM), "something came back")


def limits_and_prdr(d):
    s = pepsi.Smtp(d.limited)
    pepsi.check("LIMITS MAILMAX=2 RCPTMAX=100" in s.extensions, s.extensions)
    three = ["%s@example.test" % u for u in ("alice", "bob", "carol")]
    begin(s, three, " PRDR")
    s.cmd("DATA")
    s.raw(pepsi.message("prdr") + b".\r\n")
    codes = [s.reply()[0] for _ in range(5)]
    pepsi.check(codes == [353, 250, 250, 250, 250], "PRDR: %s" % codes)
    begin(s, three[:1], " PRDR")  # for one recipient an answer is enough
    s.cmd("DATA")
    s.raw(pepsi.message("one") + b".\r\n")
    pepsi.check(s.reply()[0] == 250, "PRDR with one recipient")
    code, text = s.cmd("MAIL FROM:<%s>" % FROM)
    pepsi.check(code == 421, "a third message: %d %s" % (code, text))
    try:
        s.cmd("NOOP")
        raise pepsi.Failed("the session went on behind 421")
    except (pepsi.SmtpError, OSError):
        pass
    s = pepsi.Smtp(d.limited)
    s.cmd("MAIL FROM:<%s>" % FROM)
    for i in range(101):
        code, text = s.cmd("RCPT TO:<u%d@example.test>" % i)
        pepsi.check(code == (250 if i < 100 else 452), "recipient %d: %d %s" % (i, code, text))
    s.close()
    pepsi.wait_for("delivery", lambda: [len(d.maildir(u)) for u in three] == [2, 1, 1], 15)


def repeated(d):
    """Who is named again and again gets one copy, with what was wished for him any time; LMTP answers each RCPT all the same."""
    sent = pepsi.message("often", rcpt=TO)
    for port, replies in ((d.port, 1), (d.lmtp, 21)):
        s = pepsi.Smtp(port, ehlo="client.example.test" if replies == 1 else None)
        if replies > 1:
            s.cmd("LHLO client.example.test")
        begin(s, [TO] * 19 + ["aLiCe@example.test", "alice@EXAMPLE.test"])
        s.cmd("DATA")
        s.raw(pepsi.crlf(sent) + b".\r\n")
        for _ in range(replies):
            code, text = s.reply()
            pepsi.check(code == 250, "%d %s" % (code, text))
        s.close()
        pepsi.wait_for("a copy", lambda: d.maildir(TO), 20)
        d.wait_empty(15)
        pepsi.check(len(d.maildir(TO)) == 1, "%d copies" % len(d.maildir(TO)))
        emptied(d)


def switched_off(d):
    """What EXTENSIONS leaves out is neither announced nor taken; an unknown name is an error with the nearest one."""
    s = pepsi.Smtp(d.bare)
    pepsi.check(sorted(e.split()[0] for e in s.extensions) == ["ENHANCEDSTATUSCODES", "SIZE"], s.extensions)
    for params in ("BODY=8BITMIME", "SMTPUTF8", "RET=HDRS", "PRDR", "REQUIRETLS", "HOLDFOR=5", "BY=5;R", "MT-PRIORITY=1", "AUTH=<>"):
        code, text = s.cmd("MAIL FROM:<%s> %s" % (FROM, params))
        pepsi.check(code == 555, "%s: %d %s" % (params, code, text))
    for verb, want in (("EXPN x", 502), ("HELP", 502), ("XCLIENT NAME=x", 502), ("STARTTLS", 502)):
        code, text = s.cmd(verb)
        pepsi.check(code == want, "%s: %d %s" % (verb, code, text))
    begin(s)
    s.raw(b"BDAT 6 LAST\r\nQUIT\r\n")
    pepsi.check(s.reply()[0] == 503, "BDAT that is not offered")
    pepsi.check(s.cmd("NOOP")[0] == 250, "its chunk was read over")
    s.close()
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write(text.replace("size enhancedstatuscodes", "size chunkin"))
    code, out = d.cli("config", "check")[:2]
    with open(d.config, "w") as f:
        f.write(text)
    pepsi.check(code != 0 and "did you mean chunking?" in out, "config check: %d %s" % (code, out))


def swaks_and_curl(d):
    """XCLIENT and LMTP by swaks, a message, VRFY, EXPN and HELP by curl."""
    swaks, curl = pepsi.need("swaks", "curl")
    def run(*command, data=pepsi.message("tool")):
        r = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return r.returncode, r.stdout.decode(errors="replace")
    code, out = run(swaks, "--server", "127.0.0.1:%d" % d.tools, "--from", FROM, "--to", TO, "--xclient-addr", "192.0.2.77", "--xclient-name", "x.example",
                    "--xclient-port", "4711", "--data", "-")
    pepsi.check(code == 0 and "XCLIENT" in out, "swaks with XCLIENT: %s" % out)
    mail = pepsi.wait_for("its message", lambda: d.maildir(TO), 15)[0]
    pepsi.check(b"192.0.2.77" in mail.split(b"\r\n\r\n")[0], "the client's address is not in the trace: %r" % mail[:600])
    # the stranger behind the proxy may not relay
    code, out = run(swaks, "--server", "127.0.0.1:%d" % d.tools, "--from", FROM, "--to", "x@elsewhere.test", "--xclient-addr", "192.0.2.77")
    pepsi.check(code != 0 and "Relaying denied" in out, "relaying for a stranger: %s" % out)
    code, out = run(swaks, "--server", "127.0.0.1:%d" % d.lmtp, "--protocol", "LMTP", "--from", FROM, "--to", "alice@example.test,bob@example.test", "--data", "-")
    pepsi.check(code == 0 and out.count("queued as") == 2, "LMTP by swaks: %s" % out)
    pepsi.wait_for("both copies", lambda: len(d.maildir("bob@example.test")) == 1 and len(d.maildir(TO)) == 2, 15)
    pepsi.check(b"with LMTP" in d.maildir("bob@example.test")[0], "no LMTP in the trace")
    url = "smtp://127.0.0.1:%d/client.example.test" % d.tools
    code, out = run(curl, "-sS", url, "--mail-from", FROM, "--mail-rcpt", TO, "-T", "-")
    pepsi.check(code == 0, "curl: %s" % out)
    code, out = run(curl, "-sS", url, "--mail-rcpt", "alice")
    pepsi.check(code == 0 and "252" in out, "curl VRFY: %s" % out)
    code, out = run(curl, "-sS", url, "--mail-rcpt", "friends", "-X", "EXPN")
    pepsi.check(code == 0 and "252" in out, "curl EXPN: %s" % out)
    code, out = run(curl, "-sS", url)
    pepsi.check(code == 0 and "214" in out and "EXPN" in out, "curl HELP: %s" % out)
    pepsi.wait_for("curl's message", lambda: len(d.maildir(TO)) == 3, 15)


def extensions(t):
    sink = pepsi.Sink(t)
    d = daemon(t, sink)
    abuse(d)
    for part in (chunking, lambda x: binary(x, sink), limits_and_prdr, repeated, switched_off, swaks_and_curl):
        emptied(d)
        part(d)
    d.wait_empty(15)
    d.stop()


pepsi.main(__file__, [extensions])
