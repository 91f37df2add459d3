"""Sign-in on submission listeners: each mechanism against an independent client (smtplib, swaks, curl, gsasl, and a SCRAM client of
its own for tls-exporter), the accounts of `pepsi account`; what a failure tells and what it costs; tokens and certificates; an
admin child that dies; a storm of sign-ins beside flowing mail."""
import base64
import ctypes
import hashlib
import hmac
import json
import os
import re
import shutil
import signal
import smtplib
import socket
import ssl
import subprocess
import threading
import time

import pepsi

PASSWORD = "a secret, truly"
NO = "Sign-in failed: name or password is wrong"


def run(*args, **kw):
    r = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, **kw)
    pepsi.check(r.returncode == 0, "%s: %s" % (" ".join(args), r.stdout.decode(errors="replace")))
    return r.stdout


def b64(octets):
    return base64.b64encode(octets).decode()


def b64url(octets):
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


class Site:
    """A daemon with submission and submissions listeners, an authority, a signer of tokens, and the account alice. One for all tests:
    starting it is most of what they would take."""
    shared = None

    @classmethod
    def of(cls, t):
        if not cls.shared:
            cls.shared = cls(t)
        return cls.shared

    def __init__(self, t):
        self.t, self.openssl = t, pepsi.need("openssl")
        self.dir = os.path.join(t.dir, "site%d" % t.next_number())
        os.mkdir(self.dir, 0o755)
        self.ca, ca_key = self.path("ca.pem"), self.path("ca.key")
        run(self.openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=test authority",
            "-keyout", ca_key, "-out", self.ca)
        self.cert, self.key = self.issue("mx.example.test", "DNS:mx.example.test,DNS:localhost,IP:127.0.0.1", "serverAuth")
        self.submission, self.submissions = pepsi.free_port(), pepsi.free_port()
        self.token_key, keys = self.path("token.key"), self.path("keys.json")
        run(self.openssl, "genrsa", "-out", self.token_key, "2048")
        n = bytes.fromhex(run(self.openssl, "rsa", "-in", self.token_key, "-noout", "-modulus").decode().strip().split("=")[1])
        with open(keys, "w") as f:
            json.dump({"keys": [{"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", "n": b64url(n), "e": "AQAB"}]}, f)
        os.chmod(t.dir, 0o755)
        listener = ("TLS_CERT = %s\nTLS_KEY = %s\nMAX_CONNECTIONS_PER_ADDRESS = 500\nTLS_CLIENT_CERT = ask\nTLS_CLIENT_CA = %s\n"
                    "SENDER_OWNERSHIP = envelope\nAUTH = plain login scram-sha-256 scram-sha-256-plus oauthbearer xoauth2 external\n\n" % (self.cert, self.key, self.ca))
        sections = "[listener-submission]\nBIND = 127.0.0.1:%d\nPROTOCOL = submission\n%s" % (self.submission, listener)
        sections += "[listener-submissions]\nBIND = 127.0.0.1:%d\nPROTOCOL = submissions\n%s" % (self.submissions, listener)
        sections += ("[pepsi-signin]\nFAIL_DELAY = 0\nACCOUNT_TRIES = 4\nACCOUNT_REFILL = 1 h\nBACKENDS = table oauth certificate\nOAUTH_KEYS = %s\n"
                     "OAUTH_ISSUER = https://id.example.test\nOAUTH_AUDIENCE = mail\nOAUTH_NAME_CLAIM = sub\n" % keys)
        mail = os.path.join(t.dir, "mail%d" % t.next_number())
        os.mkdir(mail, 0o700)
        if pepsi.ROOT:
            os.chown(mail, pepsi.service_account().pw_uid, pepsi.service_account().pw_gid)
        self.d = pepsi.Pepsid(t, pepsi.maildir("init", mail, bounce=None), pepsi="RELAY_NETWORKS = 192.0.2.0/24\n", more=sections)
        self.d.mail, self.d.keep = mail, True
        self.account("add", "alice", "--password-stdin", "--sender", "alice@example.test", stdin=PASSWORD)
        pepsi.wait_for("the admin child", lambda: self.d.status()["ingress"]["signin"]["up"])

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name, san, use, digest="sha256", file=None):
        cert, key, csr, ext = self.path((file or name) + ".pem"), self.path((file or name) + ".key"), self.path("csr"), self.path("ext")
        run(self.openssl, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=" + name, "-keyout", key, "-out", csr)
        with open(ext, "w") as f:
            f.write("subjectAltName=%s\nextendedKeyUsage=%s\nbasicConstraints=CA:FALSE\n" % (san, use))
        run(self.openssl, "x509", "-req", "-in", csr, "-CA", self.ca, "-CAkey", self.path("ca.key"), "-CAcreateserial", "-days", "30", "-" + digest, "-extfile", ext, "-out", cert)
        return cert, key

    def account(self, *args, stdin=None):
        def once():
            code, out, err = self.d.cli("account", *args, stdin=None if stdin is None else stdin.encode() + b"\n")
            return code == 0 or (err + out if "reached" not in err and "away" not in err else False)
        done = pepsi.wait_for("pepsi account " + args[0], once)
        pepsi.check(done is True, "pepsi account %s: %s" % (" ".join(args), done))

    def reload(self, old, new):
        """Another configuration, and an admin child that has it."""
        with open(self.d.config) as f:
            text = f.read()
        with open(self.d.config, "w") as f:
            f.write(text.replace(old, new))
        code, out, err = self.d.cli("reload")
        pepsi.check(code == 0, "reload: " + out + err)

        def ready():
            s = self.session()
            try:
                return s.cmd(plain("alice", PASSWORD))[0] == 235
            finally:
                s.close()
        pepsi.wait_for("a sign-in after the reload", ready)

    def context(self, identity=None, version=None):
        c = ssl.create_default_context(cafile=self.ca)
        if identity:
            c.load_cert_chain(*identity)
        if version:
            c.minimum_version = c.maximum_version = version
        return c

    def session(self, source=None, **kw):
        """A session inside STARTTLS, after EHLO."""
        s = pepsi.Smtp(self.submission, source=source)
        pepsi.check(not any(e.startswith("AUTH") for e in s.extensions), "AUTH is announced outside TLS")
        pepsi.check(s.cmd("STARTTLS")[0] == 220, "STARTTLS")
        s.file.close()
        s.sock = self.context(**kw).wrap_socket(s.sock, server_hostname="mx.example.test")
        s.file = s.sock.makefile("rb")
        code, text = s.cmd("EHLO client.example.test")
        pepsi.check(code == 250, "EHLO inside TLS: %d" % code)
        s.extensions = text.split("\n")[1:]
        return s

    def arrived(self, token, protocol="ESMTPSA"):
        def there():
            return [m for m in self.d.maildir("rcpt@example.test") if token.encode() in m]
        got = pepsi.wait_for("message " + token, there)
        pepsi.check(re.search(rb"with %s id" % protocol.encode(), got[0]), "no %s in %r" % (protocol, got[0][:300]))

    def child(self):
        """The admin child's pid."""
        names = {p: pepsi.proc_comm(p) for p in pepsi.proc_tree(self.d.process.pid)}
        pepsi.check("pepsi-signin" in names.values(), "no admin child among %s" % names)
        return [p for p, n in names.items() if n == "pepsi-signin"][0]

    def log(self):
        with open(self.d.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def results(self, result):
        m = re.compile(r'pepsi_signin_attempts_total\{mechanism="([^"]*)",result="%s"\}' % result)
        return {m.match(k).group(1): int(v) for k, v in self.d.metrics().items() if m.match(k) and v}


def plain(name, password):
    return "AUTH PLAIN " + b64(b"\0%s\0%s" % (name.encode(), password.encode()))


def offered(s):
    return [e for e in s.extensions if e.startswith("AUTH ")][0].split()[1:]


def scram(s, name, password, binding=None, gs2=None, first_only=False):
    """SCRAM-SHA-256(-PLUS) by hand; the last reply. binding: (type, data)."""
    gs2 = gs2 or ("p=%s,," % binding[0] if binding else "n,,")
    nonce = b64(os.urandom(18))
    bare = "n=%s,r=%s" % (name.replace("=", "=3D").replace(",", "=2C"), nonce)
    code, text = s.cmd("AUTH SCRAM-SHA-256%s %s" % ("-PLUS" if binding else "", b64((gs2 + bare).encode())))
    if code != 334:
        return code, text
    first = base64.b64decode(text).decode()
    f = dict(p.split("=", 1) for p in first.split(","))
    pepsi.check(f["r"].startswith(nonce) and len(f["r"]) > len(nonce), "nonce: " + first)
    if first_only:
        s.cmd("*")
        return f
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(f["s"]), int(f["i"]))

    def mac(key, text):
        return hmac.new(key, text.encode(), "sha256").digest()
    client_key = mac(salted, "Client Key")
    without = "c=%s,r=%s" % (b64(gs2.encode() + (binding[1] if binding else b"")), f["r"])
    message = ",".join((bare, first, without))
    proof = bytes(a ^ b for a, b in zip(client_key, mac(hashlib.sha256(client_key).digest(), message)))
    code, text = s.cmd(b64((without + ",p=" + b64(proof)).encode()))
    if code != 334:
        return code, text
    pepsi.check(base64.b64decode(text).decode() == "v=" + b64(mac(mac(salted, "Server Key"), message)), "the server's signature")
    return s.cmd("")


def clients(t):
    """PLAIN, LOGIN and SCRAM by programs that are not ours, each with a message behind it where the program sends one."""
    site = Site.of(t)
    # Python
    for mech in ("PLAIN", "LOGIN"):
        with smtplib.SMTP("localhost", site.submission) as c:
            c.starttls(context=site.context())
            c.ehlo()
            c.user, c.password = "alice", PASSWORD
            c.auth(mech, getattr(c, "auth_" + mech.lower()))
            c.sendmail("alice@example.test", ["rcpt@example.test"], pepsi.message("python-" + mech))
        site.arrived("python-" + mech)
    with smtplib.SMTP_SSL("localhost", site.submissions, context=site.context()) as c:
        c.login("Alice", PASSWORD)  # names have one form
        c.sendmail("alice@example.test", ["rcpt@example.test"], pepsi.message("python-ssl"))
    site.arrived("python-ssl")
    done = ["smtplib"]
    if shutil.which("swaks"):
        for mech in ("PLAIN", "LOGIN"):
            run("swaks", "--server", "127.0.0.1:%d" % site.submission, "--tls", "--auth", mech, "--auth-user", "alice", "--auth-password", PASSWORD,
                "--from", "alice@example.test", "--to", "rcpt@example.test", "--header", "Subject: swaks-" + mech)
            site.arrived("swaks-" + mech)
        done.append("swaks")
    if shutil.which("curl"):
        with open(site.path("mail"), "wb") as f:
            f.write(pepsi.message("by-curl"))
        for mech in ("PLAIN", "LOGIN"):
            run("curl", "-sS", "--ssl-reqd", "--cacert", site.ca, "smtp://localhost:%d/client.example.test" % site.submission, "--user", "alice:" + PASSWORD,
                "--login-options", "AUTH=" + mech, "--mail-from", "alice@example.test", "--mail-rcpt", "rcpt@example.test", "--upload-file", site.path("mail"))
        run("curl", "-sS", "--cacert", site.ca, "smtps://localhost:%d/client.example.test" % site.submissions, "--user", "alice:" + PASSWORD,
            "--mail-from", "alice@example.test", "--mail-rcpt", "rcpt@example.test", "--upload-file", site.path("mail"))
        pepsi.wait_for("three messages by curl", lambda: len([m for m in site.d.maildir("rcpt@example.test") if b"by-curl" in m]) == 3)
        done.append("curl")
    if shutil.which("gsasl"):
        for mech in ("PLAIN", "LOGIN", "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"):
            # it refuses to go without a channel binding where it has one
            out = run("gsasl", "--smtp", "--connect=localhost:%d" % site.submission, "--x509-ca-file=" + site.ca, "-m", mech, "-a", "alice",
                      "-p", PASSWORD, "--verbose", *(["--no-cb"] if mech == "SCRAM-SHA-256" else []))
            pepsi.check(b"235 " in out, "gsasl %s: %s" % (mech, out.decode(errors="replace")))
        pepsi.check(site.results("ok").get("SCRAM-SHA-256-PLUS") == 1, "gsasl's -PLUS: %s" % site.results("ok"))
        done.append("gsasl")
    if shutil.which("msmtp"):
        for mech in ("plain", "login", "scram-sha-256"):
            r = subprocess.run(["msmtp", "--host=localhost", "--port=%d" % site.submission, "--tls=on", "--tls-trust-file=" + site.ca, "--auth=" + mech,
                                "--user=alice", "--passwordeval=echo '%s'" % PASSWORD, "--from=alice@example.test", "rcpt@example.test"],
                               input=pepsi.message("msmtp-" + mech), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            pepsi.check(r.returncode == 0, "msmtp %s: %s" % (mech, r.stdout.decode(errors="replace")))
            site.arrived("msmtp-" + mech)
        done.append("msmtp")
    pepsi.check(PASSWORD not in site.log() and b64(PASSWORD.encode()) not in site.log(), "the password is in the log")
    pepsi.check(re.search(r'event=signin result=ok mech=PLAIN account="alice" backend="table"', site.log()), "no line of a sign-in")
    pepsi.check("sign-ins" in site.d.cli("status")[1], "no line in pepsi status: " + site.d.cli("status")[1])
    pepsi.say("      clients: " + " ".join(done))


def scram_bindings(t):
    """SCRAM by hand: both bindings, TLS 1.2 and 1.3; another channel, a downgrade, a stranger."""
    site = Site.of(t)
    der = ssl.PEM_cert_to_DER_cert(open(site.cert).read())
    end_point = ("tls-server-end-point", hashlib.sha256(der).digest())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        s = site.session(version=version)
        pepsi.check("SCRAM-SHA-256-PLUS" in offered(s), "offer: %s" % offered(s))
        pepsi.check(scram(s, "alice", PASSWORD, end_point)[0] == 235, "tls-server-end-point")
        s.close()
    s = site.session()
    pepsi.check(scram(s, "alice", PASSWORD, gs2="n,,")[0] == 235, "SCRAM without binding")
    s.close()
    for what, kw in (("another channel", {"binding": ("tls-server-end-point", b"\0" * 32)}), ("an unknown binding", {"binding": ("tls-unknown", b"x")}),
                     ("a downgrade", {"gs2": "y,,"}), ("a binding without -PLUS", {"gs2": "p=tls-exporter,,"}), ("another identity", {"gs2": "n,a=bob,"})):
        s = site.session()
        code, text = scram(s, "alice", PASSWORD, **kw)
        pepsi.check((code, text) == (535, "5.7.8 " + NO), "%s: %d %s" % (what, code, text))
        s.close()
    # a name without account: the same salt each time, and the same end
    s = site.session()
    a, b = (scram(s, name, "x", first_only=True) for name in ("nobody", "NoBody"))
    real = scram(s, "alice", "x", first_only=True)
    pepsi.check(scram(s, "Alice", "x", first_only=True)["s"] == real["s"], "an account has two salts")
    pepsi.check(a["s"] == b["s"] and a["i"] == real["i"] and len(a["s"]) == len(real["s"]), "a stranger can be told: %s %s" % (a, real))
    s.close()
    s = site.session()
    pepsi.check(scram(s, "nobody", PASSWORD) == scram(s, "alice", "wrong"), "strangers and wrong passwords differ")
    s.close()


def rules(t):
    """Where AUTH may stand, what a failure says, how many there may be, what an account may send as."""
    site = Site.of(t)
    s = pepsi.Smtp(site.submission)
    pepsi.check(s.cmd(plain("alice", PASSWORD))[0] == 538, "AUTH outside TLS")
    code, text = s.cmd("MAIL FROM:<alice@example.test>")
    pepsi.check(code == 530, "MAIL outside TLS: %d %s" % (code, text))
    s.close()
    s = site.session()
    pepsi.check(s.cmd("MAIL FROM:<alice@example.test>")[0] == 530, "MAIL without a sign-in")
    pepsi.check(s.cmd("AUTH NTLM")[0] == 504, "an unknown mechanism")
    pepsi.check(s.cmd("AUTH LOGIN") == (334, b64(b"Username:")) and s.cmd("*")[0] == 501, "cancelling")
    answers = {s.cmd(plain(*w)) for w in (("alice", "wrong"), ("nobody", PASSWORD), ("alice", "x" * 1025))}
    pepsi.check(answers == {(535, "5.7.8 " + NO)}, "failures differ: %s" % answers)
    code, text = s.cmd(plain("alice", "wrong"))
    pepsi.check(code == 421, "the fifth failure: %d %s" % (code, text))
    s = site.session()
    pepsi.check(s.cmd(plain("alice", PASSWORD))[0] == 235, "right, by another session")
    pepsi.check(s.cmd(plain("alice", PASSWORD))[0] == 503, "twice")
    code, text = s.cmd("MAIL FROM:<bob@example.test>")
    pepsi.check(code == 553, "somebody else's address: %d %s" % (code, text))
    pepsi.check(s.cmd("MAIL FROM:<alice@example.test> AUTH=<>")[0] == 250, "AUTH=")
    pepsi.check(s.cmd("RCPT TO:<far@example.net>")[0] == 250, "relaying for an account")
    s.close()
    # a switched-off account, and one that is gone
    site.account("disable", "alice")
    s = site.session()
    pepsi.check(s.cmd(plain("alice", PASSWORD)) == (535, "5.7.8 " + NO), "disabled")
    site.account("enable", "alice")
    pepsi.check(s.cmd(plain("alice", PASSWORD))[0] == 235, "enabled again")
    s.close()


def throttled(t):
    """Guesses at an account: after its tries right and wrong passwords look alike, save for its owner at home."""
    site = Site.of(t)
    site.account("add", "bob", "--password-stdin", stdin=PASSWORD)

    def attempt(name, password):
        s = site.session()
        try:
            return s.cmd(plain(name, password))
        finally:
            s.close()
    pepsi.check([attempt("bob", "wrong")[0] for _ in range(4)] == [535] * 4, "failures")
    wrong, right = attempt("bob", "wrong"), attempt("bob", PASSWORD)
    pepsi.check(wrong == right and wrong[0] == 454, "told apart: %s %s" % (wrong, right))
    pepsi.check(attempt("alice", PASSWORD)[0] == 235, "another account")
    [attempt("alice", "wrong") for _ in range(6)]
    pepsi.check(attempt("alice", PASSWORD)[0] == 235, "the owner is locked out")
    pepsi.check(site.d.status()["ingress"]["signin"]["throttled"] >= 1, "not counted: %s" % site.d.status()["ingress"]["signin"])


def left_in_time(t):
    """Who leaves before the answer has a password checked for nothing: his network pays for it, the account does not."""
    site = Site.of(t)
    site.account("add", "carol", "--password-stdin", stdin=PASSWORD)
    site.reload("ACCOUNT_TRIES = 4", "ACCOUNT_TRIES = 4\nNETWORK_TRIES = 6\nNETWORK_REFILL = 1 h")
    cancelled = lambda: site.d.metrics().get('pepsi_signin_attempts_total{mechanism="PLAIN",result="cancelled"}', 0)
    before, child = cancelled(), site.child()
    os.kill(child, signal.SIGSTOP)  # so that all of them are under way
    try:
        for _ in range(6):
            s = site.session(source="127.0.77.1")
            s.raw(plain("carol", "wrong").encode() + b"\r\n")
            time.sleep(0.05)
            s.file.close()
            s.sock.close()
        pepsi.wait_for("they are gone", lambda: cancelled() >= before + 6)
    finally:
        os.kill(child, signal.SIGCONT)
    s = site.session(source="127.0.77.1")
    code, text = s.cmd(plain("carol", PASSWORD))
    pepsi.check(code == 454 and "Too many" in text, "one more: %d %s" % (code, text))
    s.close()
    s = site.session(source="127.0.78.1")
    pepsi.check(s.cmd(plain("carol", PASSWORD))[0] == 235, "the owner, from elsewhere")
    s.close()
    site.reload("\nNETWORK_TRIES = 6\nNETWORK_REFILL = 1 h", "")


def delayed(t):
    """A failure's reply is held back, and nobody else waits for it."""
    site = Site.of(t)
    site.reload("FAIL_DELAY = 0", "FAIL_DELAY = 1 s")
    s, other = site.session(), site.session()
    began = time.monotonic()
    s.raw(plain("alice", "wrong").encode() + b"\r\n")
    pepsi.check(other.cmd(plain("alice", PASSWORD))[0] == 235, "beside it")
    pepsi.check(s.reply()[0] == 535, "the failure")
    pepsi.check(time.monotonic() - began >= 1, "not held back")


def tokens(t):
    """OAUTHBEARER and XOAUTH2 with keys in a file; curl as a client where it is there."""
    site = Site.of(t)

    def token(**claims):
        c = dict({"iss": "https://id.example.test", "aud": "mail", "exp": int(time.time()) + 600, "sub": "alice"}, **claims)
        body = b64url(json.dumps({"alg": "RS256", "kid": "k1"}).encode()) + "." + b64url(json.dumps(c).encode())
        r = subprocess.run([site.openssl, "dgst", "-sha256", "-sign", site.token_key], input=body.encode(), stdout=subprocess.PIPE, timeout=30)
        return body + "." + b64url(r.stdout)

    def bearer(tok, name="alice"):
        return b64(("n,a=%s,\x01host=localhost\x01port=587\x01auth=Bearer %s\x01\x01" % (name, tok)).encode())

    def ready():
        s = site.session()
        got = s.cmd("AUTH OAUTHBEARER " + bearer(token()))
        s.close()
        return got[0] == 235
    pepsi.wait_for("OAUTHBEARER", ready)
    s = site.session()
    pepsi.check(s.cmd("AUTH XOAUTH2 " + b64(("user=alice\x01auth=Bearer %s\x01\x01" % token()).encode()))[0] == 235, "XOAUTH2")
    s.close()
    for what, tok, name in (("expired", token(exp=int(time.time()) - 600), "alice"), ("another issuer", token(iss="https://evil.example"), "alice"),
                            ("not signed", token()[:-20] + "A" * 20, "alice"), ("somebody else's", token(sub="bob"), "alice"),
                            ("a user of this machine", token(sub="uid:1000"), "uid:1000")):
        s = site.session()
        code, text = s.cmd("AUTH OAUTHBEARER " + bearer(tok, name))
        pepsi.check(code == 334 and json.loads(base64.b64decode(text))["status"] == "invalid_token", "%s: %d %s" % (what, code, text))
        pepsi.check(s.cmd(b64(b"\x01")) == (535, "5.7.8 " + NO), what)
        s.close()
    if shutil.which("curl"):
        with open(site.path("mail"), "wb") as f:
            f.write(pepsi.message("token-curl"))
        for mech in ("OAUTHBEARER", "XOAUTH2"):
            run("curl", "-sS", "--ssl-reqd", "--cacert", site.ca, "smtp://localhost:%d/client.example.test" % site.submission, "--user", "alice:",
                "--oauth2-bearer", token(), "--login-options", "AUTH=" + mech, "--mail-from", "alice@example.test", "--mail-rcpt", "rcpt@example.test",
                "--upload-file", site.path("mail"))
        site.arrived("token-curl")


def certificates(t):
    """EXTERNAL: the client's certificate says who it is; without one it is not on offer."""
    site = Site.of(t)
    known, other = (site.issue(n, "email:%s@example.test" % n, "clientAuth") for n in ("alice-phone", "stranger"))
    der = ssl.PEM_cert_to_DER_cert(open(known[0]).read())
    site.account("set", "alice", "--certificate", hashlib.sha256(der).hexdigest())
    s = site.session()
    pepsi.check("EXTERNAL" not in offered(s), "EXTERNAL without a certificate")
    s.close()
    for first in ("AUTH EXTERNAL =", "AUTH EXTERNAL " + b64(b"alice")):
        s = site.session(identity=known)
        pepsi.check("EXTERNAL" in offered(s), "offer: %s" % offered(s))
        got = s.cmd(first)
        pepsi.check(got[0] == 235, "%s: %s" % (first, got))
        s.close()
    for identity, first in ((other, "AUTH EXTERNAL ="), (known, "AUTH EXTERNAL " + b64(b"bob"))):
        s = site.session(identity=identity)
        pepsi.check(s.cmd(first) == (535, "5.7.8 " + NO), first)
        s.close()


class Gnutls:
    """An SMTP session inside STARTTLS with GnuTLS at the client's end: another library's opinion of what a channel is bound to."""

    def __init__(self, site, priority=None, identity=None):
        self.lib = lib = ctypes.CDLL("libgnutls.so.30")
        for name in ("gnutls_record_send", "gnutls_record_recv"):
            getattr(lib, name).restype = ctypes.c_ssize_t
        lib.gnutls_strerror.restype = ctypes.c_char_p
        plain = pepsi.Smtp(site.submission)
        pepsi.check(plain.cmd("STARTTLS")[0] == 220, "STARTTLS")
        plain.file.close()
        self.sock, self.buffer = plain.sock, b""
        self.sock.settimeout(None)  # a blocking descriptor; the test has its own limit
        self.cred, self.tls = ctypes.c_void_p(), ctypes.c_void_p()
        self.do("gnutls_certificate_allocate_credentials", ctypes.byref(self.cred))
        pepsi.check(lib.gnutls_certificate_set_x509_trust_file(self.cred, site.ca.encode(), 1) == 1, "the authority")
        if identity:
            self.do("gnutls_certificate_set_x509_key_file", self.cred, identity[0].encode(), identity[1].encode(), 1)
        self.do("gnutls_init", ctypes.byref(self.tls), 2)
        self.do("gnutls_set_default_priority", self.tls) if not priority else self.do("gnutls_priority_set_direct", self.tls, priority.encode(), None)
        self.do("gnutls_credentials_set", self.tls, 1, self.cred)
        self.do("gnutls_server_name_set", self.tls, 1, b"mx.example.test", ctypes.c_size_t(15))
        lib.gnutls_session_set_verify_cert(self.tls, b"mx.example.test", 0)
        lib.gnutls_transport_set_int2(self.tls, self.sock.fileno(), self.sock.fileno())
        self.do("gnutls_handshake", self.tls)
        code, text = self.cmd("EHLO client.example.test")
        pepsi.check(code == 250, "EHLO inside TLS: %d" % code)
        self.extensions = text.split("\n")[1:]

    def do(self, name, *args):
        r = getattr(self.lib, name)(*args)
        pepsi.check(r >= 0, "%s: %s" % (name, self.lib.gnutls_strerror(r)))

    def binding(self, kind):
        """kind: GNUTLS_CB_TLS_UNIQUE, _SERVER_END_POINT, _EXPORTER."""
        class Datum(ctypes.Structure):
            _fields_ = [("data", ctypes.POINTER(ctypes.c_ubyte)), ("size", ctypes.c_uint)]
        d = Datum()
        self.do("gnutls_session_channel_binding", self.tls, kind, ctypes.byref(d))
        return bytes(d.data[:d.size])

    def line(self):
        while b"\r\n" not in self.buffer:
            room = ctypes.create_string_buffer(16384)
            n = self.lib.gnutls_record_recv(self.tls, room, ctypes.c_size_t(len(room)))
            pepsi.check(n > 0 or n in (-28, -52), "recv: %s" % self.lib.gnutls_strerror(ctypes.c_int(n)))  # GNUTLS_E_AGAIN, _INTERRUPTED
            self.buffer += room.raw[:max(n, 0)]
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line.decode()

    def cmd(self, text):
        octets = text.encode() + b"\r\n"
        pepsi.check(self.lib.gnutls_record_send(self.tls, octets, ctypes.c_size_t(len(octets))) == len(octets), "send")
        lines = [self.line()]
        while lines[-1][3:4] == "-":
            lines.append(self.line())
        return int(lines[0][:3]), "\n".join(each[4:] for each in lines)

    def close(self):
        self.lib.gnutls_deinit(self.tls)
        self.lib.gnutls_certificate_free_credentials(self.cred)
        self.sock.close()


def other_library(t):
    """Channel bindings as GnuTLS has them, with certificates that are signed with other digests (RFC 5929 section 4.1); EXTERNAL by programs that are not ours."""
    site = Site.of(t)
    try:
        ctypes.CDLL("libgnutls.so.30")
    except OSError:
        raise pepsi.Skip("no libgnutls")
    unique, end_point, exporter = 0, 1, 2
    before, first = site.cert, (site.cert, site.key)
    for digest in ("sha256", "sha384", "sha512"):
        if digest != "sha256":
            cert, key = site.issue("mx.example.test", "DNS:mx.example.test,DNS:localhost,IP:127.0.0.1", "serverAuth", digest, "mx-" + digest)
            site.reload("TLS_CERT = %s\nTLS_KEY = %s\n" % first, "TLS_CERT = %s\nTLS_KEY = %s\n" % (cert, key))
            first = (cert, key)
        for version in ("1.2", "1.3"):
            s = Gnutls(site, "NORMAL:-VERS-ALL:+VERS-TLS" + version)
            data = s.binding(end_point)
            pepsi.check(len(data) == int(digest[3:]) // 8, "%s: %d octets" % (digest, len(data)))
            pepsi.check(scram(s, "alice", PASSWORD, ("tls-server-end-point", data))[0] == 235, "tls-server-end-point, %s, TLS %s" % (digest, version))
            s.close()
            s = Gnutls(site, "NORMAL:-VERS-ALL:+VERS-TLS" + version)
            wrong = bytes([data[0] ^ 1]) + data[1:]
            pepsi.check(scram(s, "alice", PASSWORD, ("tls-server-end-point", wrong))[0] == 535, "another certificate was taken")
            s.close()
    s = Gnutls(site, "NORMAL:-VERS-ALL:+VERS-TLS1.3")
    pepsi.check(scram(s, "alice", PASSWORD, ("tls-exporter", s.binding(exporter)))[0] == 235, "tls-exporter")
    s.close()
    s, other = Gnutls(site), Gnutls(site)  # of another connection
    pepsi.check(scram(s, "alice", PASSWORD, ("tls-exporter", other.binding(exporter)))[0] == 535, "another channel's binding")
    s.close()
    other.close()
    site.reload("TLS_CERT = %s\nTLS_KEY = %s\n" % first, "TLS_CERT = %s\nTLS_KEY = %s\n" % (before, site.key))
    # EXTERNAL
    phone = site.issue("alice-other", "email:alice-other@example.test", "clientAuth")
    site.account("set", "alice", "--certificate", hashlib.sha256(ssl.PEM_cert_to_DER_cert(open(phone[0]).read())).hexdigest())
    s = Gnutls(site, identity=phone)
    pepsi.check("EXTERNAL" in offered(s) and s.cmd("AUTH EXTERNAL =")[0] == 235, "EXTERNAL by GnuTLS: %s" % offered(s))
    s.close()
    done = ["gnutls"]
    if shutil.which("gsasl"):
        for authzid in ("", "alice"):
            out = run("gsasl", "--smtp", "--connect=localhost:%d" % site.submission, "--x509-ca-file=" + site.ca, "--x509-cert-file=" + phone[0],
                      "--x509-key-file=" + phone[1], "-m", "EXTERNAL", "-z", authzid, "--verbose")
            pepsi.check(b"235 " in out, "gsasl EXTERNAL: %s" % out.decode(errors="replace"))
        done.append("gsasl")
    if shutil.which("curl"):
        with open(site.path("mail"), "wb") as f:
            f.write(pepsi.message("external-by-curl"))
        run("curl", "-sS", "--ssl-reqd", "--cacert", site.ca, "--cert", phone[0], "--key", phone[1], "smtp://localhost:%d/client.example.test" % site.submission,
            "--user", "alice:", "--login-options", "AUTH=EXTERNAL", "--mail-from", "alice@example.test", "--mail-rcpt", "rcpt@example.test",
            "--upload-file", site.path("mail"))
        site.arrived("external-by-curl")
        done.append("curl")
    pepsi.say("      clients: " + " ".join(done))


def child_killed(t):
    """The admin child dies in the middle of an exchange: 454, mail flows on, and another child takes over."""
    site = Site.of(t)
    s, other = site.session(), site.session()
    pepsi.check(other.cmd(plain("alice", PASSWORD))[0] == 235, "before")
    pepsi.check(s.cmd("AUTH LOGIN")[0] == 334, "LOGIN")
    strange = scram(site.session(), "nobody", "x", first_only=True)["s"]
    lost = site.d.metrics()["pepsi_signin_peer_lost_total"]
    os.kill(site.child(), signal.SIGKILL)
    pepsi.wait_for("the loss is seen", lambda: site.d.metrics()["pepsi_signin_peer_lost_total"] > lost)
    pepsi.check(s.cmd(b64(b"alice"))[0] == 454, "in the middle")
    pepsi.check(other.send("alice@example.test", "rcpt@example.test", pepsi.message("beside"))[0] == 250, "who is in stays in")

    def again():
        x = site.session()
        try:
            return x.cmd(plain("alice", PASSWORD))[0] == 235
        finally:
            x.close()
    pepsi.wait_for("a sign-in with the next child", again)
    # else whoever asks before and after a reload would see who has an account
    pepsi.check(scram(site.session(), "nobody", "x", first_only=True)["s"] == strange, "the salt of a stranger has changed")


def storm(t):
    """40 sign-ins at once, half of them wrong: the reactor answers others all the while."""
    site = Site.of(t)
    sessions = [site.session() for _ in range(40)]
    watcher = pepsi.Smtp(site.d.port)
    results, delays, over = [], [], threading.Event()

    def sign_in(i, s):
        results.append(s.cmd(plain("alice", PASSWORD if i % 2 else "wrong"))[0])

    def watch():
        while not over.is_set():
            began = time.monotonic()
            watcher.cmd("NOOP")
            delays.append(time.monotonic() - began)
            time.sleep(0.005)
    w = threading.Thread(target=watch)
    w.start()
    threads = [threading.Thread(target=sign_in, args=(i, s)) for i, s in enumerate(sessions)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    over.set()
    w.join()
    # each of those that were asked about at once was answered for what it was; whoever came over a cap was put off
    pepsi.check(results.count(235) >= 10 and set(results) <= {235, 535, 454}, "results: %s" % sorted(results))
    delays.sort()
    p99 = delays[int(len(delays) * 0.99) - 1] if len(delays) > 1 else delays[0]
    pepsi.say("      storm: %s; NOOP p99 %.1f ms of %d" % ({c: results.count(c) for c in sorted(set(results))}, p99 * 1000, len(delays)))
    pepsi.check(p99 < 0.25 * pepsi.SLACK, "NOOP p99 %.0f ms" % (p99 * 1000))


pepsi.main(__file__, [clients, scram_bindings, rules, throttled, left_in_time, tokens, certificates, other_library, child_killed, delayed, storm])
