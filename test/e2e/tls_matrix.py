"""How safely mail must go, over relay-to-internet, with a DNS, certificates, policies and exchangers as in life: nsd with a signed zone, unbound that
validates, an HTTPS server of policies, exchangers on loopback addresses. Every combination of what DNSSEC says of the exchanger's certificate (TLSA
records match, do not, are not there, cannot be believed), of what the domain's MTA-STS policy says (enforce, testing, none, it cannot be fetched), and of
what the exchanger does (a certificate that is valid, one that has expired, no TLS): 48 cells, and some more on the borders. What is expected
of each comes from the RFCs, and stands here with its sections."""
import hashlib
import os
import re
import subprocess

import dns_real
import hops
import mta_sts
import pepsi
import promises
import sink
from certs import Authority

DANE, STS, TLS = ("ok", "mismatch", "absent", "bogus"), ("enforce", "testing", "none", "error"), ("ok", "expired", "none")
# What becomes of mail: it goes within TLS to a host that is proved (and by what), within TLS to anybody, in plain text; or it waits, and not a
# word of it is said.
BY_DANE, BY_STS, TO_ANYBODY, PLAIN, WAITS = "dane", "mta-sts", "no", "plain", "waits"
EXPECTED = {}


def expect(dane, sts, ok, expired, none, why):
    for one in sts.split():
        EXPECTED.update({(dane, one, "ok"): (ok, why), (dane, one, "expired"): (expired, why), (dane, one, "none"): (none, why)})


expect("ok", "enforce testing none error", BY_DANE, BY_DANE, WAITS,
       "RFC 7672 2.2: usable TLSA records make TLS and a match mandatory; 3.1.1: with 3 1 1 dates and names are not looked at. RFC 8461 2: MTA-STS is not to "
       "interfere with DANE where both are there")
expect("mismatch", "enforce testing none error", WAITS, WAITS, WAITS,
       "RFC 7672 2.2: without a match mail is not delivered by that host; RFC 8461 2: a policy that is met never overrides a DANE validation that failed")
expect("bogus", "enforce testing none error", WAITS, WAITS, WAITS,
       "RFC 7672 2.1.2: when the lookup of TLSA records fails the host is not to be used, or an attacker who makes it fail would take TLS away; RFC 8461 2")
expect("absent", "enforce", BY_STS, WAITS, WAITS,
       "RFC 8461 5: with enforce mail is not delivered to hosts that fail validation; 4.2: TLS and a valid certificate; RFC 7672 2.1.1: validated "
       "denial of TLSA records is no DANE")
expect("absent", "testing", TO_ANYBODY, TO_ANYBODY, PLAIN, "RFC 8461 5: with testing failures are told in reports, mail is delivered as without a policy")
expect("absent", "none", TO_ANYBODY, TO_ANYBODY, PLAIN, "RFC 7435 3, RFC 3207: TLS where it is offered, whoever the other one is, else plain text")
expect("absent", "error", TO_ANYBODY, TO_ANYBODY, PLAIN, "RFC 8461 3.3: a policy that was never had and cannot be fetched is none: mail is delivered as without it")

ZONE = "lab.test"
HEAD = "$ORIGIN %s.\n$TTL 60\n@ IN SOA ns root 1 3600 600 86400 30\n@ IN NS ns\nns IN A 127.0.0.1\n"
OTHER = "ab" * 32


class Cell:
    def __init__(self, name, dane, sts, tls, zone=ZONE, outcome=None, why="", header=""):
        self.name, self.dane, self.sts, self.tls, self.zone, self.header = name, dane, sts, tls, zone, header
        self.good = None   # a second exchanger, that is as it should be
        self.outcome, self.why = EXPECTED[dane, sts, tls] if outcome is None else (outcome, why)
        self.domain, self.host = "%s.%s" % (name, zone), "mx.%s.%s" % (name, zone)
        self.rcpt = "someone@" + self.domain


def spki(cert):
    """SHA-256 of a certificate's public key, for TLSA records 3 1 1 and 2 1 1."""
    key = subprocess.run(["openssl", "x509", "-in", cert, "-pubkey", "-noout"], stdout=subprocess.PIPE, check=True).stdout
    return hashlib.sha256(subprocess.run(["openssl", "pkey", "-pubin", "-outform", "DER"], input=key, stdout=subprocess.PIPE, check=True).stdout).hexdigest()


def more_cells():
    """Beyond the 48: what lies on their borders."""
    return [
        Cell("unsigned", "mismatch", "none", "expired", "plain.test", TO_ANYBODY, "RFC 7672 2.1.1: TLSA records that are not validated are none"),
        Cell("unusable", "unusable", "none", "expired", outcome=TO_ANYBODY, why="RFC 7672 2.2: records, none of them usable: TLS is mandatory, the certificate is not looked at"),
        Cell("unusable-none", "unusable", "none", "none", outcome=WAITS, why="RFC 7672 2.2: records, none of them usable: TLS is mandatory"),
        Cell("authority", "ta", "none", "ok", outcome=BY_DANE, why="RFC 7672 3.1.2: 2 1 1 names the authority"),
        Cell("authority-expired", "ta", "none", "expired", outcome=WAITS, why="RFC 7672 3.1.2: with usage 2 the dates count"),
        Cell("not-named", "absent", "other", "ok", outcome=WAITS, why="RFC 8461 4.1: the host is not named by the policy"),
        Cell("not-named-testing", "absent", "other-testing", "ok", outcome=TO_ANYBODY, why="RFC 8461 5: testing"),
        Cell("policy-none", "absent", "mode-none", "none", outcome=PLAIN, why="RFC 8461 5: mode none is no active policy"),
        Cell("policy-broken", "absent", "broken", "none", outcome=PLAIN, why="RFC 8461 3.3: what cannot be read is no policy"),
        Cell("policy-stranger", "absent", "stranger", "none", outcome=PLAIN, why="RFC 8461 3.3: what comes from a server without a valid certificate is no policy"),
        Cell("other-name", "absent", "enforce", "name", outcome=WAITS, why="RFC 8461 4.2: the certificate must be valid for the host's name"),
        Cell("other-name-dane", "ok", "enforce", "name", outcome=BY_DANE, why="RFC 7672 3.1.1: with 3 1 1 names are not looked at"),
        Cell("second", "mismatch", "none", "ok", outcome=BY_DANE, why="RFC 7672 2.2: the next exchanger, whose records match"),
        Cell("second-bogus", "bogus", "none", "ok", outcome=BY_DANE, why="RFC 7672 2.1.2: the host is skipped, not the domain"),
        Cell("optional", "mismatch", "enforce", "expired", outcome=TO_ANYBODY, why="RFC 8689 4.3: TLS-Required: No of the message", header="TLS-Required: No\r\n"),
    ]


class Laboratory:
    def __init__(self, t):
        pepsi.need("nsd", "unbound", "openssl", "ldns-keygen", "ldns-signzone")
        self.t, self.port = t, pepsi.free_port()
        self.cells = [Cell("-".join(c), *c) for c in ((d, s, x) for d in DANE for s in STS for x in TLS)] + more_cells()
        self.ca = Authority(t)
        os.chmod(self.ca.cert, 0o644)
        # the chain has the authority's own certificate, for 2 1 1
        san = ",".join("DNS:" + c.host for c in self.cells)
        self.stranger = Authority(t, "stranger").issue("stranger", "DNS:mta-sts.policy-stranger." + ZONE)
        self.pairs = {"ok": self.ca.issue("exchanger", san), "expired": self.ca.issue("exchanger", san, days=-1, file="expired"), "none": None,
                      "name": self.ca.issue("other.example", "DNS:other.example")}
        for pair in [p for p in self.pairs.values() if p]:
            with open(self.ca.cert) as ca, open(pair[0], "a") as f:
                f.write(ca.read())
        self.web = mta_sts.Web(t, self.ca)
        self.identity = self.ca.issue("policies", ",".join("DNS:mta-sts." + c.domain for c in self.cells))
        self.sinks = {}
        records = {ZONE: "", "plain.test": ""}
        for n, c in enumerate(self.cells):
            records[c.zone] += self.records(c, "127.40.%d.%d" % (n // 100, n % 100 + 1))
        self.back = sink.Scripted(t, address="127.40.9.1", port=self.port)
        records["plain.test"] += "back IN MX 10 mx.back\nmx.back IN A 127.40.9.1\n"
        self.folder = os.path.join(t.dir, "zones%d" % t.next_number())
        os.mkdir(self.folder)
        anchor = dns_real.sign(self.folder, ZONE, HEAD % ZONE + records[ZONE])
        for c in self.cells:
            if c.dane == "bogus":
                dns_real.spoil(self.folder, ZONE, "3 1 1 " + self.bogus(c), "3 1 1 " + OTHER)
        with open(os.path.join(self.folder, "plain.test"), "w") as f:
            f.write(HEAD % "plain.test" + records["plain.test"])
        nsd, port = pepsi.free_port(), pepsi.free_port()
        dns_real.start_nsd(t, self.folder, nsd, (ZONE, "plain.test"))
        dns_real.start_unbound(t, self.folder, port, nsd, [anchor], (ZONE, "plain.test"))
        stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nTLS_CA_FILE = %s\nPARALLELISM = 1\nQUEUE_LIMIT = 1000\n"
                 "RETRY_MIN = 2 s\nRETRY_MAX = 2 s\nIDLE_TIMEOUT = 0 s\nBOUNCE_STAGE = bounce\n" % (self.port, self.ca.cert))
        more = ("[pepsi-dns]\nSERVERS = 127.0.0.1:%d\nTIMEOUT = 5 s\n[pepsi-mta-sts]\nCA_FILE = %s\nPORT = %d\nALLOW_NETWORKS = 127.0.0.0/8\n"
                % (port, self.ca.cert, self.web.port))
        # for those who ask for REQUIRETLS
        self.d = pepsi.Pepsid(t, stage + pepsi.bounce(), more=more, listener="TLS_CERT = %s\nTLS_KEY = %s\n" % self.ca.issue("mx.example.test", "DNS:mx.example.test"))

    @staticmethod
    def bogus(c):
        return hashlib.sha256(c.name.encode()).hexdigest()

    def records(self, c, address):
        self.sinks[c.name] = sink.Scripted(self.t, address=address, port=self.port, tls=self.pairs[c.tls])
        text = "%s IN MX 10 mx.%s\nmx.%s IN A %s\n" % (c.name, c.name, c.name, address)
        if c.name.startswith("second"):  # the one it goes to in the end
            c.good = sink.Scripted(self.t, address=address.replace("127.40", "127.41"), port=self.port, tls=self.pairs["ok"])
            text += ("%s IN MX 20 mx2.%s\nmx2.%s IN A %s\n_%d._tcp.mx2.%s IN TLSA 3 1 1 %s\n"
                     % (c.name, c.name, c.name, c.good.address, self.port, c.name, spki(self.pairs["ok"][0])))
        match = spki((self.pairs[c.tls] or self.pairs["ok"])[0])
        tlsa = {"ok": "3 1 1 " + match, "mismatch": "3 1 1 " + OTHER, "bogus": "3 1 1 " + self.bogus(c), "unusable": "3 1 9 " + match,
                "ta": "2 1 1 " + spki(self.ca.cert), "absent": None}[c.dane]
        if tlsa:
            text += "_%d._tcp.mx.%s IN TLSA %s\n" % (self.port, c.name, tlsa)
        if c.sts != "none":
            text += "_mta-sts.%s IN TXT \"v=STSv1; id=20261130;\"\nmta-sts.%s IN A 127.0.0.1\n" % (c.name, c.name)
            named, mode = ("other.example" if "other" in c.sts else c.host), "testing" if "testing" in c.sts else "none" if c.sts == "mode-none" else "enforce"
            body = "versions" if c.sts == "broken" else "version: STSv1\nmode: %s\nmx: %s\nmax_age: 86400\n" % (mode, named)
            answer = mta_sts.ok("gone", status="500 Internal Server Error") if c.sts == "error" else mta_sts.ok(body)
            self.web.add(c.domain, answer, self.stranger if c.sts == "stranger" else self.identity)
        return text

    def log(self):
        with open(self.d.log, errors="replace") as f:
            return f.read()

    def submit(self, c, token):
        data = pepsi.message(token, sender=hops.SENDER, rcpt=c.rcpt)
        c.id = self.d.accept("sender@back.plain.test", c.rcpt, c.header.encode() + data)

    def decided(self, c, token, rows):
        return (c.good or self.sinks[c.name]).taken(token)[0] or not c.good and (rows.get(c.id) or {}).get("last_error")

    def problem(self, c, token, rows):
        """What is wrong, or nothing."""
        s, row = c.good or self.sinks[c.name], rows.get(c.id)
        host = c.host.replace("mx.", "mx2.", 1) if c.good else c.host
        if c.good and self.sinks[c.name].messages:
            return "the first exchanger has it"
        plain = [x for x in s.seen for line in x.said[False] if re.match("(?i)(MAIL|RCPT|DATA|BDAT)", line)]
        inside = [x for x in s.seen for line in x.said[True] if re.match("(?i)(MAIL|RCPT|DATA|BDAT)", line)]
        took = [m for m in s.messages if m.token == token]
        line = re.findall(r"id=%s .*relayed to=<%s>.*" % (c.id, re.escape(c.rcpt)), self.log())
        if c.outcome == WAITS:
            if took or plain or inside:
                return "mail was said: %s" % [x.said for x in s.seen]
            if c.dane == "bogus" and s.seen:
                return "it was connected to"
            return None if row and row["stage"] == "init" and row["status"] in ("paused", "pending", "running") else "it does not wait: %s" % row
        if not took:
            return "it was not delivered: %s, %s" % (row and row["last_error"], [(x.said, x.why) for x in s.seen])
        if c.outcome == PLAIN:
            return None if not took[0].tls else "within TLS"
        if not took[0].tls or plain:
            return "in plain text: %s" % [x.said for x in s.seen]
        if took[0].connection.sni != host:
            return "the name asked for (SNI): %s" % took[0].connection.sni
        told = re.search(r"verified=(\S+) ", line[0]).group(1) if line else None
        # whose certificate happens to be valid although nobody demands it is told as pkix
        if told not in ((c.outcome, "pkix") if c.outcome == TO_ANYBODY and c.tls == "ok" else (c.outcome,)):
            return "not verified by %s: %s" % (c.outcome, line)
        return None


def names(lab):
    """The DNS and its validation are what the cells need."""
    pepsi.wait_for("nsd and unbound answer", lambda: lab.d.cli("reload") and dns_real.ask(lab.d, "ready%d.plain.test" % lab.t.next_number())["status"] == "nxdomain", 60, 0.5)
    for c in [c for c in lab.cells if c.tls == "ok" or c.zone != ZONE or "unusable" in c.name]:
        a = dns_real.ask(lab.d, c.domain, "MX")
        pepsi.check((a["status"], a["authenticated"], sorted(a["records"])) == ("ok", c.zone == ZONE, ["10 " + c.host] + ["20 mx2." + c.domain] * bool(c.good)), "%s MX: %s" % (c.name, a))
        a = dns_real.ask(lab.d, "_%d._tcp.%s" % (lab.port, c.host), "TLSA")
        status = {"absent": ("nxdomain", True), "bogus": ("tempfail", False)}.get(c.dane, ("ok", c.zone == ZONE))
        pepsi.check((a["status"], a["authenticated"]) == status, "%s TLSA: %s" % (c.name, a))
        a = dns_real.ask(lab.d, "_mta-sts." + c.domain, "TXT")
        pepsi.check(a["status"] == ("nxdomain" if c.sts == "none" else "ok"), "%s TXT: %s" % (c.name, a))


def run(lab, cells, wave):
    token = lambda c: "%s-%s" % (c.name, wave)
    for c in cells:
        lab.submit(c, token(c))

    def look():
        rows = {str(r["id"]): r for r in lab.d.queue()}
        return rows if all(lab.decided(c, token(c), rows) for c in cells) else None
    rows = pepsi.wait_for("something becomes of each", look, 60, 0.3)
    wrong = [(c, lab.problem(c, token(c), rows)) for c in cells]
    wrong = ["%s: expected %s, since %s: %s" % (c.name, c.outcome, c.why, p) for c, p in wrong if p]
    pepsi.check(not wrong, "%d of %d cells:\n  %s" % (len(wrong), len(cells), "\n  ".join(wrong)))


def requiretls(lab):
    """RFC 8689: REQUIRETLS goes along to a host that promises it within TLS, shows a certificate that is valid or named by its TLSA records, and was found by a
    way that is authenticated; nobody else gets the message."""
    here = {c.name: c for c in lab.cells}
    for name, promise, outcome in (("ok-none-ok", True, "verified=dane"), ("ok-none-expired", True, "verified=dane"), ("absent-none-ok", True, "verified=pkix"),
                                   ("absent-testing-ok", False, "5.7.30"), ("absent-none-none", True, "5.7.10"), ("unsigned", True, "waits"),
                                   ("absent-none-expired", True, "waits"), ("mismatch-none-ok", True, "waits")):
        c, token = here[name], "requiretls-" + name
        s = lab.sinks[name]
        s.tls_extensions = ["PIPELINING", "8BITMIME"] + ["REQUIRETLS"] * promise
        client = pepsi.Smtp(lab.d.port)
        promises.starttls(client)
        code, text = client.send("sender@back.plain.test", [c.rcpt], pepsi.message(token, sender=hops.SENDER, rcpt=c.rcpt), "REQUIRETLS")
        client.close()
        pepsi.check(code == 250, text)
        ident = text.rsplit(" ", 1)[1].strip()
        if outcome.startswith("verified"):
            m = pepsi.wait_for(token, lambda: [m for m in s.messages if m.token == token], 30)[0]
            line = pepsi.wait_for("its line", lambda: re.findall(r"id=%s .*relayed to=.*" % ident, lab.log()), 20)[0]
            pepsi.check(m.tls and "REQUIRETLS" in m.mail_params and outcome in line, "%s: %s %s" % (token, m.mail_params, line))
        elif outcome == "waits":
            pepsi.wait_for("%s waits" % token, lambda: [q for q in lab.d.queue() if str(q["id"]) == ident and q["last_error"]], 30)
        else:
            text = pepsi.wait_for("a report about " + token, lambda: [m for m in list(lab.back.messages) if token.encode() in m.data], 40)[0].data.decode("utf-8", "replace")
            pepsi.check("Status: " + outcome in text and "all work and no play" not in text, text)
        pepsi.check(outcome.startswith("verified") or token not in [m.token for m in s.messages], token + " was sent")
        s.tls_extensions = None


def matrix(t):
    lab = Laboratory(t)
    names(lab)
    run(lab, lab.cells, "a")
    by = {}
    for c in lab.cells:
        by[c.outcome] = by.get(c.outcome, 0) + 1
    pepsi.say("      %d cells: %s" % (len(lab.cells), ", ".join("%s %d" % x for x in sorted(by.items()))))
    # again, with all that is known by now: the same; those that waited were tried again meanwhile
    pepsi.wait_for("who waits is tried again", lambda: not [c for c in lab.cells if c.outcome == WAITS and lab.log().count("id=%s stage=init deferred" % c.id) < 2], 30, 0.3)
    stripped = [c for c in lab.cells if (c.dane, c.sts, c.tls) == ("absent", "enforce", "ok")]
    # whoever takes away the policy's server, and TLS with it, gains nothing (RFC 8461 3.3, 10.2): it holds until its time is over
    for c in stripped:
        lab.web.add(c.domain, mta_sts.ok("gone", status="404 Not Found"), lab.identity)
        lab.sinks[c.name].tls = None
        lab.sinks[c.name].seen.clear()
        c.outcome, c.why = WAITS, "RFC 8461 3.3: a cached policy holds when its server is gone"
    requiretls(lab)
    run(lab, stripped + [c for c in lab.cells if c.outcome not in (WAITS,)][::5], "b")
    lab.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [matrix])
