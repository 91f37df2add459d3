"""Whole messages survive: every message of the shared vectors' MIME corpora, and made-up edge cases, SMTP → Maildir
and SMTP → LMTP (a real Dovecot) → IMAP, each unchanged below the trace headers. What no SMTP message may hold (NUL,
bare CR) is refused with 550."""
import glob
import imaplib
import os
import pwd
import re

import pepsi

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


class Dovecot:
    """A private Dovecot: LMTP on a unix socket, IMAP on loopback; every user name is valid, the password is "pw"."""

    def __init__(self, t):
        dovecot = pepsi.need("dovecot")
        if not os.path.exists("/usr/lib/dovecot/lmtp") or not os.path.exists("/usr/lib/dovecot/imap"):
            raise pepsi.Skip("dovecot-lmtpd or dovecot-imapd is not installed")
        self.imap = pepsi.free_port()
        self.dir = os.path.join(t.dir, "dovecot%d" % t.next_number())
        os.makedirs(os.path.join(self.dir, "mail"))
        user = pwd.getpwnam("nobody") if pepsi.ROOT else pwd.getpwuid(os.geteuid())
        os.chown(os.path.join(self.dir, "mail"), user.pw_uid, user.pw_gid)
        self.lmtp = os.path.join(self.dir, "lmtp.sock")
        own = "" if pepsi.ROOT else "default_internal_user = %s\ndefault_login_user = %s\n" % (user.pw_name, user.pw_name)
        chroot = "" if pepsi.ROOT else "chroot =\n"
        with open(os.path.join(self.dir, "dovecot.conf"), "w") as f:
            f.write("""
base_dir = %(d)s/run
state_dir = %(d)s/state
log_path = %(d)s/log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain
first_valid_uid = 1
last_valid_uid = 0
first_valid_gid = 0
%(own)s
mail_location = maildir:~/Maildir
mail_max_userip_connections = 0
passdb {
  driver = static
  args = password=pw
}
userdb {
  driver = static
  args = uid=%(uid)d gid=%(gid)d home=%(d)s/mail/%%n allow_all_users=yes
}
service imap-login {
  %(chroot)s
  inet_listener imap {
    port = %(imap)d
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  %(chroot)s
}
service stats {
  %(chroot)s
  unix_listener stats-writer {
    mode = 0666
  }
}
service lmtp {
  unix_listener %(lmtp)s {
    mode = 0666
  }
}
""" % dict(d=self.dir, own=own, uid=user.pw_uid, gid=user.pw_gid, imap=self.imap, lmtp=self.lmtp, chroot=chroot))
        self.process = t.popen([dovecot, "-F", "-c", os.path.join(self.dir, "dovecot.conf")], os.path.join(self.dir, "out"))
        try:
            pepsi.wait_for("Dovecot's socket", lambda: os.path.exists(self.lmtp), 15)
        except pepsi.Failed:
            for n in ("out", "log"):
                p = os.path.join(self.dir, n)
                if os.path.exists(p):
                    pepsi.say(open(p, errors="replace").read()[-2000:])
            raise

    def fetch(self, user):
        c = imaplib.IMAP4("127.0.0.1", self.imap)
        try:
            c.login(user, "pw")
            c.select("INBOX")
            _, ids = c.search(None, "ALL")
            out = []
            for i in ids[0].split():
                _, parts = c.fetch(i.decode(), "(BODY.PEEK[])")
                out.append(parts[0][1])
            return out
        finally:
            try:
                c.logout()
            except (OSError, imaplib.IMAP4.error):
                pass


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
