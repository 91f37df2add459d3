"""Backends of sign-in that are other people's programs: a real Dovecot's auth socket (passwords, and SCRAM relayed as it is), a Dovecot that
lies, PAM, a token server asked over HTTP; chains of them; that each one's absence is a matter of time, not a refusal."""
import base64
import hashlib
import hmac
import http.server
import json
import os
import pwd
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import pepsi

DISCARD = "[stage-init]\nPROGRAM = pepsi-stage-discard\n"


def run(*args):
    r = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    pepsi.check(r.returncode == 0, "%s: %s" % (" ".join(args), r.stdout.decode(errors="replace")))
    return r.stdout


def daemon(t, signin, listener="", start=True):
    """A daemon with a submissions listener; d.msa is its port."""
    openssl = pepsi.need("openssl")
    cert, key = os.path.join(t.dir, "cert.pem"), os.path.join(t.dir, "key.pem")
    if not os.path.exists(cert):
        run(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=mx.example.test",
            "-keyout", key, "-out", cert)
    port = pepsi.free_port()
    d = pepsi.Pepsid(t, DISCARD, more="[listener-msa]\nBIND = 127.0.0.1:%d\nPROTOCOL = submissions\nTLS_CERT = %s\nTLS_KEY = %s\n%s\n"
                     "[pepsi-signin]\nFAIL_DELAY = 0\nACCOUNT_TRIES = 100\nNETWORK_TRIES = 1000\n%s\n" % (port, cert, key, listener, signin), start=start)
    d.msa = port
    return d


class Session(pepsi.Smtp):
    """SMTP inside TLS."""

    def __init__(self, d):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        raw = socket.create_connection(("127.0.0.1", d.msa), 60)
        self.sock = context.wrap_socket(raw, server_hostname="mx.example.test")
        self.file = self.sock.makefile("rb")
        self.reply()
        self.extensions = self.cmd("EHLO client.example.test")[1].split("\n")[1:]

    def offered(self):
        return sum((e.split()[1:] for e in self.extensions if e.startswith("AUTH ")), [])

    def plain(self, user, password):
        return self.cmd("AUTH PLAIN " + base64.b64encode(("\0%s\0%s" % (user, password)).encode()).decode())[0]

    def bearer(self, user, token):
        text = "n,%s,\1auth=Bearer %s\1\1" % ("a=" + user if user else "", token)
        code, reply = self.cmd("AUTH OAUTHBEARER " + base64.b64encode(text.encode()).decode())
        if code == 334:  # why not, in JSON; then the end
            json.loads(base64.b64decode(reply))
            code, reply = self.cmd(base64.b64encode(b"\1").decode())
        return code

    def scram(self, user, password):
        def b64(octets):
            return base64.b64encode(octets).decode()
        bare = "n=%s,r=fyko+d2lbbFgONRv9qkxdawL" % user
        code, reply = self.cmd("AUTH SCRAM-SHA-256 " + b64(("n,," + bare).encode()))
        if code != 334:
            return code
        first = base64.b64decode(reply).decode()
        nonce, salt, rounds = re.match(r"r=([^,]+),s=([^,]+),i=(\d+)$", first).groups()
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), int(rounds))
        client = hmac.digest(salted, b"Client Key", "sha256")
        last = "c=biws,r=" + nonce
        message = ",".join((bare, first, last)).encode()
        proof = bytes(a ^ b for a, b in zip(client, hmac.digest(hashlib.sha256(client).digest(), message, "sha256")))
        code, reply = self.cmd(b64(("%s,p=%s" % (last, b64(proof))).encode()))
        if code != 334:
            return code
        signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        pepsi.check(base64.b64decode(reply).decode() == "v=" + b64(signature), "the server's signature is wrong")
        return self.cmd("")[0]


def attempt(d, how, *args):
    s = Session(d)
    try:
        return getattr(s, how)(*args)
    finally:
        s.close()


def want(d, code, how, *args):
    got = attempt(d, how, *args)
    pepsi.check(got == code, "%s %s: %d, not %d" % (how, args[0], got, code))


def account(d, *args, stdin=None):
    code, out, err = d.cli("account", *args, stdin=stdin)
    pepsi.check(code == 0, "account %s: %s" % (" ".join(args), err))


def logged(d, *words):
    with open(d.log, errors="replace") as f:
        return [line for line in f if all(w in line for w in words)]


def offers(d, mechanism):
    s = Session(d)
    try:
        return mechanism in s.offered()
    finally:
        s.close()


def up(d, *mechanisms):
    for m in mechanisms:
        pepsi.wait_for("the offer of " + m, lambda: offers(d, m), 30)


class Dovecot:
    """A private Dovecot that does nothing but authenticate: alice and bob, alice's address is alice@example.test in any case."""

    def __init__(self, t):
        self.t, self.program = t, pepsi.need("dovecot")
        self.dir = os.path.join(t.dir, "dovecot%d" % t.next_number())
        os.makedirs(self.dir)
        user = pwd.getpwuid(os.geteuid())
        self.socket = os.path.join(self.dir, "auth")
        own = "" if pepsi.ROOT else "default_internal_user = %s\ndefault_login_user = %s\ndefault_internal_group = %d\n" % (user.pw_name, user.pw_name, user.pw_gid)
        with open(os.path.join(self.dir, "users"), "w") as f:
            f.write("alice@example.test:{PLAIN}one secret\nbob@example.test:{PLAIN}another\noff@example.test:{PLAIN}x:::::: nologin=y\n")
        with open(os.path.join(self.dir, "dovecot.conf"), "w") as f:
            f.write("base_dir = %(d)s/run\nstate_dir = %(d)s/state\nlog_path = %(d)s/log\nprotocols =\nlisten = 127.0.0.1\nssl = no\nauth_mechanisms = plain login "
                    "scram-sha-256 cram-md5\nauth_failure_delay = 0\nauth_username_format = %%Lu\nfirst_valid_uid = 1\n%(own)spassdb {\n  driver = passwd-file\n  args = "
                    "username_format=%%u %(d)s/users\n}\nservice auth {\n  unix_listener %(d)s/auth {\n    mode = 0666\n  }\n}\nservice anvil {\n  chroot =\n}\n"
                    "service stats {\n  chroot =\n}\n" % dict(d=self.dir, own=own))
        self.start()

    def begun(self):
        """How often it began, with all its sockets."""
        try:
            with open(os.path.join(self.dir, "log"), errors="replace") as f:
                return sum("starting up" in line for line in f)
        except OSError:
            return 0

    def start(self):
        before = self.begun()
        self.process = self.t.popen([self.program, "-F", "-c", os.path.join(self.dir, "dovecot.conf")], os.path.join(self.dir, "out"))
        try:
            pepsi.wait_for("Dovecot", lambda: self.begun() > before or self.process.poll() is not None, 15)
            pepsi.check(self.process.poll() is None, "Dovecot ended: %s" % self.process.returncode)
        except pepsi.Failed:
            for n in ("out", "log"):
                p = os.path.join(self.dir, n)
                if os.path.exists(p):
                    pepsi.say(open(p, errors="replace").read()[-2000:])
            raise

    def stop(self):
        """kill -9 of all of it: its auth process would wait for its clients to go. Its master stands still first: it replaces a child that
        dies, and one more than was killed would hold sockets that the next Dovecot must have, which would not start."""
        os.kill(self.process.pid, signal.SIGSTOP)
        pepsi.wait_for("Dovecot's master stands still", lambda: pepsi.proc_state(self.process.pid) == "T")
        tree = pepsi.proc_tree(self.process.pid)
        for p in [self.process.pid] + tree:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended by itself
        self.process.wait(20)
        pepsi.wait_for("the end of Dovecot", lambda: not [p for p in tree if pepsi.alive(p)])
        os.unlink(self.socket)


def dovecot(t):
    v = Dovecot(t)
    d = daemon(t, "BACKENDS = dovecot\nDOVECOT_SOCKET = %s" % v.socket)
    up(d, "PLAIN", "LOGIN", "SCRAM-SHA-256")
    want(d, 235, "plain", "alice@example.test", "one secret")
    want(d, 235, "plain", "ALICE@example.test", "one secret")
    want(d, 535, "plain", "alice@example.test", "One secret")
    want(d, 535, "plain", "nobody@example.test", "x")
    want(d, 535, "plain", "alice\ttemp\tuser=bob@example.test", "one secret")
    want(d, 235, "scram", "alice@example.test", "one secret")
    want(d, 535, "scram", "alice@example.test", "another")
    want(d, 535, "scram", "nobody@example.test", "x")
    pepsi.check(logged(d, "event=signin", "result=ok", "mech=SCRAM-SHA-256", 'account="alice@example.test"', "dovecot"), "no line of the sign-in")
    # what an account may is ours to say, whoever vouches for it
    account(d, "add", "bob@example.test", "--no-password")
    account(d, "disable", "bob@example.test")
    want(d, 535, "plain", "bob@example.test", "another")
    want(d, 535, "scram", "bob@example.test", "another")
    account(d, "enable", "bob@example.test")
    want(d, 235, "scram", "bob@example.test", "another")
    counter = 'pepsi_signin_backend_answers_total{backend="dovecot",result="ok"}'
    pepsi.wait_for("the count", lambda: d.metrics().get(counter, 0) >= 4)
    # away is not wrong, and it comes back by itself
    v.stop()
    pepsi.wait_for("its absence", lambda: not offers(d, "SCRAM-SHA-256"), 30)
    v.start()
    up(d, "SCRAM-SHA-256", "PLAIN")
    want(d, 235, "scram", "alice@example.test", "one secret")
    with open(d.log) as f:
        pepsi.check("one secret" not in f.read(), "the log has a password")


class Liar:
    """Something at the socket that says it is Dovecot. `answer` gets the fields of a request and gives octets."""

    def __init__(self, t, answer, hello=b"VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nMECH\tSCRAM-SHA-256\nSPID\t1\nCUID\t1\nCOOKIE\t0\nDONE\n"):
        self.path, self.answer, self.hello = os.path.join(t.dir, "liar%d" % t.next_number()), answer, hello
        self.seen, self.connections = [], 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()
        t.cleanup(self.listener.close)

    def accept(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        try:
            c.sendall(self.hello)
            for line in c.makefile("rb"):
                fields = line.rstrip(b"\n").split(b"\t")
                self.seen.append(fields)
                if fields[0] in (b"AUTH", b"CONT"):
                    c.sendall(self.answer(fields))
        except OSError:
            pass
        finally:
            c.close()


def liars(t):
    answers = {}
    liar = Liar(t, lambda f: answers["x"](f))
    d = daemon(t, "BACKENDS = dovecot\nDOVECOT_SOCKET = %s" % liar.path)
    up(d, "PLAIN")
    for name, code, answer in (
            ("ok", 235, lambda f: b"OK\t%s\tuser=alice\n" % f[1]),
            ("in pieces, with another's answer before", 235, lambda f: b"OK\t999999\tuser=x\nOK\t%s\tfuture\tuser=alice\n" % f[1]),
            ("temporary", 454, lambda f: b"FAIL\t%s\tuser=alice\ttemp\n" % f[1]),
            ("disabled", 535, lambda f: b"FAIL\t%s\tuser=alice\tuser_disabled\n" % f[1]),
            ("nologin", 535, lambda f: b"OK\t%s\tuser=alice\tnologin\n" % f[1]),
            ("no user", 454, lambda f: b"OK\t%s\n" % f[1]),
            ("a name that is none", 535, lambda f: b"OK\t%s\tuser=a b\n" % f[1]),
            ("a user of this machine", 535, lambda f: b"OK\t%s\tuser=UID:1000\n" % f[1]),
            ("a line feed in a name", 535, lambda f: b"OK\t%s\tuser=a\1nb\n" % f[1]),
            ("a challenge where there is none", 454, lambda f: b"CONT\t%s\tAAAA\n" % f[1]),
            ("no protocol", 454, lambda f: b"HTTP/1.1 200 OK\r\nOK\tx\n"),
            ("a line without end", 454, lambda f: b"x" * 100000)):
        answers["x"] = answer
        up(d, "PLAIN")
        got = attempt(d, "plain", "alice", "pw")
        pepsi.check(got == code, "%s: %d, not %d" % (name, got, code))
    answers["x"] = lambda f: b"CONT\t%s\tAAAA\n" % f[1] if f[0] == b"AUTH" else b"FAIL\t%s\tuser=alice\n" % f[1]
    up(d, "SCRAM-SHA-256")
    s = Session(d)
    pepsi.check(s.cmd("AUTH SCRAM-SHA-256 biws")[0] == 334, "no challenge")
    pepsi.check(s.cmd("*")[0] == 501, "not cancelled")
    pepsi.wait_for("CANCEL", lambda: [f for f in liar.seen if f[0] == b"CANCEL"])
    s.close()
    # nothing a client says becomes a field or a line of its own
    for f in liar.seen:
        pepsi.check(f[0] in (b"VERSION", b"CPID", b"AUTH", b"CONT", b"CANCEL"), "said: %r" % f)
        if f[0] == b"AUTH":
            pepsi.check(f[-1].startswith(b"resp=") and b"secured=tls" in f and b"rip=127.0.0.1" in f, "AUTH: %r" % f)
    # another protocol is not believed, and not asked for ever
    old = Liar(t, lambda f: b"", b"VERSION\t2\t0\nMECH\tPLAIN\tplaintext\nDONE\n")
    d = daemon(t, "BACKENDS = dovecot\nDOVECOT_SOCKET = %s" % old.path)
    pepsi.wait_for("a second look", lambda: old.connections > 1)
    pepsi.check(logged(d, "dovecot-away", "version 1") and old.connections < 50, "%d connections" % old.connections)
    pepsi.check(not offers(d, "PLAIN"), "PLAIN is offered")


def pam(t):
    folder = os.path.join(t.dir, "pam.d")
    os.mkdir(folder, 0o755)
    script = os.path.join(folder, "check")
    with open(script, "w") as f:
        f.write("#!/bin/sh\n[ \"$(tr -d '\\000')\" = \"$PAM_USER's secret\" ] || exit 1\n[ \"$PAM_USER\" != slow ] || exec sleep 300\n[ \"$PAM_USER\" != dead ] || kill -9 $PPID\n")
    os.chmod(script, 0o755)
    service = os.path.join(folder, "mail")
    with open(service, "w") as f:
        f.write("auth required pam_exec.so quiet expose_authtok %s\naccount required pam_permit.so\n" % script)
    expired = os.path.join(folder, "expired")
    with open(expired, "w") as f:
        f.write("auth required pam_permit.so\naccount required pam_deny.so\n")
    d = daemon(t, "BACKENDS = pam\nPAM_SERVICE = %s" % service)
    pepsi.wait_for("the admin child", lambda: d.status()["ingress"]["signin"]["up"])
    first = attempt(d, "plain", "alice", "alice's secret")
    if first == 454 and logged(d, "libpam", "cannot be loaded") + logged(d, "built without PAM"):
        raise pepsi.Skip("no PAM here")
    pepsi.check(first == 235, "alice: %d; %s" % (first, logged(d, "event=signin")[-1:]))
    pepsi.check(not offers(d, "SCRAM-SHA-256"), "SCRAM cannot be done with PAM")
    want(d, 535, "plain", "alice", "bob's secret")
    want(d, 535, "plain", "uid:1000", "uid:1000's secret")  # PAM would take it
    pepsi.check(logged(d, "event=signin", "not a name"), "uid: %s" % logged(d, "event=signin")[-1:])
    want(d, 235, "plain", "bob", "bob's secret")
    want(d, 454, "plain", "dead", "dead's secret")  # its process died: nobody knows
    want(d, 235, "plain", "bob", "bob's secret")
    # a module that hangs holds up nobody else
    hung = Session(d)
    hung.raw(b"AUTH PLAIN " + base64.b64encode(b"\0slow\0slow's secret") + b"\r\n")
    want(d, 235, "plain", "alice", "alice's secret")
    hung.file.close()
    hung.sock.close()
    pepsi.wait_for("what the module started", lambda: [p for p in pepsi.proc_tree(d.spawner_pid()) if pepsi.proc_comm(p) == "sleep"])
    want(d, 235, "plain", "alice", "alice's secret")
    d.stop()
    d = daemon(t, "BACKENDS = pam\nPAM_SERVICE = %s" % expired)
    pepsi.wait_for("the admin child", lambda: d.status()["ingress"]["signin"]["up"])
    want(d, 535, "plain", "alice", "x")
    pepsi.check(logged(d, "event=signin", "result=disabled"), "the log does not say that it is expired")
    d.stop()
    # a chain: whoever stands in the table has only that password, others are PAM's
    d = daemon(t, "BACKENDS = table pam\nPAM_SERVICE = %s" % service)
    pepsi.wait_for("the admin child", lambda: d.status()["ingress"]["signin"]["up"])
    account(d, "add", "alice", "--password-stdin", stdin=b"from the table\n")
    want(d, 235, "plain", "alice", "from the table")
    want(d, 535, "plain", "alice", "alice's secret")
    want(d, 235, "plain", "bob", "bob's secret")
    want(d, 535, "plain", "bob", "from the table")
    account(d, "add", "bob", "--no-password")
    account(d, "disable", "bob")
    want(d, 535, "plain", "bob", "bob's secret")
    # a listener with some of them: the others are neither announced nor asked there
    def only(now, then):
        with open(d.config) as f:
            text = f.read()
        with open(d.config, "w") as f:
            f.write(text.replace(now, then))
        code, out, err = d.cli("reload")
        pepsi.check(code == 0, "reload: %s%s" % (out, err))
    account(d, "enable", "bob")
    only("PROTOCOL = submissions\n", "PROTOCOL = submissions\nBACKENDS = table\n")
    pepsi.wait_for("the other listener", lambda: attempt(d, "plain", "bob", "bob's secret") == 535)
    want(d, 235, "plain", "alice", "from the table")
    pepsi.check(offers(d, "SCRAM-SHA-256"), "SCRAM of the table is not offered")
    only("BACKENDS = table\n", "BACKENDS = pam\n")
    pepsi.wait_for("the other listener", lambda: not offers(d, "SCRAM-SHA-256"))
    want(d, 235, "plain", "bob", "bob's secret")
    want(d, 535, "plain", "alice", "from the table")
    want(d, 235, "plain", "alice", "alice's secret")


class TokenServer:
    """RFC 7662 on loopback. `tokens`: what it says of which; anything else is not active."""

    def __init__(self, t):
        server = self
        self.tokens, self.asked, self.status = {}, [], 200

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                server.asked.append((self.headers.get("Authorization"), form))
                self.send_response(server.status)
                self.send_header("Content-Type", "application/json")
                if server.status == 302:
                    self.send_header("Location", "http://127.0.0.1:%d/elsewhere" % server.port)
                self.end_headers()
                said = server.tokens.get(form.get("token", [""])[0], {"active": False})
                self.wfile.write(said if isinstance(said, bytes) else json.dumps(said).encode())

            def do_GET(self):
                server.asked.append(("GET", {}))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"active": True, "username": "mallory"}).encode())

            def log_message(self, *args):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        t.cleanup(self.http.server_close)
        t.cleanup(self.http.shutdown)


def introspection(t):
    server = TokenServer(t)
    d = daemon(t, "BACKENDS = oauth\nOAUTH_INTROSPECTION_URL = http://127.0.0.1:%d/introspect\nOAUTH_CLIENT_ID = mail\nOAUTH_CLIENT_SECRET = s:e&c=ret\n"
               "OAUTH_NAME_CLAIM = username\nOAUTH_SCOPE = mail.send\n" % server.port, "AUTH = oauthbearer xoauth2 plain\n")
    up(d, "OAUTHBEARER", "XOAUTH2")
    pepsi.check(not offers(d, "PLAIN"), "PLAIN is offered, and nobody can check passwords")
    good = {"active": True, "username": "Alice", "scope": "openid mail.send", "exp": 4000000000}
    server.tokens = {"a+b/c.~-_==": good, "other": dict(good, username="bob"), "old": dict(good, exp=1000000000), "scope": dict(good, scope="mail"),
                     "html": b"<html>", "long": b"{" + b" " * 100000 + b"}", "noname": {"active": True, "scope": "mail.send"}}
    want(d, 235, "bearer", "alice", "a+b/c.~-_==")
    if not server.asked:
        raise pepsi.Failed("nobody asked the token server: %s" % logged(d, "event=signin")[-1:])
    pepsi.check(server.asked[0] == ("Basic " + base64.b64encode(b"mail:s:e&c=ret").decode(), {"token_type_hint": ["access_token"], "token": ["a+b/c.~-_=="]}),
                "asked: %s" % (server.asked[0],))
    want(d, 235, "bearer", "", "a+b/c.~-_==")
    want(d, 535, "bearer", "alice", "other")  # somebody else's token
    for token in ("old", "scope", "html", "noname", "unknown"):
        want(d, 535, "bearer", "alice", token)
    want(d, 454, "bearer", "alice", "long")
    for status in (401, 500, 302):  # nobody knows; a redirect is not followed
        server.status = status
        want(d, 454, "bearer", "alice", "a+b/c.~-_==")
    pepsi.check(("GET", {}) not in server.asked, "a redirect was followed")
    server.status = 200
    want(d, 235, "bearer", "alice", "a+b/c.~-_==")
    server.http.shutdown()
    server.http.server_close()
    want(d, 454, "bearer", "alice", "a+b/c.~-_==")
    with open(d.log) as f:
        log = f.read()
    pepsi.check("a+b/c" not in log and "e&c=ret" not in log, "the log has a secret")


def configuration(t):
    d = daemon(t, "", start=False)
    with open(d.config) as f:
        text = f.read()
    for lines, fault in (
            ("BACKENDS = tabel", "table"), ("BACKENDS = oauth", "OAUTH_KEYS or OAUTH_INTROSPECTION_URL"), ("BACKENDS =", "BACKENDS"),
            ("BACKENDS = oauth\nOAUTH_KEYS = /x\nOAUTH_ISSUER = i", "OAUTH_AUDIENCE"), ("BACKENDS = oauth\nOAUTH_KEYS = /x\nOAUTH_AUDIENCE = a", "OAUTH_ISSUER"),
            ("BACKENDS = oauth\nOAUTH_INTROSPECTION_URL = http://id.example.test/", "https"),
            ("BACKENDS = oauth\nOAUTH_INTROSPECTION_URL = http://127.0.0.1:80@evil.test/", "@"),
            ("BACKENDS = oauth\nOAUTH_INTROSPECTION_URL = https://a/\nOAUTH_KEYS = /x", "exclude"), ("HASHERS = 0", "HASHERS"),
            ("OAUTH_ALGORITHMS = HS256", "HS256")):
        with open(d.config, "w") as f:
            f.write(text.replace("[pepsi-signin]\n", "[pepsi-signin]\n" + lines + "\n"))
        code, out, err = d.cli("config", "check")
        pepsi.check(code == 1 and fault in out + err and "pepsi.conf:" in out + err, "%s: exit %d: %s%s" % (lines, code, out, err))
    for lines, fault in (("BACKENDS = pam", "pam is not one of BACKENDS in [pepsi-signin]"), ("BACKENDS =", "BACKENDS is empty"), ("BACKENDS = pma", "pma")):
        with open(d.config, "w") as f:
            f.write(text.replace("PROTOCOL = submissions\n", "PROTOCOL = submissions\n" + lines + "\n"))
        code, out, err = d.cli("config", "check")
        pepsi.check(code == 1 and fault in out + err and "pepsi.conf:" in out + err, "listener, %s: exit %d: %s%s" % (lines, code, out, err))


if __name__ == "__main__":
    pepsi.main(__file__, [configuration, dovecot, liars, pam, introspection])
