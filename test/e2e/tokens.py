"""OAuth2 for the smart host stage: a first refresh token, access tokens kept fresh by pepsi-helper-token-refresh, what the provider refuses, what is
told to whom; against an endpoint over HTTPS with an authority of the test's own, and a real Postfix with Dovecot that checks the tokens there."""
import base64
import hashlib
import json
import os
import pwd
import re
import stat
import subprocess
import time
import urllib.parse

import pepsi
from certs import Authority
from providers import USER, Provider, Tokens
from smarthost import log_of, out, reconfigure


def section(tokens, authority, more=""):
    return "[token-office]\nTOKEN_URL = %s\nAUTHORIZE_URL = https://login.example.test/authorize\nCLIENT_ID = us\nSCOPE = mail offline\nCA_FILE = %s\n%s\n" % (tokens.url, authority.cert, more)


class Site:
    def __init__(self, t, more="", start=True, provider=True):
        self.t, self.authority = t, Authority(t)
        self.tokens = Tokens(t, self.authority)
        self.sink = pepsi.Sink(t)
        self.provider = Provider(t, self.sink, self.authority, tokens=self.tokens) if provider else None
        port = self.provider.port if provider else self.sink.port
        self.d = pepsi.Pepsid(t, "", start=False)
        self.d.write_config(out("HOST = 127.0.0.1\nPORT = %d\nTLS_CA_FILE = %s\nAUTH_USER = %s\nAUTH_TOKEN = office" % (port, self.authority.cert, USER)),
                            more=section(self.tokens, self.authority, more))
        if start:
            self.d.start()

    def path(self, kind):
        return os.path.join(self.d.state, "tokens", "office." + kind)

    def add(self, token=None):
        return self.d.cli("token", "add", "office", stdin=(token or self.tokens.refresh).encode() + b"\n")

    def listed(self):
        return [o for o in self.d.json("token", "list") if o["name"] == "office"][0]

    def state(self, **change):
        """Edits the state file, as if time had passed."""
        with open(self.path("state")) as f:
            s = json.load(f)
        s.update(change)
        with open(self.path("state"), "w") as f:
            json.dump(s, f)

    def nothing_told(self, *secrets):
        text = log_of(self.d)
        for s in secrets:
            pepsi.check(s not in text, "a secret is in the log")
        code, said, err = self.d.cli("config", "show")
        pepsi.check(code == 0 and not any(s in said for s in secrets), "a secret is shown")


def from_nothing(t):
    """No token: mail waits and says why. A first one: mail goes. Who may read what; what the tools say."""
    s = Site(t, more="")
    d = s.d
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("waits"))
    pepsi.wait_for("the reason", lambda: "office.access" in (d.queue()[0]["last_error"] or ""), 30)
    pepsi.check("nobody has signed in" in s.listed()["alarm"] and not s.listed()["valid"], "list: %s" % s.listed())
    first = s.tokens.refresh
    code, said, err = s.add()
    pepsi.check(code == 0 and "signed in" in said, "token add: %s%s" % (said, err))
    pepsi.wait_for("the message at the far end", lambda: "waits" in s.sink.tokens(), 60)
    pepsi.check(s.provider.signed_in("OAUTHBEARER") >= 1, "signed in otherwise: %s" % s.provider.log()[-800:])
    form = s.tokens.seen[-1][2]
    pepsi.check(form["grant_type"] == "refresh_token" and form["refresh_token"] == first and form["scope"] == "mail offline", "form: %s" % form)
    modes = {k: stat.S_IMODE(os.stat(s.path(k)).st_mode) for k in ("refresh", "access", "state")}
    pepsi.check(modes == {"refresh": 0o600, "access": 0o640, "state": 0o644}, "modes: %s" % modes)
    if pepsi.ROOT:
        owner = pwd.getpwuid(os.stat(s.path("refresh")).st_uid).pw_name
        pepsi.check(owner != "root", "the tokens belong to root")
    with open(s.path("refresh")) as f:
        pepsi.check(f.read() == s.tokens.refresh != first, "the exchanged refresh token was not kept")
    o = s.listed()
    pepsi.check(o["valid"] and "alarm" not in o and 3000 < o["access_expires"] - time.time() <= 3600, "list: %s" % o)
    pepsi.check([x for x in d.json("status")["tokens"] if x["name"] == "office" and x["valid"]], "status has no token")
    code, said, err = d.cli("status")
    pepsi.check("tokens    1 valid of 1" in said, "status: %s" % said)
    pepsi.check(d.metrics()['pepsi_token_valid{token="office"}'] == 1, "no metric")
    # again by hand
    n = len(s.tokens.seen)
    code, said, err = d.cli("token", "refresh", "office")
    pepsi.check(code == 0 and len(s.tokens.seen) == n + 1, "token refresh: %s%s" % (said, err))
    s.nothing_told(first, s.tokens.refresh, *s.tokens.access)
    code, said, err = d.cli("token", "remove", "office")
    pepsi.check(code == 0 and not os.path.exists(s.path("refresh")) and not os.path.exists(s.path("access")), "token remove: %s" % err)
    code, said, err = d.cli("token", "remove", "office")
    pepsi.check(code == 1, "removed twice")


def kept_fresh(t):
    """By itself, before and after the access token expires; mail that met an expired one waits for the next."""
    s = Site(t)
    d = s.d
    pepsi.check(s.add()[0] == 0, "token add")
    n = len(s.tokens.seen)
    s.state(access_expires=int(time.time()) + 60, refreshed_at=int(time.time()) - 3540)
    pepsi.wait_for("a refresh before the end", lambda: len(s.tokens.seen) == n + 1 and s.listed()["access_expires"] > time.time() + 3000, 40)
    # the provider is out of order when it would be time: mail waits, and says why
    s.tokens.fault = (503, b"<html>later</html>")
    with open(s.path("access"), "w") as f:
        f.write("access_token old\nexpires_at %d\n" % (time.time() - 5))
    s.state(access_expires=int(time.time()) - 5, refreshed_at=int(time.time()) - 3600)
    pepsi.wait_for("the failure", lambda: s.listed().get("error"), 40)
    pepsi.check("HTTP status 503" in s.listed()["error"] and "alarm" in s.listed(), "list: %s" % s.listed())
    d.accept("sender@example.test", ["rcpt@far.test"], pepsi.message("late"))
    pepsi.wait_for("the reason", lambda: "the access token expired at" in (d.queue()[0]["last_error"] or ""), 30)
    s.tokens.fault = None
    pepsi.check(d.cli("token", "refresh", "office")[0] == 0, "token refresh")
    pepsi.wait_for("the message at the far end", lambda: "late" in s.sink.tokens(), 60)
    pepsi.check("alarm" not in s.listed() and "error" not in s.listed(), "list: %s" % s.listed())


def refused(t):
    """Revoked, or near its end: an alarm in status, metrics and log."""
    s = Site(t, provider=False)
    d = s.d
    s.tokens.refresh_life = 90 * 86400
    pepsi.check(s.add()[0] == 0, "token add")
    pepsi.check("alarm" not in s.listed() and s.listed()["refresh_expires"] > time.time() + 89 * 86400, "list: %s" % s.listed())
    s.tokens.refresh_life = 13 * 86400
    pepsi.check(d.cli("token", "refresh", "office")[0] == 0, "token refresh")
    pepsi.check("expires soon" in s.listed()["alarm"], "no alarm two weeks before: %s" % s.listed())
    pepsi.wait_for("the alarm in the log", lambda: "event=token-alarm name=office" in log_of(d) and "expires soon" in log_of(d), 40)
    pepsi.check("ALARM office: it expires soon" in d.cli("status")[1], "status: %s" % d.cli("status")[1])
    m = d.metrics()
    pepsi.check(m['pepsi_token_alarm{token="office"}'] == 1 and m['pepsi_token_valid{token="office"}'] == 1, "metrics: %s" % m)
    s.tokens.dead.add(s.tokens.refresh)
    code, said, err = d.cli("token", "refresh", "office")
    pepsi.check(code == 1 and "invalid_grant: the token was revoked" in err, "token refresh: %s%s" % (said, err))
    o = s.listed()
    pepsi.check(o["refused"] and "sign in anew" in o["alarm"] and o["valid"], "list: %s" % o)
    # a bad token is not put into the place of a good one
    s.tokens.dead.clear()
    with open(s.path("refresh")) as f:
        good = f.read()
    code, said, err = s.add("stolen-token")
    pepsi.check(code == 1 and "invalid_grant" in err and "stolen-token" not in err, "token add: %s%s" % (said, err))
    with open(s.path("refresh")) as f:
        pepsi.check(f.read() == good, "a refused token was kept")
    for bad in ("two words", "\x01", "x" * 7000, ""):
        code, said, err = d.cli("token", "add", "office", stdin=bad.encode() + b"\n")
        pepsi.check(code == 1, "taken: %r" % bad[:20])


def endpoints(t):
    """What an endpoint can do to us."""
    s = Site(t, provider=False)
    d = s.d
    pepsi.check(s.add()[0] == 0, "token add")
    for fault, words in (((302, b""), "HTTP status 302"), ((307, b""), "HTTP status 307"), ((200, b"x" * 100000), "too long|exceeded"), ((200, b"{}"), "no access token"),
                         ((200, b"[1,2]"), "no access token"), ((200, b'{"access_token":"a b","token_type":"Bearer"}'), "no access token"),
                         ((200, b'{"access_token":"a","token_type":"mac"}'), "bearer"), ((200, b'{"access_token":"a","refresh_token":"\\u0001"}'), "cannot be kept"),
                         ((200, b'{"access_token":' + b"[" * 50), "no access token"), ((500, b'{"error":"server_error","error_description":"a\\nb\\u001b[2J"}'), "server_error: a b"),
                         ((400, b"\xff\xfe"), "HTTP status 400")):
        s.tokens.fault = fault
        n = len(s.tokens.seen)
        code, said, err = d.cli("token", "refresh", "office")
        pepsi.check(code == 1 and re.search(words, err), "%s: %s %s%s" % (fault[1][:40], code, said, err))
        pepsi.check(len(s.tokens.seen) == n + 1, "it followed where it was sent")
    s.tokens.fault = None
    with open(s.path("refresh")) as f:
        pepsi.check(f.read() == s.tokens.refresh, "the refresh token was lost")
    # somebody else's certificate
    other = Authority(t, "other")
    reconfigure(d, lambda text: text.replace("CA_FILE = %s\n" % s.authority.cert, "CA_FILE = %s\n" % other.cert, 1) if "[token-office]" in text else text)
    n = len(s.tokens.seen)
    code, said, err = d.cli("token", "refresh", "office")
    pepsi.check(code == 1 and "certificate" in err.lower() and len(s.tokens.seen) == n, "it spoke to a stranger: %s" % err)
    # plain HTTP, and what else the configuration check finds
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write(text.replace("TOKEN_URL = https", "TOKEN_URL = http").replace("CLIENT_ID = us\n", "") + "[token-.x]\nCLIENT_ID = y\n")
    code, said, err = d.cli("config", "check")
    for words in ("TOKEN_URL: wanted is https://", "CLIENT_ID", "AUTH_TOKEN: there is no section [token-office] with a CLIENT_ID", "[token-.x]: the name is a file's",
                  "PROVIDER = google or microsoft", "used by no stage"):
        pepsi.check(code == 1 and words in said + err, "config check does not say %r: %s" % (words, said + err))


def sign_in(t):
    """With a browser somewhere: the code of the address that is pasted, with its verifier, once."""
    s = Site(t, provider=False, start=False, more="CLIENT_SECRET = %s" % "client secret")
    d = s.d

    def run(answer):
        p = subprocess.Popen([os.path.join(pepsi.BIN, "pepsi"), "-c", d.config, "token", "sign-in", "office"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=dict(os.environ, **t.environment))
        said = ""
        while "paste it here" not in said:  # the last line before it waits
            line = p.stdout.readline()
            if not line:
                raise pepsi.Failed("it ended: %s" % p.stderr.read())
            said += line
        url = re.search(r"https://login\.example\.test/authorize\?(\S+)", said).group(1)
        q = {k: v[0] for k, v in urllib.parse.parse_qs(url).items()}
        more, err = p.communicate(answer(q) + "\n", timeout=60 * pepsi.PATIENCE)
        return p.returncode, said + more, err, q
    code, said, err, q = run(lambda q: "http://localhost/?code=the%20code&state=" + urllib.parse.quote(q["state"]))
    pepsi.check(code == 0, "sign-in: %s%s" % (said, err))
    pepsi.check(q["client_id"] == "us" and q["code_challenge_method"] == "S256" and q["scope"] == "mail offline" and q["redirect_uri"] == "http://localhost", "asked: %s" % q)
    form = s.tokens.seen[-1][2]
    pepsi.check(form["grant_type"] == "authorization_code" and form["redirect_uri"] == "http://localhost" and form["client_secret"] == "client secret"
                and len(form["code_verifier"]) >= 43 and form["code_verifier"] not in said, "form: %s" % form)
    want = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
    pepsi.check(q["code_challenge"] == want, "the challenge is not the verifier's")
    pepsi.check(s.listed()["valid"], "list: %s" % s.listed())
    code, said, err, q = run(lambda q: "http://localhost/?code=the%20code&state=forged")
    pepsi.check(code == 1 and "another sign-in" in err, "a forged state was taken: %s" % err)
    code, said, err, q = run(lambda q: "http://localhost/?error=access_denied&state=" + q["state"])
    pepsi.check(code == 1 and "access_denied" in err, "a refusal is not told: %s" % err)
    code, said, err, q = run(lambda q: "http://localhost/?code=wrong&state=" + q["state"])
    pepsi.check(code == 1 and "invalid_grant" in err, "a wrong code: %s" % err)


if __name__ == "__main__":
    pepsi.main(__file__, [from_nothing, kept_fresh, refused, endpoints, sign_in])
