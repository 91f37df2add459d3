"""Whole messages survive: every message of the shared vectors' MIME corpora, and made-up edge cases, SMTP → Maildir
and SMTP → LMTP (a real Dovecot) → IMAP, each unchanged below the trace headers. What no SMTP message may hold (NUL,
bare CR) is refused with 550."""
import glob
import os
import re

import pepsi
from dovecot import Dovecot

TOPICS = ("mime", "protected-headers", "bounce", "arf", "autoreply", "list-mail", "smime", "openpgp", "autocrypt", "dkim", "dmarc-reports", "tlsrpt")

EDGES = {
    "dots": b"Subject: dots\r\n\r\n.\r\n..\r\n...\r\n.a\r\n",
    "dot-first": b".Subject: x\r\n\r\nbody\r\n",
    "long-line": b"Subject: long\r\n\r\n" + b"x" * 70000 + b"\r\nend\r\n",
    "long-header": b"Subject: " + b"y" * 20000 + b"\r\n\r\nbody\r\n",
    "eight-bit": b"Subject: 8bit\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + bytes(range(128, 256)) * 5 + b"\r\n",
    "utf8-header": "Subject: Grüße aus Köln\r\n\r\nГрюсе\r\n".encode(),
    "controls": b"Subject: c\r\n\r\n" + bytes(c for c in range(1, 32) if c not in (10, 13)) + b"\x7f\r\n",
    "no-final-newline": b"Subject: none\r\n\r\nno newline at the end",
    "empty-body": b"Subject: empty\r\n\r\n",
    "no-empty-line": b"Subject: headers only\r\nX-More: yes\r\n",
    "empty": b"\r\n",
    "body-only": b"\r\nno header at all\r\n",
    "no-header": b"this is no header line\r\n\r\nbody\r\n",
    "blank-lines": b"Subject: b\r\n\r\n\r\n\r\n\r\n",
    "folded": b"Subject: a\r\n b\r\n\tc\r\n \r\n d\r\n\r\nx\r\n",
    "mbox-from": b"From somebody Mon Nov 30 12:00:00 2026\r\nSubject: m\r\n\r\nFrom here on\r\n>From there\r\n",
    "trailing-blank": b"Subject: t \t \r\n\r\nline \t\r\n \r\n",
    "big": b"Subject: big\r\n\r\n" + (b"0123456789abcdef" * 4 + b"\r\n") * 30000,
}
REFUSED = {
    "nul-body": b"Subject: n\r\n\r\na\0b\r\n",
    "nul-header": b"Subject: n\0\r\n\r\nab\r\n",
    "bare-cr": b"Subject: r\r\n\r\na\rb\r\n",
    "bare-cr-header": b"Subject: r\rX: y\r\n\r\nab\r\n",
}


def corpus():
    base, out = pepsi.vectors(), {}
    for topic in TOPICS:
        for pattern in ("*.eml", "*.msg"):
            for f in sorted(glob.glob(os.path.join(base, topic, "**", pattern), recursive=True)):
                with open(f, "rb") as h:
                    out[os.path.relpath(f, base)] = pepsi.crlf(h.read())
    pepsi.check(len(out) > 100, "only %d messages found in %s" % (len(out), base))
    return out


def refusable(data):
    return b"\0" in data or re.search(rb"\r(?!\n)", data) is not None or re.search(rb"(?<!\r)\n", data) is not None


def feed(d, messages):
    """Sends each to a recipient of its own; {recipient: (name, octets)} of those that must arrive."""
    expected, refused = {}, 0
    s = pepsi.Smtp(d.port)
    for i, (name, data) in enumerate(sorted(messages.items())):
        rcpt = "m%04d@example.test" % i
        code, text = s.send("sender@example.test", rcpt, data, params="BODY=8BITMIME")
        if refusable(data):
            pepsi.check(code == 550, "%s: NUL or bare CR was answered %d %s" % (name, code, text))
            refused += 1
            # the session may go on or not; either is allowed after such a message
            try:
                ok = s.cmd("NOOP")[0] == 250
            except (OSError, pepsi.SmtpError):
                ok = False
            if not ok:
                s = pepsi.Smtp(d.port)
        else:
            pepsi.check(code == 250, "%s: %d %s" % (name, code, text))
            expected[rcpt] = (name, data)
    s.close()
    return expected, refused


def to_maildir(t, messages):
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.maildir("init", d.mail) + pepsi.bounce())
    d.start()
    expected, refused = feed(d, messages)
    d.wait_empty(60)
    bad = []
    for rcpt, (name, data) in expected.items():
        got = d.maildir(rcpt)
        problem = "%d copies" % len(got) if len(got) != 1 else pepsi.below_trace(got[0], data)
        if problem:
            bad.append("%s: %s" % (name, problem))
    pepsi.check(not bad, "%d of %d changed or missing:\n  %s" % (len(bad), len(expected), "\n  ".join(bad[:10])))
    pepsi.say("      Maildir: %d messages unchanged, %d refused as they must be" % (len(expected), refused))
    d.stop()


def edges_to_maildir(t):
    to_maildir(t, dict(EDGES, **REFUSED))


def corpora_to_maildir(t):
    to_maildir(t, corpus())


def to_dovecot(t, messages):
    dovecot = Dovecot(t)
    d = pepsi.Pepsid(t, pepsi.lmtp("init", dovecot.lmtp) + pepsi.bounce())
    expected, refused = feed(d, messages)
    d.wait_empty(90)
    bad = []
    for rcpt, (name, data) in expected.items():
        got = dovecot.fetch(rcpt.split("@")[0])
        problem = "%d copies" % len(got) if len(got) != 1 else pepsi.below_trace(got[0], data)
        if problem:
            bad.append("%s: %s" % (name, problem))
    pepsi.check(not bad, "%d of %d changed or missing:\n  %s" % (len(bad), len(expected), "\n  ".join(bad[:10])))
    pepsi.say("      Dovecot: %d messages unchanged over IMAP, %d refused as they must be" % (len(expected), refused))
    d.stop()


def edges_to_dovecot(t):
    to_dovecot(t, EDGES)


def corpora_to_dovecot(t):
    to_dovecot(t, corpus())


pepsi.main(__file__, [edges_to_maildir, corpora_to_maildir, edges_to_dovecot, corpora_to_dovecot])
