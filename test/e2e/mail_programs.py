"""Mail programs that people use. Those that are installed here and can be told to send without a hand on them send a message with everything
in it that is hard (a subject and names in other scripts, 8-bit text, lines of dots, attachments, To, Cc and Bcc) through our submission
listeners; it must come to the next hop whole. And the dialogues that they, and some that need a screen, once had with us (test/e2e/dialogues)
are said again: as they were, each turn at once, and octet for octet.

    mail_programs.py --record [FUNCTION…]         writes the dialogues of those programs anew
    mail_programs.py --record by_hand PACKAGE     for a program with a screen: says where to send, and keeps what it says until it is interrupted"""
import email
import email.policy
import os
import random
import subprocess
import sys
import time

import dialogue
import pepsi
from relaysite import PASSWORD, USER, Site

RECORD = "--record" in sys.argv
BY_HAND = None
if RECORD:
    sys.argv.remove("--record")
    if sys.argv[1:2] == ["by_hand"]:
        BY_HAND = sys.argv.pop()

TO, CC, BCC = ("rcpt@far.test", "second@far.test"), "third+tag@far.test", "hidden@far.test"
SUBJECT = "Gr\u00fc\u00dfe \u2014 \u65e5\u672c\u8a9e, mit Anh\u00e4ngen"
TEXT = (".\n..\n.three\nFrom here on\n>From there\nblanks \t\n\nna\u00efve caf\u00e9 \u2014 \u65e5\u672c\u8a9e\nBDAT 5 LAST\nQUIT\n" + "long " * 150 + "\n.dot\nthe end\n")
ATTACHED = random.Random(1).randbytes(3000) + b"\r\n.\r\n\n.\n\0\r"


class Desk:
    """What a user has before him: a home, the text, an attachment, the authority's certificate."""
    shared = None

    @classmethod
    def of(cls, t):
        if not cls.shared:
            cls.shared = cls(t)
        return cls.shared

    def __init__(self, t):
        self.t, self.site = t, Site.of(t)
        self.home = os.path.join(t.dir, "home")
        os.mkdir(self.home)
        self.text, self.file = self.put("text", TEXT.encode()), self.put("attached.bin", ATTACHED)
        self.env = {"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin", "HOME": self.home, "LC_ALL": "C.UTF-8", "TERM": "vt100",
                    "EMAIL": USER, "TMPDIR": t.dir}
        self.recorder = None

    def put(self, name, octets, mode=0o600):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(octets if isinstance(octets, bytes) else octets.encode())
        os.chmod(path, mode)
        return path

    def port(self, listener):
        """Of the listener, or of a relay to it that records."""
        port = getattr(self.site, listener)
        if not RECORD:
            return port
        identity = self.site.ca.issue("mx.example.test", "DNS:mx.example.test,DNS:localhost,IP:127.0.0.1", file="relay%d" % self.t.next_number())
        self.recorder = dialogue.Recorder(self.t, port, identity, self.site.ca.cert, listener == "submissions")
        return self.recorder.port

    def run(self, *command, data=b"", seconds=20):
        r = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds * pepsi.PATIENCE, env=self.env, cwd=self.home,
                           start_new_session=True)  # no terminal that could be asked anything
        out = r.stdout.decode(errors="replace")
        pepsi.check(r.returncode == 0, "%s: %d %s" % (" ".join(command), r.returncode, out[-3000:]))
        return out

    def arrived(self, token, rcpts, whole=True, name=None, package=None, listener=None):
        """The message with this X-Token, looked at as its reader would. Where it was recorded: into a file `name`."""
        m = pepsi.wait_for("message " + token, lambda: [m for m in list(self.site.sink.messages) if m.token == token], 20)
        pepsi.check(len(m) == 1, "%s arrived %d times" % (token, len(m)))
        m = m[0]
        pepsi.check(m.mail_from == USER and sorted(r[0] for r in m.rcpts) == sorted(rcpts), "%s: envelope %s %s" % (token, m.mail_from, m.rcpts))
        parsed = email.message_from_bytes(m.data, policy=email.policy.default)
        pepsi.check("with ESMTPSA" in parsed["Received"], "%s: %s" % (token, parsed["Received"]))
        pepsi.check(parsed["Subject"] == SUBJECT, "%s: subject %s" % (token, parsed["Subject"]))
        pepsi.check(not parsed["Bcc"], "%s: Bcc came through" % token)
        if whole:
            body = parsed.get_body(("plain",)).get_content()
            pepsi.check(body.rstrip("\n").replace("\r", "").endswith(TEXT.rstrip("\n")), "%s: text %r" % (token, body[-400:]))
            files = [p.get_payload(decode=True) for p in parsed.iter_attachments()]
            pepsi.check(ATTACHED in files, "%s: attachments of %s octets" % (token, [len(f or b"") for f in files]))
        if RECORD and name:
            keep(name, package, listener, pepsi.wait_for("the dialogue's end", lambda: self.recorder.dialogues, 20)[-1])
        return m


def keep(name, package, listener, events):
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], stdout=subprocess.PIPE).stdout.decode()
    with open("/etc/os-release") as f:
        system = [line.split("=")[1].strip().strip('"') for line in f if line.startswith("PRETTY_NAME")][0]
    dialogue.write(name, "%s %s" % (package, version), system, listener, events)


def sign_in_url(scheme, port):
    return "%s://alice@localhost:%d" % (scheme, port)


def with_mutts(t, program, more=()):
    """neomutt and mutt: one family, two ways in TLS (GnuTLS both in Debian)."""
    pepsi.need(program)
    desk = Desk.of(t)
    for scheme, listener, mech in (("smtp", "submission", "plain"), ("smtps", "submissions", "login"), *more):
        token = desk.site.token(program)
        rc = desk.put("%src" % program, "set from=%s\nset realname=\"Alice \u00c4rmel\"\nset use_envelope_from=yes\nset smtp_url=%s/\nset smtp_pass=\"%s\"\n"
                      "set smtp_authenticators=%s\nset ssl_ca_certificates_file=%s\nset ssl_force_tls=yes\nset copy=no\nmy_hdr X-Token: %s\n"
                      "set allow_8bit=yes\nset send_charset=utf-8\n" % (USER, sign_in_url(scheme, desk.port(listener)), PASSWORD, mech, desk.site.ca.cert, token))
        desk.run(program, "-n", "-F", rc, "-s", SUBJECT, "-c", CC, "-b", BCC, "-a", desk.file, "--", *TO, data=TEXT.encode())
        # a SCRAM dialogue is another one each time
        desk.arrived(token, TO + (CC, BCC), name=mech != "scram-sha-256" and "%s-%s-%s" % (program, listener, mech), package=program, listener=listener)


def with_neomutt(t):
    with_mutts(t, "neomutt")


def with_mutt(t):
    with_mutts(t, "mutt", [("smtps", "submissions", "scram-sha-256")])


def with_s_nail(t):
    pepsi.need("s-nail")
    desk = Desk.of(t)
    for scheme, listener, mech in (("smtp", "submission", "plain"), ("smtps", "submissions", "login")):
        token = desk.site.token("s-nail")
        more = ["-S", "smtp-use-starttls"] if scheme == "smtp" else []
        desk.run("s-nail", "-:/", "-S", "v15-compat", "-S", "mta=%s://alice:%s@localhost:%d" % (scheme, PASSWORD.replace(" ", "%20").replace(",", "%2C"), desk.port(listener)),
                 "-S", "smtp-auth=" + mech, "-S", "tls-ca-file=" + desk.site.ca.cert, "-S", "tls-ca-no-defaults", "-S", "tls-verify=strict", "-S", "from=" + USER,
                 "-S", "ttycharset=utf-8", "-S", "mime-encoding=8bit", "-S", "nosave", "-S", "sendwait", "-C", "X-Token: " + token, *more, "-s", SUBJECT, "-c", CC, "-b", BCC,
                 "-a", desk.file, *TO, data=TEXT.encode())
        desk.arrived(token, TO + (CC, BCC), name="s-nail-%s-%s" % (listener, mech), package="s-nail", listener=listener)


def with_git(t):
    """git send-email: two patches over one connection."""
    pepsi.need("git")
    desk = Desk.of(t)
    if b"--smtp-server-port" not in subprocess.run(["git", "send-email", "-h"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=desk.env).stdout:
        raise pepsi.Skip("git send-email is not installed")
    for encryption, listener in (("tls", "submission"), ("ssl", "submissions")):
        tokens = [desk.site.token("git"), desk.site.token("git")]
        files = [desk.put("%d.patch" % i, "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\nFrom: Alice <%s>\nDate: Mon, 30 Nov 2026 12:00:00 +0000\n"
                          "Subject: %s\nX-Token: %s\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: 8bit\n\n%s"
                          % (USER, SUBJECT, token, TEXT)) for i, token in enumerate(tokens)]
        desk.run("git", "-c", "core.pager=cat", "send-email", "--from=" + USER, "--to=" + ",".join(TO), "--cc=" + CC, "--bcc=" + BCC, "--suppress-cc=all", "--confirm=never",
                 "--envelope-sender=" + USER, "--smtp-server=localhost", "--smtp-server-port=%d" % desk.port(listener), "--smtp-encryption=" + encryption, "--smtp-user=alice",
                 "--smtp-pass=" + PASSWORD, "--smtp-auth=PLAIN", "--smtp-ssl-cert-path=" + desk.site.ca.cert, "--no-validate", "--8bit-encoding=UTF-8", "--transfer-encoding=8bit",
                 "--smtp-domain=client.example.test", *files)
        for i, token in enumerate(tokens):
            desk.arrived(token, TO + (CC, BCC), whole=False, name=i and "git-send-email-" + listener, package="git-email", listener=listener)


def by_hand(t):
    desk, recorders = Desk.of(t), {}
    for listener in ("submission", "submissions"):
        desk.port(listener)
        recorders[listener] = desk.recorder
    pepsi.say("      localhost, STARTTLS at port %d, TLS at port %d; the name is alice, the password \"%s\", the sender %s, the authority %s"
              % (recorders["submission"].port, recorders["submissions"].port, PASSWORD, USER, desk.site.ca.cert))
    kept = dict.fromkeys(recorders, 0)
    while True:
        time.sleep(0.5)
        for listener, r in recorders.items():
            for events in r.dialogues[kept[listener]:]:
                kept[listener] += 1
                keep("%s-%s-%d" % (BY_HAND, listener, kept[listener]), BY_HAND, listener, events)
                pepsi.say("      a dialogue of %d events" % len(events))


def said_again(t):
    """The dialogues of test/e2e/dialogues, each three times."""
    site = Site.of(t)
    for d in dialogue.recorded():
        messages = d.messages()
        pepsi.check(messages, "%s: no message in it" % d.name)
        for way in ("recorded", "whole", "octets"):
            before = len(site.sink.messages)
            dialogue.replay(d, getattr(site, d.about["listener"]), site.ca.cert, way)
            arrived = pepsi.wait_for("%s (%s): %d messages" % (d.name, way, len(messages)), lambda: len(site.sink.messages) >= before + len(messages) and
                                     site.sink.messages[before:], 20)
            for sent in messages:
                # what we add to a submitted message stands above what came
                pepsi.check([m for m in arrived if m.data.endswith(sent)], "%s (%s): %r is not among what arrived: %r" % (d.name, way, sent[:300], [m.data[:600] for m in arrived]))
        pepsi.say("      %s: %s, %s" % (d.name, d.about["program"], d.about["system"]))


def nothing_left(t):
    site = Site.of(t)
    site.d.wait_empty(15)
    site.d.stop()


pepsi.main(__file__, [by_hand] if BY_HAND else [with_neomutt, with_mutt, with_s_nail, with_git, said_again, nothing_left])
