"""Other people's servers as next hops: Postfix, Exim, OpenSMTPD and aiosmtpd by SMTP (relay-to-smarthost, and relay-to-internet), Dovecot by LMTP, each
in plain text and within TLS. What they got is what was sent, octet for octet: content with all that goes wrong on the way, addresses in another
script, the parameters of DSN; who does not offer one of these gets what can be given without, or the sender hears of it. The first three hand on to a
hop that keeps what it is told, and it is asked; what they say of the session they write into their trace. Who offers CHUNKING gets all of it by BDAT, too,
and says so in his log, if he ever does."""
import json
import os
import re

import dnslab
import hops
import peers
import pepsi
import signer
import sink
from certs import Authority
from dovecot import Dovecot
from relaysite import message

DSN_MAIL, DSN_RCPT = ("RET=HDRS", "ENVID=relay+2Bid"), ("NOTIFY=SUCCESS,DELAY", "ORCPT=rfc822;orig@far.test")
LARGE = b"all work and no play makes mail a dull thing to look at\r\n.\r\n" * 20000


class Got:
    def __init__(self, data, mail_params, rcpts, tls):
        self.data, self.mail_params, self.rcpts, self.tls = data, mail_params, rcpts, tls
        self.token = pepsi.token_of(data)


class HandsOn:
    """One that relays: all it takes goes to a hop of ours."""
    dsn_rcpt = DSN_RCPT

    def __init__(self, t):
        self.end = sink.Scripted(t)

    def got(self):
        out = []
        for m in list(self.end.messages):
            first = re.sub(r"\s+", " ", m.data.split(b"\r\n\r\n")[0].decode("utf-8", "replace")).split("Received:")[1]
            out.append(Got(m.data, m.mail_params, m.rcpts, bool(re.search(r"(?i)with (UTF8)?E?SMTPS|tls", first))))
        return out

    def texts(self):
        return self.peer.texts()


class Postfix(HandsOn):
    def __init__(self, t, pair):
        super().__init__(t)
        tls = "smtpd_tls_security_level = may\nsmtpd_tls_cert_file = %s\nsmtpd_tls_key_file = %s\n" % pair if pair else ""
        self.peer = peers.Postfix(t, "relay_domains = test\nrelayhost = [127.0.0.1]:%d\n%s" % (self.end.port, tls))
        self.port = self.peer.port


EXIM = """begin routers
all:
  driver = manualroute
  domains = *
  route_list = * 127.0.0.1
  self = send
  transport = on
begin transports
on:
  driver = smtp
  port = %d
  allow_localhost
  hosts_avoid_tls = *
begin retry
* * F,1h,2s
"""


class Exim(HandsOn):
    def __init__(self, t, pair):
        super().__init__(t)
        self.peer = peers.Exim(t, EXIM % self.end.port, pair=pair)
        self.port = self.peer.port


class OpenSmtpd(HandsOn):
    dsn_rcpt = DSN_RCPT[:1]    # it keeps ORCPT to itself

    def __init__(self, t, pair):
        super().__init__(t)
        text = "pki ours cert \"%s\"\npki ours key \"%s\"\n" % pair if pair else ""
        text += "listen on 127.0.0.1 port PORT %s hostname opensmtpd.example.test\n" % ("tls pki ours" if pair else "")
        text += "mta limit conn-delay-route 0 conn-delay-relay 0 reconn-delay-route 0\n"
        text += "action \"on\" relay host smtp+notls://127.0.0.1:%d\nmatch from any for any action \"on\"\n" % self.end.port
        self.peer = peers.OpenSmtpd(t, text)
        self.port = self.peer.port


class Aiosmtpd:
    def __init__(self, t, pair):
        self.port = pepsi.free_port()
        self.folder = os.path.join(t.dir, "aiosmtpd%d" % t.next_number())
        os.mkdir(self.folder)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keep_smtpd.py")
        t.popen([signer.python("aiosmtpd"), program, str(self.port), self.folder, *(pair or ())], log=os.path.join(self.folder, "log"))
        try:
            pepsi.wait_for("aiosmtpd listens", lambda: peers.listens(self.port), 20)
        except pepsi.Failed as e:
            raise pepsi.Failed("%s: %s" % (e, self.texts()[-2000:]))

    def got(self):
        out = []
        for name in os.listdir(self.folder):
            if name.endswith(".json"):
                with open(os.path.join(self.folder, name)) as f:
                    e = json.load(f)
                with open(os.path.join(self.folder, name[:-5] + ".octets"), "rb") as f:
                    out.append(Got(f.read(), " ".join(e["params"]), [(r, "") for r in e["rcpts"]], e["tls"]))
        return out

    def texts(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as f:
            return f.read()


class DovecotLmtp:
    lmtp = True

    def __init__(self, t, pair):
        self.peer = Dovecot(t, pair)
        self.port = self.peer.port

    def got(self):
        out = []
        for user in os.listdir(os.path.join(self.peer.dir, "mail")):
            for data in self.peer.fetch(user):
                trace = re.sub(r"\s+", " ", data.split(b"\r\n\r\n")[0].decode("utf-8", "replace"))
                first = trace.split("Received:")[1]
                to = re.search(r"Delivered-To: <?(\S+?)>? ", trace).group(1)
                out.append(Got(data, "", [(to, "")], "with LMTPS" in first))
        return out

    def texts(self):
        with open(os.path.join(self.peer.dir, "log"), errors="replace") as f:
            return f.read()


def offered(port, lmtp):
    s = pepsi.Smtp(port, ehlo=None)
    try:
        return [x.split(" ")[0].upper() for x in s.cmd(("LHLO" if lmtp else "EHLO") + " client.example.test")[1].split("\n")[1:]]
    finally:
        s.close()


def can_tls(port, ca):
    """Whether anybody can: OpenSMTPD of Debian 12 offers STARTTLS and has no use of its key, with this OpenSSL."""
    s = pepsi.Smtp(port)
    try:
        s.cmd("STARTTLS")
        s.file.close()
        s.sock = ca.context().wrap_socket(s.sock, server_hostname="localhost")
        return True
    except OSError as e:
        pepsi.say("      no TLS with it: %s" % e)
        return False
    finally:
        s.sock.close()


def has(words, *wanted):
    return all(w.lower() in words.lower().split() for w in wanted)


def reports(back):
    return [m.data.decode("utf-8", "replace") for m in list(back.messages)]


def talk(t, kind):
    lmtp = getattr(kind, "lmtp", False)
    ca = Authority(t)
    pair = ca.issue("hop", "DNS:localhost,IP:127.0.0.1")
    name = kind.__name__.lower()
    back = sink.Scripted(t)
    ways = {"plain": kind(t, None), "tls": kind(t, pair)}
    tls = lmtp or can_tls(ways["tls"].port, ca)
    if not lmtp:  # by relay-to-internet: TLS where it is offered and can be had
        ways["mx"] = ways["tls"]
        dns = dnslab.Lab({**{w + ".test": {"MX": ["10 host.mx.test"]} for w in ("mx", "bdatmx")}, "host.mx.test": {"A": ["127.0.0.1"]}})
        t.cleanup(dns.close)
    if not tls:
        del ways["tls"]
    if "CHUNKING" in offered(ways["plain"].port, lmtp):
        ways.update({"bdat" + w: peer for w, peer in ways.items()})
    stages = [pepsi.route("init", [(w + ".test", "to-" + w) for w in ways], "back"),
              pepsi.smarthost("back", back.port, bounce=None), pepsi.bounce()]
    for w, peer in ways.items():
        chunks = "CHUNKING = always\n" if w.startswith("bdat") else ""
        if w.endswith("mx"):
            stages.append("[stage-to-%s]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nBOUNCE_STAGE = bounce\n"
                          "RETRY_MIN = 1 s\nRETRY_MAX = 2 s\n%s\n" % (w, peer.port, chunks))
            continue
        text = (pepsi.lmtp if lmtp else pepsi.smarthost)("to-" + w, peer.port, chunks + ("TLS = require\nTLS_CA_FILE = %s\n" % ca.cert if w.endswith("tls") else ""))
        stages.append(text.replace("TLS = none\n", "") if w.endswith("tls") else text)
    d = pepsi.Pepsid(t, "".join(stages), pepsi="ALLOW_FUSION = NO\n",
                     more="" if lmtp else "[pepsi-dns]\nSERVERS = %s\n" % dns.server)
    within_tls = 0
    for w, peer in ways.items():
        keys = offered(peer.port, lmtp)
        plain = w.endswith("plain")
        pepsi.check(plain or "STARTTLS" in keys, "%s offers no TLS: %s" % (name, keys))
        rcpt, sent, relayed = "someone@%s.test" % w, {}, 0

        def send(token, to=rcpt, more=b"", params="BODY=8BITMIME", rcpt_params="", **kw):
            sent[token] = message(token, hops.SENDER, to, **kw) + more
            d.accept(hops.SENDER, to, sent[token], params=params, rcpt_params=rcpt_params)
        send("body-" + w, params="BODY=8BITMIME " + " ".join(DSN_MAIL), rcpt_params=" ".join(DSN_RCPT))
        send("large-" + w, more=LARGE)
        for i in range(20):
            send("burst%d-%s" % (i, w))
        utf8 = "\u00e4rger@%s.test" % w
        send("utf8-" + w, utf8, params="SMTPUTF8 BODY=8BITMIME", subject="\u00fcber")
        refused = [] if "SMTPUTF8" in keys else ["utf8-" + w]
        wanted = [x for x in sent if x not in refused]

        def those():
            return [m for m in peer.got() if m.token.endswith("-" + w)]

        def all_there():
            return not set(wanted) - {m.token for m in those()}
        try:
            pepsi.wait_for("all arrive", all_there, 30, 0.2)
        except pepsi.Failed as e:
            raise pepsi.Failed("%s %s: %s: %s; %s; its log: %s" % (name, w, e, set(wanted) - {m.token for m in those()}, d.queue()[:2], peer.texts()[-3000:]))
        got = {}
        for m in those():
            pepsi.check(m.token not in got, "%s %s: %s came twice" % (name, w, m.token))
            got[m.token] = m
        pepsi.check(set(got) == set(wanted), "%s %s: %s" % (name, w, sorted(set(got) ^ set(wanted))))
        for token, m in got.items():
            problem = pepsi.below_trace(m.data, sent[token])
            pepsi.check(problem is None, "%s: %s %s" % (name, token, problem))
            pepsi.check(m.tls == (tls and not plain), "%s: %s: TLS: %s, %r" % (name, token, m.tls, m.data[:400]))
        body = got["body-" + w]
        hands_on = isinstance(peer, HandsOn)
        if hands_on and "DSN" in keys:
            pepsi.check(has(body.mail_params, *DSN_MAIL) and has(body.rcpts[0][1], *kind.dsn_rcpt), "%s: DSN: %s %s" % (name, body.mail_params, body.rcpts))
        elif "DSN" not in keys:
            # it cannot report: this is our duty (RFC 3461 5.2.2), "relayed" where we do not know of delivery
            relayed = 1
            pepsi.wait_for("the report of " + w, lambda: [r for r in reports(back) if "orig@far.test" in r and rcpt in r], 30)
            text = [r for r in reports(back) if "orig@far.test" in r and rcpt in r][0]
            pepsi.check(re.search(r"(?mi)^Action: (relayed|delivered)", text) and "relay+id" in text, "%s: the report: %s" % (name, text))
        if not refused:
            m = got["utf8-" + w]
            pepsi.check(m.rcpts[0][0] == utf8 and (not m.mail_params or has(m.mail_params, "SMTPUTF8")), "%s: %s %s" % (name, m.mail_params, m.rcpts))
        else:
            pepsi.wait_for("the report of what it cannot take", lambda: [r for r in reports(back) if "5.6.7" in r and "@%s.test" % w in r], 30)
        within_tls += len(got) if tls and not plain else 0
        pepsi.say("      %-11s %-9s %d messages; offers %s" % (name, w, len(got), " ".join(keys)))
        wanted_reports = len(refused) + relayed
        pepsi.check(len([r for r in reports(back) if "@%s.test" % w in r]) == wanted_reports, "%s: reports: %s" % (name, reports(back)))
    d.wait_empty(20)
    with open(d.log, errors="replace") as f:
        text = f.read()
    # (an exchanger may say that there are too many connections for now)
    twice = [x for x in re.findall("deferred to=.*", text) if " code=421 " not in x]
    pepsi.check(not twice, "something was tried twice: %s" % twice[:3])
    pepsi.check(len(re.findall(r"relayed to=<\S+@\S*(?:tls|mx)\.test>.* tls=\"?TLSv1\.[23] ", text)) == within_tls, "not all within TLS")
    lines = re.findall(r"relayed to=<\S+@(\w+)\.test>(.*)", text)
    pepsi.check(not [x for w, x in lines if (" chunked=yes" in x) != (w.startswith("bdat"))], "BDAT or not: %s" % [x for x in lines][:3])
    d.stop()
    if kind in (Postfix, Exim):  # they tell who came with chunks, Postfix at the session's end
        sign = r" bdat=\d+" if kind is Postfix else r" <= .* K .*id=\S*-bdat"
        for w in ("plain", "tls"):
            pepsi.wait_for("%s tells of chunks" % name, lambda w=w: re.search(sign, ways[w].texts()), 30)


def to_postfix(t):
    talk(t, Postfix)


def to_exim(t):
    talk(t, Exim)


def to_opensmtpd(t):
    talk(t, OpenSmtpd)


def to_aiosmtpd(t):
    talk(t, Aiosmtpd)


def to_dovecot(t):
    talk(t, DovecotLmtp)


if __name__ == "__main__":
    pepsi.main(__file__, [to_postfix, to_exim, to_opensmtpd, to_aiosmtpd, to_dovecot])
