"""A mail provider on loopback for tests of the smart host stage: a real Postfix that relays for those who sign in, a Dovecot that knows their
passwords and asks for their tokens, and a server that gives tokens out (OAuth2, HTTPS). A module; no test by itself."""
import base64
import http.server
import json
import os
import ssl
import threading
import time
import urllib.parse

import pepsi
from certs import Authority
from peers import Postfix, listens

USER, PASSWORD = "alice@example.test", "one secret, with a blank"


class Tokens:
    """The token endpoint. `fault`: (status, object or octets) to answer with; `seen`: the forms it got. A refresh token may be exchanged (`rotate`),
    is dead when it is in `dead`. /info tells Dovecot whose an access token is."""

    def __init__(self, t, authority, life=3600, port=0):
        tokens = self
        self.life, self.fault, self.seen, self.rotate, self.dead = life, None, [], True, set()
        self.refresh, self.access, self.n, self.secret = "first/refresh+token==", {}, 0, "client secret"
        self.refresh_life = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, what):
                what = what if isinstance(what, bytes) else json.dumps(what).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status in (302, 307):
                    self.send_header("Location", "https://127.0.0.1:%d/elsewhere" % tokens.port)
                self.send_header("Content-Length", str(len(what)))
                self.end_headers()
                self.wfile.write(what)

            def do_POST(self):
                form = {k: v[0] for k, v in urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode(), keep_blank_values=True).items()}
                tokens.seen.append((self.path, dict(self.headers), form))
                if tokens.fault:
                    self.answer(*tokens.fault)
                elif form.get("grant_type") == "authorization_code":
                    if form.get("code") != "the code" or not form.get("code_verifier"):
                        return self.answer(400, {"error": "invalid_grant"})
                    self.answer(200, tokens.give())
                elif form.get("grant_type") != "refresh_token" or form.get("client_id") != "us":
                    self.answer(401, {"error": "invalid_client"})
                elif form.get("client_secret", tokens.secret) != tokens.secret:
                    self.answer(401, {"error": "invalid_client", "error_description": "no"})
                elif form.get("refresh_token") != tokens.refresh or tokens.refresh in tokens.dead:
                    self.answer(400, {"error": "invalid_grant", "error_description": "the token was revoked"})
                else:
                    self.answer(200, tokens.give())

            def do_GET(self):
                url = urllib.parse.urlparse(self.path)
                token = urllib.parse.parse_qs(url.query).get("access_token", [""])[0]
                if url.path != "/info" or tokens.access.get(token, 0) < time.time():
                    return self.answer(400, {"error": "invalid_token"})
                self.answer(200, {"email": USER, "active": True})

            def log_message(self, *args):
                pass

        cert, key = authority.issue("tokens.example.test", "IP:127.0.0.1,DNS:tokens.example.test")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.https = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.https.socket = context.wrap_socket(self.https.socket, server_side=True)
        self.port = self.https.server_address[1]
        self.plain = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)  # for Dovecot, which is not under test
        for s in (self.https, self.plain):
            threading.Thread(target=s.serve_forever, daemon=True).start()
            t.cleanup(s.server_close)
            t.cleanup(s.shutdown)
        self.url = "https://127.0.0.1:%d/token" % self.port
        self.info = "http://127.0.0.1:%d/info?access_token=" % self.plain.server_address[1]

    def give(self):
        self.n += 1
        token = "access-%d-%s" % (self.n, base64.urlsafe_b64encode(os.urandom(24)).decode())
        self.access[token] = time.time() + self.life
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.life}
        if self.rotate:
            self.refresh = "refresh-%d/+==" % self.n
            answer["refresh_token"] = self.refresh
        if self.refresh_life:
            answer["refresh_token_expires_in"] = self.refresh_life
        return answer


class Provider:
    """Takes mail from USER for anywhere and hands it to `sink`. Ports: .port (STARTTLS), .implicit (TLS from the start)."""

    def __init__(self, t, sink, authority=None, mechanisms="plain login scram-sha-256 xoauth2 oauthbearer", tokens=None, name="smtp.provider.test"):
        self.t, self.authority = t, authority or Authority(t)
        self.tokens = tokens or Tokens(t, self.authority)
        self.cert, self.key = self.authority.issue(name, "IP:127.0.0.1,DNS:%s" % name)
        self.auth = self.dovecot(mechanisms)
        self.implicit = pepsi.free_port()
        self.postfix = Postfix(t, services="127.0.0.1:%d inet n - n - - smtpd\n  -o smtpd_tls_wrappermode=yes\n" % self.implicit, more="smtpd_tls_security_level = may\nsmtpd_tls_cert_file = %s\nsmtpd_tls_key_file = %s\nsmtpd_tls_auth_only = yes\nsmtpd_tls_loglevel = 1\n"
                                  "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = %s\nsmtpd_sasl_security_options = noanonymous\n"
                                  "smtpd_relay_restrictions = permit_sasl_authenticated, reject\nsmtpd_recipient_restrictions =\nsmtpd_error_sleep_time = 0\n"
                                  "relayhost = [127.0.0.1]:%d\n" % (self.cert, self.key, self.auth, sink.port))
        self.port = self.postfix.port
        pepsi.wait_for("the port with TLS from the start", lambda: listens(self.implicit), 20)

    def dovecot(self, mechanisms):
        program = pepsi.need("dovecot")
        folder = os.path.join(self.t.dir, "auth%d" % self.t.next_number())
        os.makedirs(folder)
        with open(os.path.join(folder, "users"), "w") as f:
            f.write("%s:{PLAIN}%s\n" % (USER, PASSWORD))
        with open(os.path.join(folder, "oauth2"), "w") as f:
            f.write("tokeninfo_url = %s\nusername_attribute = email\nactive_attribute = active\nactive_value = true\n" % self.tokens.info)
        with open(os.path.join(folder, "dovecot.conf"), "w") as f:
            f.write("base_dir = %(d)s/run\nstate_dir = %(d)s/state\nlog_path = %(d)s/log\nprotocols =\nlisten = 127.0.0.1\nssl = no\nauth_mechanisms = %(m)s\n"
                    "auth_failure_delay = 0\nfirst_valid_uid = 1\ndisable_plaintext_auth = no\n"
                    "passdb {\n  driver = oauth2\n  mechanisms = xoauth2 oauthbearer\n  args = %(d)s/oauth2\n}\n"
                    "passdb {\n  driver = passwd-file\n  mechanisms = plain login scram-sha-256\n  args = username_format=%%u %(d)s/users\n}\n"
                    "service auth {\n  unix_listener %(d)s/auth {\n    mode = 0666\n  }\n}\nservice anvil {\n  chroot =\n}\nservice stats {\n  chroot =\n}\n"
                    % dict(d=folder, m=mechanisms))
        process = self.t.popen([program, "-F", "-c", os.path.join(folder, "dovecot.conf")], os.path.join(folder, "out"))
        self.dovecot_log = os.path.join(folder, "log")
        pepsi.wait_for("Dovecot's auth socket", lambda: os.path.exists(os.path.join(folder, "auth")) or process.poll() is not None, 20)
        pepsi.check(process.poll() is None, "Dovecot ended: %s" % open(self.dovecot_log, errors="replace").read()[-1500:] if os.path.exists(self.dovecot_log) else "no log")
        return os.path.join(folder, "auth")

    def log(self):
        with open(self.postfix.path("log"), errors="replace") as f:
            return f.read()

    def signed_in(self, mechanism):
        return self.log().count("sasl_method=%s, sasl_username=%s" % (mechanism, USER))
