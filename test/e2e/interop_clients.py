"""Other people's programs as clients: swaks, curl, msmtp and Python's smtplib; Postfix, Exim (CHUNKING) and OpenSMTPD as servers that
relay through ours; dialogues of mail programs that were not recorded, but are known (recorded ones: mail_programs.py). Over plain connections,
STARTTLS and implicit TLS, with sign-in. What each sends must reach the next hop octet for octet, with the right trace, and with what it asked
for in the envelope."""
import base64
import os
import re
import smtplib
import ssl
import subprocess

import peers
import pepsi
from relaysite import PASSWORD, RCPT, USER, Site, message


def run(*command, data=b"", **kw):
    r = subprocess.run(command, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, **kw)
    pepsi.check(r.returncode == 0, "%s: %d %s" % (" ".join(command), r.returncode, r.stdout.decode(errors="replace")[-3000:]))
    return r.stdout.decode(errors="replace")


def has(words, *wanted):
    return all(w.lower() in words.lower().split() for w in wanted)


# -------------------------------------------------------------------------------------------------------------- tools
def with_swaks(t):
    pepsi.need("swaks")
    site = Site.of(t)
    auth = ("--auth-user", "alice", "--auth-password", PASSWORD, "--auth")
    for port, protocol, options in ((site.port, "ESMTP", ()), (site.port, "ESMTPS", ("--tls", "--tls-verify", "--tls-ca-path", site.ca.cert)),
                                    (site.submission, "ESMTPSA", ("--tls",) + auth + ("PLAIN",)), (site.submissions, "ESMTPSA", ("--tlsc",) + auth + ("LOGIN",)),
                                    (site.port, "SMTP", ("--protocol", "SMTP"))):
        token = site.token("swaks")
        sent = message(token)
        run("swaks", "--server", "localhost:%d" % port, "-4", "--from", USER, "--to", RCPT, "--data", "-", *options, data=sent[:-2])  # it ends the last line itself
        # (swaks never says BODY=8BITMIME; ours says so for it, since the content is)
        site.arrived(token, sent, protocol)


def with_curl(t):
    pepsi.need("curl")
    site = Site.of(t)
    user = ("--user", "alice:" + PASSWORD, "--login-options")
    for scheme, port, protocol, options in (("smtp", site.port, "ESMTP", ()), ("smtp", site.port, "ESMTPS", ("--ssl-reqd",)),
                                            ("smtp", site.submission, "ESMTPSA", ("--ssl-reqd",) + user + ("AUTH=PLAIN",)),
                                            ("smtp", site.submission, "ESMTPSA", ("--ssl-reqd", "--sasl-ir") + user + ("AUTH=PLAIN",)),
                                            ("smtps", site.submissions, "ESMTPSA", user + ("AUTH=LOGIN",))):
        token = site.token("curl")
        sent = message(token)
        run("curl", "-sS", "--cacert", site.ca.cert, "%s://localhost:%d/client.example.test" % (scheme, port), "--mail-from", USER, "--mail-rcpt", RCPT,
            "--mail-rcpt", "second@far.test", "--upload-file", "-", *options, data=sent)
        m = site.arrived(token, sent, protocol)
        pepsi.check([r[0] for r in m.rcpts] == [RCPT, "second@far.test"], "curl: recipients %s" % m.rcpts)


def with_msmtp(t):
    pepsi.need("msmtp")
    site = Site.of(t)
    tls = ("--tls=on", "--tls-trust-file=" + site.ca.cert)
    auth = ("--user=alice", "--passwordeval=echo '%s'" % PASSWORD)
    for port, protocol, options in ((site.port, "ESMTP", ("--tls=off",)), (site.port, "ESMTPS", tls),
                                    (site.submission, "ESMTPSA", tls + auth + ("--auth=plain",)), (site.submissions, "ESMTPSA", tls + auth + ("--tls-starttls=off", "--auth=scram-sha-256"))):
        token = site.token("msmtp")
        sent = message(token)
        run("msmtp", "--file=/dev/null", "--host=localhost", "--port=%d" % port, "--from=" + USER, "--add-missing-from-header=off", "--dsn-notify=success,delay",
            "--dsn-return=full", *options, RCPT, data=sent)
        m = site.arrived(token, sent, protocol)
        pepsi.check(has(m.mail_params, "RET=FULL") and has(m.rcpts[0][1], "NOTIFY=SUCCESS,DELAY"), "msmtp: DSN parameters %s %s" % (m.mail_params, m.rcpts))


def with_smtplib(t):
    """Every extension with parameters, as the library puts them."""
    site = Site.of(t)
    context = ssl.create_default_context(cafile=site.ca.cert)
    for port, protocol in ((site.port, "ESMTP"), (site.port, "ESMTPS"), (site.submission, "ESMTPSA"), (site.submissions, "ESMTPSA")):
        if port == site.submissions:
            c = smtplib.SMTP_SSL("localhost", port, "client.example.test", context=context)
        else:
            c = smtplib.SMTP("localhost", port, "client.example.test")
        with c:
            c.ehlo()
            if protocol != "ESMTP" and port != site.submissions:
                c.starttls(context=context)
                c.ehlo()
            if protocol == "ESMTPSA":
                c.login("alice", PASSWORD)
            token = site.token("smtplib")
            sent = message(token)
            c.sendmail(USER, [RCPT], sent, ["BODY=8BITMIME", "RET=HDRS", "ENVID=QQ+2B314159"],
                       ["NOTIFY=SUCCESS,FAILURE", "ORCPT=rfc822;Rcpt+2Bx@far.test"])
            m = site.arrived(token, sent, protocol)
            pepsi.check(has(m.mail_params, "BODY=8BITMIME", "RET=HDRS", "ENVID=QQ+2B314159"), "parameters: %s" % m.mail_params)
            pepsi.check(has(m.rcpts[0][1], "NOTIFY=SUCCESS,FAILURE", "ORCPT=rfc822;Rcpt+2Bx@far.test"), "parameters: %s" % m.rcpts)
            # (the library adds SIZE by itself) addresses in another script, in the envelope and in the headers
            token = site.token("smtplib")
            sent = message(token, rcpt="\u7528\u6237@\u4f8b\u5b50.test", subject="\u00fcber")
            c.sendmail(USER, ["\u7528\u6237@\u4f8b\u5b50.test"], sent, ["SMTPUTF8", "BODY=8BITMIME"])
            m = site.arrived(token, sent, "UTF8SMTP" + protocol[5:])
            pepsi.check(has(m.mail_params, "SMTPUTF8", "BODY=8BITMIME"), "parameters: %s" % m.mail_params)
            pepsi.check(m.rcpts[0][0] == "\u7528\u6237@\u4f8b\u5b50.test", "recipient: %s" % m.rcpts)


# ------------------------------------------------------------------------------------------------------- mail servers
def put_in(peer, token, rcpt, mail=(), rcpts=(), **kw):
    """A message through that server; what was put in."""
    sent = message(token, rcpt=rcpt, **kw)
    with smtplib.SMTP("127.0.0.1", peer.port, "client.example.test", timeout=60) as c:
        c.ehlo()
        mail = [o for o in mail if c.has_extn({"BODY": "8bitmime", "SMTPUTF8": "smtputf8"}.get(o.split("=")[0], "dsn"))]
        c.sendmail(USER, [rcpt], sent, mail, [o for o in rcpts if c.has_extn("dsn")])
    return sent


DSN_MAIL, DSN_RCPT = ("RET=HDRS", "ENVID=relay+2Bid"), ("NOTIFY=SUCCESS,DELAY", "ORCPT=rfc822;orig@far.test")


def with_postfix(t):
    """Three transports: plain, TLS with the certificate checked, and a signed-in client of the submission port."""
    site = Site.of(t)
    ca = "smtp_tls_CAfile=%s" % site.ca.cert
    p = peers.Postfix(t, "transport_maps = inline:{ { plain.test = plain:[127.0.0.1]:%d } { tls.test = tls:[127.0.0.1]:%d } { auth.test = auth:[127.0.0.1]:%d } }\n"
                      "relay_domains = plain.test tls.test auth.test\nsmtp_tls_loglevel = 1\nsmtp_sasl_password_maps = inline:{ { [127.0.0.1]:%d = alice:%s } }\n"
                      % (site.port, site.port, site.submissions, site.submissions, PASSWORD),
                      {"plain": ["smtp_tls_security_level=none"],
                       "tls": ["smtp_tls_security_level=secure", "smtp_tls_secure_cert_match=mx.example.test", ca],
                       "auth": ["smtp_tls_security_level=secure", "smtp_tls_wrappermode=yes", "smtp_tls_secure_cert_match=mx.example.test", ca,
                                "smtp_sasl_auth_enable=yes", "smtp_sasl_security_options=noanonymous"]})
    for domain, protocol in (("plain", "ESMTP"), ("tls", "ESMTPS"), ("auth", "ESMTPSA")):
        token, rcpt = site.token("postfix"), "rcpt@%s.test" % domain
        sent = put_in(p, token, rcpt, ("BODY=8BITMIME",) + DSN_MAIL, DSN_RCPT)
        m = site.arrived(token, sent, protocol, chunked=False, peer=p)  # the client of Postfix 3.7 knows DATA only
        pepsi.check(has(m.mail_params, "BODY=8BITMIME", *DSN_MAIL) and has(m.rcpts[0][1], *DSN_RCPT), "Postfix: %s %s" % (m.mail_params, m.rcpts))
        token, rcpt = site.token("postfix"), "\u00e4rger@%s.test" % domain
        sent = put_in(p, token, rcpt, ("SMTPUTF8", "BODY=8BITMIME"), subject="\u00fcber")
        m = site.arrived(token, sent, "UTF8SMTP" + protocol[5:], peer=p)
        pepsi.check(has(m.mail_params, "SMTPUTF8") and m.rcpts[0][0] == rcpt, "Postfix: %s %s" % (m.mail_params, m.rcpts))
    # a burst: it pipelines, over one connection each
    tokens = [site.token("postfix-burst") for _ in range(30)]
    sent = [put_in(p, x, "rcpt@tls.test") for x in tokens]
    for x, s in zip(tokens, sent):
        site.arrived(x, s, "ESMTPS", 60, peer=p)
    pepsi.wait_for("its queue is empty", p.idle, 20)
    log = p.texts()
    pepsi.check("Verified TLS connection established to 127.0.0.1" in log, "no verified TLS in its log")
    pepsi.check("status=sent" in log and "status=bounced" not in log and "status=deferred" not in log, "its log: %s" % log[-3000:])


EXIM = """begin routers
%(routers)s
begin transports
%(transports)s
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  client_send = ^alice^%(password)s
begin retry
* * F,1h,2s
"""


def with_exim(t):
    """Its client sends chunks wherever they are offered: BDAT by somebody else's hand."""
    site = Site.of(t)
    tls = "tls_verify_certificates = %s\n  tls_verify_hosts = *\n  tls_verify_cert_hostnames = :\n" % site.ca.cert
    ways = (("plain", site.port, "hosts_avoid_tls = *\n"), ("tls", site.port, "hosts_require_tls = *\n  " + tls),
            ("auth", site.submission, "hosts_require_tls = *\n  hosts_require_auth = *\n  " + tls),
            ("smtps", site.submissions, "protocol = smtps\n  hosts_require_auth = *\n  " + tls))
    routers = "".join("to_%s:\n  driver = manualroute\n  domains = %s.test\n  route_list = * 127.0.0.1\n  self = send\n  transport = by_%s\n" % (w[0], w[0], w[0]) for w in ways)
    transports = "".join("by_%s:\n  driver = smtp\n  port = %d\n  allow_localhost\n  hosts_try_chunking = *\n  hosts_try_prdr = *\n  %s" % w for w in ways)
    e = peers.Exim(t, EXIM % {"routers": routers, "transports": transports, "password": PASSWORD})
    for domain, protocol in (("plain", "ESMTP"), ("tls", "ESMTPS"), ("auth", "ESMTPSA"), ("smtps", "ESMTPSA")):
        token, rcpt = site.token("exim"), "rcpt@%s.test" % domain
        sent = put_in(e, token, rcpt, ("BODY=8BITMIME",) + DSN_MAIL, DSN_RCPT)
        m = site.arrived(token, sent, protocol, chunked=True, peer=e)
        pepsi.check(has(m.mail_params, *DSN_MAIL) and has(m.rcpts[0][1], *DSN_RCPT), "Exim: %s %s" % (m.mail_params, m.rcpts))
        token, rcpt = site.token("exim"), "\u00e4rger@%s.test" % domain
        sent = put_in(e, token, rcpt, ("SMTPUTF8", "BODY=8BITMIME"), subject="\u00fcber")
        m = site.arrived(token, sent, "UTF8SMTP" + protocol[5:], chunked=True, peer=e)
        pepsi.check(has(m.mail_params, "SMTPUTF8") and m.rcpts[0][0] == rcpt, "Exim: %s %s" % (m.mail_params, m.rcpts))
    # larger than one chunk of its (8 KiB) many times over
    token = site.token("exim")
    sent = message(token, rcpt="rcpt@tls.test") + b"all work and no play makes mail a dull thing to look at\r\n.\r\n" * 20000
    with smtplib.SMTP("127.0.0.1", e.port, timeout=60) as c:
        c.sendmail(USER, ["rcpt@tls.test"], sent)
    site.arrived(token, sent, "ESMTPS", 60, chunked=True, peer=e)
    log = e.texts()
    pepsi.check(re.search(r"=> rcpt@tls\.test .* K .*250", log), "no K (chunking) in its log: %s" % log[-2000:])


def with_opensmtpd(t):
    site = Site.of(t)
    secrets = os.path.join(t.dir, "secrets")
    with open(secrets, "w") as f:
        f.write("ours alice:%s\n" % PASSWORD)
    os.chmod(secrets, 0o644)
    o = peers.OpenSmtpd(t, "table secrets file:%s\nlisten on 127.0.0.1 port PORT hostname opensmtpd.example.test\nmta limit conn-delay-route 0 conn-delay-relay 0 reconn-delay-route 0\n"
                        "action \"plain\" relay host smtp+notls://127.0.0.1:%d\naction \"tls\" relay host smtp+tls://localhost:%d\n"
                        "action \"auth\" relay host smtps://ours@localhost:%d auth <secrets>\nmatch from any for domain \"plain.test\" action \"plain\"\n"
                        "match from any for domain \"tls.test\" action \"tls\"\nmatch from any for domain \"auth.test\" action \"auth\"\n"
                        % (secrets, site.port, site.port, site.submissions), site.ca.cert)
    for domain, protocol in (("plain", "ESMTP"), ("tls", "ESMTPS"), ("auth", "ESMTPSA")):
        token, rcpt = site.token("opensmtpd"), "rcpt@%s.test" % domain
        sent = put_in(o, token, rcpt, ("BODY=8BITMIME",) + DSN_MAIL, DSN_RCPT)
        m = site.arrived(token, sent, protocol, chunked=False, peer=o)
        pepsi.check(has(m.mail_params, *DSN_MAIL) and has(m.rcpts[0][1], "NOTIFY=SUCCESS,DELAY"), "OpenSMTPD: %s %s" % (m.mail_params, m.rcpts))


# ---------------------------------------------------------------------------------------------------------- dialogues
def b64(text):
    return base64.b64encode(text.encode()).decode()


SIGN = b64("\0alice\0" + PASSWORD)
# What mail programs say, in their order and spelling: (client line, code, pattern in the reply). TLS: the handshake;
# DATA: the message and its end. @ behind SIZE= is the size.
DIALOGUES = {
    "An older Thunderbird, STARTTLS, AUTH PLAIN with initial response": ("submission", [
        ("EHLO [127.0.0.1]", 250, "STARTTLS"), ("STARTTLS", 220, ""), "TLS", ("EHLO [127.0.0.1]", 250, "AUTH .*PLAIN"), ("AUTH PLAIN " + SIGN, 235, ""),
        ("MAIL FROM:<alice@example.test> BODY=8BITMIME SIZE=@", 250, ""), ("RCPT TO:<rcpt@far.test>", 250, ""), ("DATA", 354, ""), "DATA", ("QUIT", 221, "")]),
    "Evolution, implicit TLS, AUTH PLAIN in two steps": ("submissions", [
        ("EHLO [192.168.1.20]", 250, "AUTH"), ("AUTH PLAIN", 334, "^$"), (SIGN, 235, ""), ("MAIL FROM:<alice@example.test>", 250, ""),
        ("RCPT TO:<rcpt@far.test>", 250, ""), ("RCPT TO:<second@far.test>", 250, ""), ("DATA", 354, ""), "DATA", ("QUIT", 221, "")]),
    "Evolution asks before it signs in": ("submission", [
        ("EHLO [IPv6:fe80::1]", 250, "STARTTLS"), ("STARTTLS", 220, ""), "TLS", ("EHLO [IPv6:fe80::1]", 250, "AUTH"), ("MAIL FROM:<alice@example.test>", 530, "5.7.0"),
        ("AUTH LOGIN", 334, "VXNlcm5hbWU6"), (b64("alice"), 334, "UGFzc3dvcmQ6"), (b64(PASSWORD), 235, ""),
        ("MAIL FROM:<alice@example.test> SIZE=@ BODY=8BITMIME", 250, ""), ("RCPT TO:<rcpt@far.test>", 250, ""), ("DATA", 354, ""), "DATA", ("QUIT", 221, "")]),
    "Outlook: AUTH LOGIN with the name at once, a bare host name, a blank behind the colon": ("submission", [
        ("EHLO DESKTOP-1A2B3C", 250, "STARTTLS"), ("STARTTLS", 220, ""), "TLS", ("EHLO DESKTOP-1A2B3C", 250, "AUTH"), ("AUTH LOGIN " + b64("alice"), 334, "UGFzc3dvcmQ6"),
        (b64(PASSWORD), 235, ""), ("MAIL FROM: <alice@example.test>", 250, ""), ("RCPT TO: <rcpt@far.test>", 250, ""), ("DATA", 354, ""), "DATA",
        ("QUIT", 221, "")]),
    "Apple Mail: lower case, several messages, NOOP to keep the session, RSET between": ("submissions", [
        ("ehlo Someones-MacBook.local", 250, "AUTH"), ("auth plain " + SIGN, 235, ""), ("mail from:<alice@example.test> body=8bitmime", 250, ""),
        ("rcpt to:<rcpt@far.test>", 250, ""), ("data", 354, ""), "DATA", ("noop", 250, ""), ("rset", 250, ""), ("MAIL FROM:<alice@example.test> SIZE=@", 250, ""),
        ("RCPT TO:<rcpt@far.test> NOTIFY=NEVER", 250, ""), ("DATA", 354, ""), "DATA", ("quit", 221, "")]),
    "A program that gives up its password dialogue and takes another mechanism": ("submissions", [
        ("EHLO client_with_underscore", 250, "AUTH"), ("AUTH CRAM-MD5", 504, ""), ("AUTH LOGIN", 334, ""), ("*", 501, ""), ("AUTH PLAIN =", 501, ""),
        ("AUTH PLAIN " + SIGN, 235, ""), ("AUTH PLAIN " + SIGN, 503, ""), ("MAIL FROM:<alice@example.test> AUTH=alice@example.test", 250, ""),
        ("RCPT TO:<rcpt@far.test>", 250, ""), ("DATA", 354, ""), "DATA", ("QUIT", 221, "")]),
    "A printer: HELO with an address, no name, trailing blanks": ("mx", [
        ("HELO 192.168.1.9", 250, ""), ("MAIL FROM:<alice@example.test> ", 250, ""), ("RCPT TO:<rcpt@far.test> ", 250, ""), ("DATA", 354, ""), "DATA", ("QUIT ", 221, "")]),
}


def dialogues(t):
    site = Site.of(t)
    context = ssl.create_default_context(cafile=site.ca.cert)
    for name, (listener, lines) in DIALOGUES.items():
        port = {"mx": site.port, "submission": site.submission, "submissions": site.submissions}[listener]
        s = pepsi.Smtp.__new__(pepsi.Smtp)
        s.sock = pepsi.socket.create_connection(("127.0.0.1", port), 30)
        if listener == "submissions":
            s.sock = context.wrap_socket(s.sock, server_hostname="localhost")
        s.file = s.sock.makefile("rb")
        pepsi.check(s.reply()[0] == 220, "banner")
        expected = []
        for line in lines:
            token = site.token("dialogue")
            sent = message(token)
            if line == "TLS":
                s.file.close()
                s.sock = context.wrap_socket(s.sock, server_hostname="localhost")
                s.file = s.sock.makefile("rb")
            elif line == "DATA":
                s.raw(re.sub(rb"(?m)^\.", b"..", sent) + b".\r\n")
                code, text = s.reply()
                pepsi.check(code == 250, "%s: the message: %d %s" % (name, code, text))
                expected.append((token, sent))
            else:
                code, text = s.cmd(line[0].replace("SIZE=@", "SIZE=%d" % len(sent)))
                pepsi.check(code == line[1] and re.search(line[2], text), "%s: %s: %d %s" % (name, line[0], code, text))
        s.file.close()
        s.sock.close()
        for token, sent in expected:
            site.arrived(token, sent, {"mx": "SMTP"}.get(listener, "ESMTPSA"))


def nothing_left(t):
    """All was delivered, nothing is in the queue, and the books agree."""
    site = Site.of(t)
    site.d.wait_empty(15)
    pepsi.say("      %d messages of other programs" % len(site.sink.messages))
    site.d.stop()


pepsi.main(__file__, [with_swaks, with_curl, with_msmtp, with_smtplib, with_postfix, with_exim, with_opensmtpd, dialogues, nothing_left])
