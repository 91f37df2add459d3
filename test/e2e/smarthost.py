"""Sending through somebody else's server: a real Postfix with Dovecot's sign-in, each mechanism, TLS both ways, what goes wrong with passwords,
several hosts of which some are dead; and our own server as the far end for what Postfix cannot do."""
import hashlib
import os
import re
import socket
import ssl
import subprocess

import dnslab
import pepsi
from certs import Authority
from providers import PASSWORD, USER, Provider


def out(host, more="", name="init", bounce=True):
    return ("[stage-%s]\nPROGRAM = pepsi-stage-relay-to-smarthost\n%s\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\nCONNECT_TIMEOUT = 5 s\n%s\n%s\n"
            % (name, host, more, "BOUNCE_STAGE = bounce\n" + pepsi.bounce() if bounce else ""))


def log_of(d):
    with open(d.log, errors="replace") as f:
        return f.read()


def secret(d, section, text, name="smarthost.conf"):
    """A file of secrets.d, for the workers' account alone."""
    path = os.path.join(d.dir, name)
    with open(path, "w") as f:
        f.write(text)
    if pepsi.ROOT:
        os.chown(path, pepsi.service_account().pw_uid, pepsi.service_account().pw_gid)
    os.chmod(path, 0o400)
    return "@inline-secret@ %s %s\n" % (section, path)


def reconfigure(d, change):
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write(change(text))
    code, said, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (said, err))


def sent(d, sink, token, sender="sender@example.test"):
    d.accept(sender, ["rcpt@far.test"], pepsi.message(token, sender=sender))
    pepsi.wait_for("%s at the far end" % token, lambda: token in sink.tokens(), 30)


def five_lines(t):
    """conf/provider.conf: a stage of five lines, the password in a file of its own. TLS and mechanism follow from it."""
    sink = pepsi.Sink(t)
    p = Provider(t, sink)
    d = pepsi.Pepsid(t, "", start=False)
    with open(os.path.join(pepsi.SOURCE, "conf", "provider.conf")) as f:
        example = f.read()
    stages = example[example.index("[stage-init]"):].replace("HOST = smtp.provider.test", "HOST = 127.0.0.1").replace("me@example.test", USER)
    # the test's own port and authority
    stages = stages.replace("BOUNCE_STAGE", "PORT = %d\nTLS_CA_FILE = %s\nBOUNCE_STAGE" % (p.port, p.authority.cert), 1)
    d.write_config(stages, more=secret(d, "stage-init", "AUTH_PASSWORD = %s\n" % PASSWORD))
    code, said, err = d.cli("config", "check")
    pepsi.check(code == 0, "config check: %s%s" % (said, err))
    d.start()
    sent(d, sink, "first")
    pepsi.check(p.signed_in("SCRAM-SHA-256") == 1, "not signed in by the strongest mechanism on offer: %s" % p.log()[-1500:])
    log = log_of(d)
    pepsi.check("auth=SCRAM-SHA-256" in log and "tls=TLSv1.3" in log, "the log does not say how")
    hop = pepsi.wait_for("the hop is told of", lambda: [h for h in d.json("queue", "destinations") if h["sent"]], 30, 0.5)[0]
    pepsi.check(hop["tls"].startswith("TLSv1.3 ") and hop["state"] == "good", hop)
    pepsi.check(PASSWORD not in log, "the password is in the log")
    code, said, err = d.cli("config", "show")
    pepsi.check(PASSWORD not in said + err, "the password is shown")


def mechanisms(t):
    """Each by name, over STARTTLS; then TLS from the start."""
    sink = pepsi.Sink(t)
    p = Provider(t, sink)
    host = "HOST = 127.0.0.1\nPORT = %d\nTLS_CA_FILE = %s\nAUTH_USER = %s\n" % (p.port, p.authority.cert, USER)
    d = pepsi.Pepsid(t, out(host + "AUTH_PASSWORD = %s\nAUTH = plain" % PASSWORD))
    for mechanism in ("plain", "login", "scram-sha-256"):
        reconfigure(d, lambda text: re.sub(r"AUTH = .*", "AUTH = " + mechanism, text))
        sent(d, sink, mechanism)
        pepsi.check(p.signed_in(mechanism.upper()) >= 1, "not signed in by %s" % mechanism)
    file = os.path.join(d.dir, "token")
    with open(file, "w") as f:
        f.write(p.tokens.give()["access_token"] + "\n")
    os.chmod(file, 0o644)
    for mechanism in ("xoauth2", "oauthbearer"):
        reconfigure(d, lambda text: re.sub(r"(AUTH_PASSWORD|AUTH_TOKEN_FILE) = .*", "AUTH_TOKEN_FILE = " + file, re.sub(r"AUTH = .*", "AUTH = " + mechanism, text)))
        sent(d, sink, mechanism)
        pepsi.check(p.signed_in(mechanism.upper()) >= 1, "not signed in by %s" % mechanism)
    # no mechanism named: the stronger of the two that go with a token; and TLS from the first octet
    before = p.signed_in("OAUTHBEARER")
    reconfigure(d, lambda text: re.sub(r"AUTH = .*", "TLS = implicit", text).replace("PORT = %d" % p.port, "PORT = %d" % p.implicit))
    sent(d, sink, "implicit")
    pepsi.check(p.signed_in("OAUTHBEARER") == before + 1, "not signed in over TLS from the start")
    # a token that is no longer good: the server's words reach the operator, and the stage asks no more until the file changes
    with open(file, "w") as f:
        f.write("expired-token\n")
    reconfigure(d, lambda text: text)
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("late"))
    pepsi.wait_for("the refusal", lambda: "auth: 535" in (d.queue()[0]["last_error"] or ""), 30)
    pepsi.check("late" not in sink.tokens(), "it went without a sign-in")
    with open(file, "w") as f:
        f.write(p.tokens.give()["access_token"] + "\n")
    pepsi.wait_for("delivery with the new token", lambda: "late" in sink.tokens(), 30)
    pepsi.check("access-" not in log_of(d) and "expired-token" not in log_of(d), "a token is in the log")


def wrong_password(t):
    sink = pepsi.Sink(t)
    p = Provider(t, sink)
    d = pepsi.Pepsid(t, out("HOST = 127.0.0.1\nPORT = %d\nTLS_CA_FILE = %s\nAUTH_USER = %s\nAUTH_PASSWORD = wrong\nPARALLELISM = 1" % (p.port, p.authority.cert, USER)))
    for i in range(6):
        d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("w%d" % i))
    pepsi.wait_for("all of them deferred", lambda: len([q for q in d.queue() if "auth: 535" in (q["last_error"] or "") or "authentication" in (q["last_error"] or "").lower()]) == 6, 40)
    failures = p.log().count("authentication failed")
    pepsi.check(failures == 1, "%d tries with a wrong password for six messages" % failures)
    log = log_of(d)
    pepsi.check("event=hop-rests" in log and "fault=credentials" in log and "AUTH_PASSWORD" in log, "the log does not say what to do")
    pepsi.check("wrong" not in re.sub(r"AUTH_PASSWORD = wrong", "", log), "the password is in the log")
    reconfigure(d, lambda text: text.replace("AUTH_PASSWORD = wrong", "AUTH_PASSWORD = %s" % PASSWORD))
    pepsi.wait_for("all of them at the far end", lambda: len(set(sink.tokens())) == 6, 60)
    d.wait_empty()


def certificate_not_trusted(t):
    """No password goes to somebody whose certificate does not say who it is."""
    sink = pepsi.Sink(t)
    p = Provider(t, sink)
    other = Authority(t, "other")
    d = pepsi.Pepsid(t, out("HOST = 127.0.0.1\nPORT = %d\nTLS_CA_FILE = %s\nAUTH_USER = %s\nAUTH_PASSWORD = %s" % (p.port, other.cert, USER, PASSWORD)))
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("c"))
    pepsi.wait_for("the deferral", lambda: "certificate not trusted" in (d.queue()[0]["last_error"] or ""), 30)
    pepsi.check("sasl_method" not in p.log() and "AUTH" not in p.log(), "it signed in all the same")


def deaf_listener(t):
    """Accepts connections in the kernel and never says a word."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(64)
    t.cleanup(s.close)
    return s.getsockname()[1]


def several(t):
    """The first host is dead, the second hangs, the third takes it; a dead one is not asked with each message; one that comes back is used again."""
    good, first = pepsi.Sink(t), pepsi.Sink(t)
    port = first.port
    first.down()
    deaf = deaf_listener(t)
    d = pepsi.Pepsid(t, out("HOST_1 = 127.0.0.1:%d\nHOST_2 = 127.0.0.1:%d\nHOST_3 = 127.0.0.1:%d\nTLS = none\nPARALLELISM = 1\nBACKOFF_MAX = 4 s" % (port, deaf, good.port)).replace("CONNECT_TIMEOUT = 5 s", "CONNECT_TIMEOUT = 2 s"))
    for i in range(20):
        d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("s%d" % i))
    pepsi.wait_for("all at the third", lambda: len(set(good.tokens())) == 20, 60)
    log = log_of(d)
    rests = [log.count("event=hop-rests hop=127.0.0.1:%d " % p) for p in (port, deaf, good.port)]
    pepsi.check(1 <= rests[0] <= 8 and 1 <= rests[1] <= 4 and rests[2] == 0, "rests: %s" % rests)
    pepsi.check("event=next-hop" in log, "the log does not say that another was tried")
    def told():
        return {h["destination"].rsplit(":", 1)[1]: h for h in d.json("queue", "destinations")}
    hops = pepsi.wait_for("what is known of the three", lambda: len(told()) == 3 and told()[str(good.port)]["sent"] == 20 and told(), 30, 0.5)
    dead, hung, well = (hops[str(p)] for p in (port, deaf, good.port))
    pepsi.check(well["state"] == "good" and well["failed"] == well["backoff_ms"] == 0 and well["tls"] == "" and "trouble" not in well, well)
    pepsi.check(dead["state"] in ("backoff", "probe") and dead["failed"] == rests[0] and dead["sent"] == 0 and dead["trouble"] == "unreachable" and "refused" in dead["error"], dead)
    pepsi.check(hung["state"] in ("backoff", "probe") and hung["failed"] == rests[1] and hung["trouble"] == "unreachable" and hung["backoff_ms"] <= 4000, hung)
    d.counts(1, "destinations", state="good")
    code, table, err = d.cli("queue", "destinations", "127.0.0.1:%d" % port)
    pepsi.check(code == 0 and "unreachable" in table and "127.0.0.1:%d" % port in table and str(deaf) not in table, table + err)
    first.up()

    def back():
        d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("b%d" % len(first.messages)))
        return first.messages
    pepsi.wait_for("mail at the first again", back, 30, step=1)
    pepsi.check("event=hop-is-back hop=127.0.0.1:%d" % port in log_of(d), "the log does not say that it is back")
    pepsi.wait_for("it is told to be well", lambda: told()[str(port)]["state"] == "good" and told()[str(port)]["sent"] >= 1, 30, 0.5)
    # the second attempt of a transient refusal is another host's
    first.script["mail"] = "451 4.3.2 not now"
    n = len(good.messages)
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("busy"))
    pepsi.wait_for("the third again", lambda: "busy" in good.tokens(), 30)
    # a refusal for good is no reason to ask around
    first.script["mail"] = "550 5.7.1 not you"
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("no"))
    pepsi.wait_for("the report", lambda: any("not you" in str(m.data) for m in good.messages + first.messages) or not [q for q in d.queue() if q["stage"] == "init" and q["mail_from"]], 30)
    pepsi.check("no" not in good.tokens()[n + 1:], "a refused message went to another host")
    # all dead: it waits, and is not lost
    first.script.clear()
    first.down()
    good.down()
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("wait"))
    pepsi.wait_for("the deferral", lambda: [q for q in d.queue() if q["last_error"]], 60)
    good.up()
    pepsi.wait_for("delivery when one is back", lambda: "wait" in good.tokens(), 90)


def ourselves(t):
    """Who answers by our own name is ourselves: nothing is sent, another host takes it. On loopback only when that is asked for: a filter may pass our answers on."""
    mirror, other = pepsi.Sink(t), pepsi.Sink(t)
    mirror.script["ehlo"] = "250 MX.Example.Test"
    d = pepsi.Pepsid(t, out("HOST_1 = 127.0.0.1:%d\nTLS = none\nBACKOFF_MAX = 1 s\nLOOP_DETECT = yes" % mirror.port))
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("round"))
    pepsi.wait_for("the reason", lambda: [q for q in d.queue() if "would loop back to ourselves: the next hop calls itself MX.Example.Test" in (q["last_error"] or "")], 30)
    pepsi.check(not mirror.messages, "something was sent")
    reconfigure(d, lambda text: text.replace("TLS = none", "HOST_2 = 127.0.0.1:%d\nTLS = none" % other.port))
    pepsi.wait_for("the other host", lambda: "round" in other.tokens(), 30)
    pepsi.check(not mirror.messages, "something was sent")
    for loops in ("no", "far"):
        reconfigure(d, lambda text: re.sub("LOOP_DETECT = .*", "LOOP_DETECT = " + loops, text))
        sent(d, mirror, loops)


def balance(t):
    a, b = pepsi.Sink(t), pepsi.Sink(t)
    d = pepsi.Pepsid(t, out("HOST_1 = 127.0.0.1:%d weight=1\nHOST_2 = 127.0.0.1:%d weight=3\nTLS = none\nBALANCE = weight\nPARALLELISM = 1" % (a.port, b.port)))
    for i in range(80):
        d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("w%d" % i))
    pepsi.wait_for("all of them", lambda: len(a.messages) + len(b.messages) == 80, 60)
    # 80 draws of 3/4: below 40 or above 76 once in a billion
    pepsi.check(40 <= len(b.messages) <= 76, "shares of %d and %d" % (len(a.messages), len(b.messages)))


def our_own(t):
    """Our server as the far end: a binding to the channel, a certificate instead of a password, and its LIMITS."""
    authority = Authority(t)
    cert, key = authority.issue("mx.example.test", "IP:127.0.0.1,DNS:mx.example.test")
    mine = authority.issue(USER, "email:" + USER, use="clientAuth", file="client")
    sink, port = pepsi.Sink(t), pepsi.free_port()
    account = pepsi.service_account() if pepsi.ROOT else None
    if account:
        os.chown(mine[1], account.pw_uid, account.pw_gid)
    os.chmod(key, 0o644)
    far = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port) + pepsi.bounce(),
                       more="[pepsi-signin]\nBACKENDS = table certificate\n[listener-submission]\nBIND = 127.0.0.1:%d\nPROTOCOL = submission\nTLS_CERT = %s\nTLS_KEY = %s\nTLS_CLIENT_CA = %s\nTLS_CLIENT_CERT = ask\n"
                            "MAX_RECIPIENTS = 100\nAUTH = plain scram-sha-256 scram-sha-256-plus external\n" % (port, cert, key, authority.cert))
    code, said, err = far.cli("account", "add", USER, "--password-stdin", stdin=PASSWORD.encode() + b"\n")
    pepsi.check(code == 0, "account add: %s%s" % (said, err))
    with open(mine[0]) as f:
        der = ssl.PEM_cert_to_DER_cert(f.read())
    code, said, err = far.cli("account", "set", USER, "--certificate", hashlib.sha256(der).hexdigest())
    pepsi.check(code == 0, "account set: %s%s" % (said, err))
    host = "HOST = 127.0.0.1\nPORT = %d\nTLS_CA_FILE = %s\n" % (port, authority.cert)
    d = pepsi.Pepsid(t, out(host + "AUTH_USER = %s\nAUTH_PASSWORD = %s" % (USER, PASSWORD)))
    sent(d, sink, "plus", USER)
    pepsi.check("auth=SCRAM-SHA-256-PLUS" in log_of(d), "no channel binding: %s" % log_of(d)[-2000:])
    d.accept(USER, ["r%d@far.test" % i for i in range(250)], pepsi.message("many", sender=USER))
    pepsi.wait_for("all of them", lambda: sum(len(m.rcpts) for m in sink.messages if pepsi.token_of(m.data) == "many") == 250, 30)
    pepsi.check("4.5.3" not in log_of(d), "the far end had to refuse recipients")
    reconfigure(d, lambda text: text.replace("AUTH_PASSWORD = %s" % PASSWORD, "AUTH = external\nTLS_CERT = %s\nTLS_KEY = %s" % mine))
    d.accept(USER, ["rcpt@far.test"], pepsi.message("cert", sender=USER))
    pepsi.wait_for("an answer to the certificate", lambda: "auth=EXTERNAL" in log_of(d) or [q for q in d.queue() if q["last_error"]], 30)
    pepsi.check("auth=EXTERNAL" in log_of(d), "EXTERNAL: %s" % d.queue())


def spki(cert):
    """SHA-256 of a certificate's public key, in hexadecimal."""
    pem = subprocess.run([pepsi.need("openssl"), "x509", "-in", cert, "-noout", "-pubkey"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
    der = subprocess.run([pepsi.need("openssl"), "pkey", "-pubin", "-outform", "DER"], input=pem, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    return hashlib.sha256(der).hexdigest()


def dane(t):
    """The host's TLSA records decide: a match signs in and delivers, without any authority; another key, no records, or records that nobody validated
    mean no mail."""
    sink = pepsi.Sink(t)
    p = Provider(t, sink)
    good, bad = "3 1 1 " + spki(p.cert), "3 1 1 " + "00" * 32
    record = "_%d._tcp.localhost" % p.port
    host = {"A": ["127.0.0.1"], "DO": "ad", "TTL": 0}
    lab = dnslab.Lab({"localhost": host, record: {"TLSA": [good], "DO": "ad", "TTL": 0}})
    t.cleanup(lab.close)
    d = pepsi.Pepsid(t, out("HOST = localhost\nPORT = %d\nTLS = dane\nAUTH_USER = %s\nAUTH_PASSWORD = %s\nIDLE_TIMEOUT = 0" % (p.port, USER, PASSWORD)),
                     more="[pepsi-dns]\nSERVERS = %s\n" % lab.server)
    sent(d, sink, "match")
    pepsi.check(p.signed_in("SCRAM-SHA-256") == 1, "not signed in")
    for zone, words in (({record: {"TLSA": [bad], "DO": "ad", "TTL": 0}, "localhost": host}, "does not match"), ({"localhost": host}, "DANE is required here"),
                        ({record: {"TLSA": [good], "TTL": 0}, "localhost": host}, "DANE is required here"),
                        ({record: {"DO": "servfail"}, "localhost": host}, "DANE is required here")):
        lab.zone = zone
        reconfigure(d, lambda text: text)
        d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("held"))
        pepsi.wait_for("deferral: " + words, lambda: [q for q in d.queue() if words in (q["last_error"] or "")], 40)
        pepsi.check(p.signed_in("SCRAM-SHA-256") == 1 and "held" not in sink.tokens(), "it went all the same")
        pepsi.check(d.cli("queue", "delete", "--all")[0] == 0, "queue delete")


def exchangers(t):
    """A domain's mail exchangers as hosts, in their order; whose names are not validated, their certificate must be the domain's."""
    sink = pepsi.Sink(t)
    p = Provider(t, sink, name="provider.test")
    lab = dnslab.Lab({"provider.test": {"MX": ["10 dead.invalid", "20 localhost"]}})
    t.cleanup(lab.close)
    host = "HOST = provider.test\nPORT = %d\nMX_LOOKUP = YES\nTLS_CA_FILE = %s\nAUTH_USER = %s\nAUTH_PASSWORD = %s" % (p.port, p.authority.cert, USER, PASSWORD)
    d = pepsi.Pepsid(t, out(host), more="[pepsi-dns]\nSERVERS = %s\n" % lab.server)
    sent(d, sink, "mx")
    log = log_of(d)
    pepsi.check("hop-rests hop=dead.invalid:%d" % p.port in log and "hop=localhost:%d tls=" % p.port in log, "the hosts were others: %s" % log[-1500:])
    # validated, the exchanger's own name counts, which this certificate does not have
    lab.zone = {"provider.test": {"MX": ["10 localhost"], "DO": "ad"}}
    reconfigure(d, lambda text: text)
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("name"))
    pepsi.wait_for("the deferral", lambda: [q for q in d.queue() if "hostname mismatch" in (q["last_error"] or "")], 40)
    pepsi.check(d.cli("queue", "delete", "--all")[0] == 0, "queue delete")
    lab.zone = {"provider.test": {"MX": ["0 ."]}}
    reconfigure(d, lambda text: text)
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("null"))
    pepsi.wait_for("null MX", lambda: [q for q in d.queue() if "takes no mail" in (q["last_error"] or "")], 40)
    lab.zone = {"provider.test": {"DO": "servfail"}}
    reconfigure(d, lambda text: text)
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("fail"))
    pepsi.wait_for("the failure", lambda: [q for q in d.queue() if "cannot be looked up" in (q["last_error"] or "")], 40)


if __name__ == "__main__":
    pepsi.main(__file__, [five_lines, mechanisms, wrong_password, certificate_not_trusted, several, ourselves, balance, our_own, dane, exchangers])
