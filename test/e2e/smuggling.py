"""End-of-data smuggling, end to end: whatever stands around the hidden end, a next hop sees one message or none, never
two, and no octet sequence that a sloppier receiver would take for an end of data."""
import re
import time

import pepsi

HIDDEN = b"MAIL FROM:<evil@example.test>\r\nRCPT TO:<victim@far.test>\r\nDATA\r\nSubject: smuggled\r\nX-Token: smuggled\r\n\r\nboo\r\n.\r\n"
ENDS = [b"\n.\n", b"\n.\r\n", b"\r\n.\n", b"\r.\r", b"\r.\r\n", b"\r\n.\r", b"\r\r\n.\r\r\n", b"\n.\r\r\n", b"\r\n.\r\r\n", b"\r\n\0.\r\n", b"\r\n.\0\r\n",
        b"\n\n.\r\n", b"\r\n.\n\r\n", b"\n\r.\r\n", b"\r\n.\r\0\n"]


def attempt(d, end, pieces):
    s = pepsi.Smtp(d.port)
    try:
        code, text = s.envelope("sender@example.test", "rcpt@far.test")
        pepsi.check(code == 354, "DATA: %d %s" % (code, text))
        data = b"Subject: carrier\r\nX-Token: carrier\r\n\r\nhello" + end + HIDDEN
        if pieces:
            for i in range(0, len(data), pieces):
                s.raw(data[i:i + pieces])
                if i < 400:
                    time.sleep(0.0005)
        else:
            s.raw(data)
        return s.reply()
    except (OSError, pepsi.SmtpError):
        return None, "closed"
    finally:
        s.file.close()
        s.sock.close()


def one_or_none(t):
    sink = pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce())
    accepted = 0
    for end in ENDS:
        for pieces in (0, 1, 7):
            sink.messages.clear()
            code, text = attempt(d, end, pieces)
            if code == 250:
                accepted += 1
            else:
                pepsi.check(code is None or 500 <= code < 600, "%r: %s %s" % (end, code, text))
            d.wait_empty(10)
            got = list(sink.messages)
            pepsi.check(len(got) <= 1 and len(got) == (code == 250), "%r in pieces of %d: reply %s, %d messages" % (end, pieces, code, len(got)))
            for m in got:
                pepsi.check(m.mail_from == "sender@example.test" and m.token == "carrier", "%r: smuggled: %s" % (end, m.mail_from))
                pepsi.check(b"\0" not in m.data and not re.search(rb"\r(?!\n)|(?<!\r)\n", m.data), "%r: bare CR, bare LF or NUL went out" % end)
    pepsi.check(accepted == 0, "%d of them were accepted; bare line ends are to be refused" % accepted)
    # and the straight way still works
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("straight"))
    pepsi.wait_for("an honest message", lambda: "straight" in sink.tokens(), 10)
    d.stop()


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


pepsi.main(__file__, [one_or_none, pipelined_honest])
