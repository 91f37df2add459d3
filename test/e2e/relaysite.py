"""What tests with other people's programs share: our server with a listener of each kind and an account, and a next hop that keeps what
it is told. A module; no test by itself."""
import os
import re

import pepsi
from certs import Authority

PASSWORD = "a secret, truly"
USER, RCPT = "alice@example.test", "rcpt@far.test"
# what goes wrong on the way if anything does: leading dots, blanks at the end of lines, 8-bit text, a long line, empty lines at the end
BODY = (".\r\n..\r\n...three\r\n.x\r\nblanks \t \r\n\r\nna\u00efve caf\u00e9 \u2014 \u65e5\u672c\u8a9e\r\n" + "long " * 190 + "\r\nFrom here\r\n>From there\r\n"
        "BDAT 5 LAST\r\nQUIT\r\n.\tdot\r\n\r\nthe end\r\n\r\n").encode()


def message(token, sender=USER, rcpt=RCPT, subject="test"):
    return ("From: <%s>\r\nTo: <%s>\r\nSubject: %s\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\nMessage-ID: <%s@client.example.test>\r\n"
            "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\nX-Token: %s\r\n\r\n"
            % (sender, rcpt, subject, token, token)).encode() + BODY


class Site:
    """Our server with a listener of each kind, the account alice, and a next hop that keeps what it is told. One for all functions."""
    shared = None

    @classmethod
    def of(cls, t):
        if not cls.shared:
            cls.shared = cls(t)
        return cls.shared

    def __init__(self, t):
        self.ca = Authority(t)
        pair = self.ca.issue("mx.example.test", "DNS:mx.example.test,DNS:localhost,IP:127.0.0.1")
        tls = "TLS_CERT = %s\nTLS_KEY = %s\n" % pair
        self.submission, self.submissions = pepsi.free_port(), pepsi.free_port()
        self.sink = pepsi.Sink(t)
        more = "[listener-submission]\nBIND = 127.0.0.1:%d\nPROTOCOL = submission\n%s" % (self.submission, tls)
        more += "[listener-submissions]\nBIND = 127.0.0.1:%d\nPROTOCOL = submissions\n%s" % (self.submissions, tls)
        self.d = pepsi.Pepsid(t, pepsi.smarthost("init", self.sink.port) + pepsi.bounce(), listener=tls, more=more)
        self.d.keep, self.port = True, self.d.port
        self.number = 0
        self.account("add", "alice", "--password-stdin", "--sender", USER)
        pepsi.wait_for("the admin child", lambda: self.d.status()["ingress"]["signin"]["up"])

    def account(self, *args):
        def once():
            code, out, err = self.d.cli("account", *args, stdin=PASSWORD.encode() + b"\n")
            return code == 0 or (err + out if "reached" not in err and "away" not in err else False)
        done = pepsi.wait_for("pepsi account", once)
        pepsi.check(done is True, "pepsi account: %s" % done)

    def token(self, name):
        self.number += 1
        return "%s-%d" % (name, self.number)

    def arrived(self, token, sent, protocol, seconds=20, chunked=None, sender=USER, peer=None):
        """The message at the next hop; what it must be like was checked."""
        try:
            m = pepsi.wait_for("message " + token, lambda: [m for m in list(self.sink.messages) if m.token == token], seconds)
        except pepsi.Failed as e:
            raise pepsi.Failed("%s%s" % (e, "; its log: " + peer.texts()[-3000:] if peer else ""))
        pepsi.check(len(m) == 1, "%s arrived %d times" % (token, len(m)))
        m = m[0]
        problem = pepsi.below_trace(m.data, sent)
        pepsi.check(problem is None, "%s %s" % (token, problem))
        trace = re.sub(r"\s+", " ", m.data.split(b"\r\n\r\n")[0].decode("utf-8", "replace"))
        first = re.search(r"Received: .*?by mx\.example\.test.*? with (\w+) id (\d+)", trace)
        pepsi.check(first and first.group(1) == protocol, "%s: not %s: %s" % (token, protocol, trace[:300]))
        pepsi.check(m.mail_from == sender, "%s: sender %s" % (token, m.mail_from))
        if chunked is not None:
            with open(self.d.log, errors="replace") as f:
                line = [x for x in f if "id=%s event=accepted" % first.group(2) in x][0]
            pepsi.check(("chunked=1" in line) == chunked, "%s: %s" % (token, line))
        return m
