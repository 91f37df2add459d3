"""What a stage knows of destinations (modules/common: sts_policies, ratchet_memory, address_health), in a worker, with the fetching child, HTTPS servers
and the database: policies new, changed, renewed, failing while the old one holds, shared between workers, forgotten; the record gone or the DNS silent;
protection that gets weaker; addresses that fail. The stage (test/stages/destinations.c) says what it was told."""
import os
import re

import pepsi
from mta_sts import POLICY, Site, ok

STAGES = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


class Lab(Site):
    def write(self, more):
        stage = "[stage-init]\nPROGRAM = pepsi-stage-destinations\nPARALLELISM = 1\nNEXT_STAGE = end\n[stage-end]\nPROGRAM = pepsi-stage-discard\n"
        self.d.write_config(stage, pepsi="MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules")), more=more)

    def configure(self, t):
        self.write(self.section)

    def ask(self, rcpt):
        """What the stage says about one message's domain."""
        domain = rcpt.split("@")[1]
        before = self.said(domain)
        self.d.accept("sender@example.test", [rcpt], pepsi.message("m%d" % len(before)))
        return pepsi.wait_for("the stage was told about %s" % domain, lambda: (lambda s: s[len(before)] if len(s) > len(before) else None)(self.said(domain)), 60 * pepsi.SLACK)

    def said(self, domain):
        lines = re.findall(r"event=probe domain=%s (.*)" % re.escape(domain), self.log())
        return [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in lines]


def expect(got, **want):
    for key, value in want.items():
        pepsi.check(got.get(key) == str(value), "%s is not %s: %s" % (key, value, got))


def policies(t):
    s = Lab(t)
    s.add("a.test", ident="one")
    s.add("testing.test", answer=ok(POLICY.replace("enforce", "testing") % ("probe.test", "probe.test")))
    s.add("bad.test", answer=ok("no", status="404 Not Found"))
    s.add("cert.test", identity=s.ca.issue("mta-sts.else.test", "DNS:mta-sts.else.test", file="cert"))
    s.add("noise.test", answer=ok("noise\n"))
    s.zone["none.test"] = {"A": ["192.0.2.1"]}
    s.zone["_mta-sts.hole.test"] = {"DO": "servfail"}
    s.dns.zone = dict(s.zone)
    expect(s.ask("x@a.test"), mode="enforce", known=1, n_mx=2, covers=0, id="one", failed=0, unknown=0)
    expect(s.ask("x@testing.test"), mode="testing", known=1, covers=1)
    expect(s.ask("x@bad.test"), mode="none", known=0, failed=1, failure="sts-policy-fetch-error", unknown=0)
    expect(s.ask("x@cert.test"), mode="none", known=0, failed=1, failure="sts-webpki-invalid")
    expect(s.ask("x@noise.test"), mode="none", known=0, failed=1, failure="sts-policy-invalid")
    expect(s.ask("x@none.test"), mode="none", known=0, failed=0, unknown=0)
    expect(s.ask("x@hole.test"), mode="none", known=0, failed=0, unknown=1)
    # known: not fetched again; what failed is not asked again for five minutes
    for _ in range(3):
        expect(s.ask("x@a.test"), mode="enforce", id="one")
        expect(s.ask("x@bad.test"), failed=1, failure="sts-policy-fetch-error")
    pepsi.check(s.web.count("a.test") == 1 and s.web.count("bad.test") == 1, "fetched %d and %d times" % (s.web.count("a.test"), s.web.count("bad.test")))
    # another worker learns it from the table
    s.d.cli("reload")
    expect(s.ask("x@a.test"), mode="enforce", id="one", failed=0)
    pepsi.check(s.web.count("a.test") == 1, "a new worker fetched what stands in the table")
    # the record changes: the new policy is waited for
    s.web.hosts["mta-sts.a.test"] = (s.web.hosts["mta-sts.a.test"][0], ok(POLICY.replace("enforce", "testing") % ("probe.test", "probe.test")))
    s.dns.zone["_mta-sts.a.test"] = {"TXT": ["v=STSv1; id=two"]}
    pepsi.wait_for("the new record is seen", lambda: s.ask("x@a.test")["id"] == "two", 60, 0.5)
    expect(s.ask("x@a.test"), mode="testing", covers=1)
    # … and fails: the old one holds on
    s.web.hosts["mta-sts.a.test"] = (s.web.hosts["mta-sts.a.test"][0], ok("no", status="500 No"))
    s.dns.zone["_mta-sts.a.test"] = {"TXT": ["v=STSv1; id=three"]}
    pepsi.wait_for("the newer record is seen", lambda: s.ask("x@a.test")["failed"] == "1", 60, 0.5)
    expect(s.ask("x@a.test"), mode="testing", known=1, id="two", failed=1, failure="sts-policy-fetch-error")
    # the record goes, the DNS goes: it holds
    s.dns.zone["_mta-sts.a.test"] = {"A": ["192.0.2.1"]}
    pepsi.wait_for("its end is seen", lambda: s.ask("x@a.test") and s.dns.count("_mta-sts.a.test", "TXT") > 3, 60, 0.5)
    expect(s.ask("x@a.test"), mode="testing", known=1, id="two")
    s.dns.zone["_mta-sts.a.test"] = {"DO": "servfail"}
    pepsi.wait_for("the DNS's silence is seen", lambda: s.ask("x@a.test")["unknown"] == "1", 60, 0.5)
    expect(s.ask("x@a.test"), mode="testing", known=1, id="two")
    # forgotten by an operator: a new worker knows nothing
    pepsi.check(s.d.cli("sts", "forget", "a.test")[0] == 0, "forget")
    s.d.cli("reload")
    expect(s.ask("x@a.test"), known=0)
    log = s.log()
    for event in ("sts-policy-new domain=a.test mode=enforce id=one", "sts-policy-changed domain=a.test mode=testing id=two", "sts-policy-failed domain=cert.test result=sts-webpki-invalid"):
        pepsi.check("event=" + event in log, "no line %s" % event)
    # no child: nothing is held against the domain
    s.add("late.test")
    s.dns.zone = dict(s.dns.zone, **{k: v for k, v in s.zone.items() if "late" in k})
    s.write(s.section.replace("FETCH = yes", "FETCH = no"))
    s.d.cli("reload")
    pepsi.wait_for("there is no child", lambda: not s.children(), 60)
    got = s.ask("x@late.test")
    expect(got, known=0, failed=0, unknown=1)
    s.d.stop()


def ratchet(t):
    s = Lab(t)
    for rcpt in ("tls@w.test", "dane@w.test", "dane@w.test", "plain@w.test", "plain@w.test", "tls@w.test", "tls@v.test", "sts-enforce@v.test"):
        s.ask(rcpt)
    log = s.log()
    weaker = re.findall(r"event=destination-weaker domain=(\S+) now=(\S+) best=(\S+)", log)
    pepsi.check(weaker == [("w.test", "plain", "dane")], "warnings: %s" % weaker)
    pepsi.wait_for("it is in the table", lambda: s.d.status()["destinations"]["weaker"] == 1, 60, 0.5)
    rows = s.d.json("sts", "weaker")
    pepsi.check(len(rows) == 1 and rows[0]["domain"] == "w.test" and rows[0]["best"] == "dane" and rows[0]["last"] in ("plain", "tls"), "%s" % rows)
    everyone = {r["domain"]: r for r in s.d.json("sts", "weaker", "--all")}
    pepsi.check(everyone["v.test"]["best"] == "sts-enforce" and not everyone["v.test"]["weaker"], "%s" % everyone)
    # a new worker remembers, and does not warn again
    s.d.cli("reload")
    s.ask("plain@w.test")
    pepsi.check(len(re.findall("event=destination-weaker", s.log())) == 1, "warned again")
    s.ask("dane@w.test")
    pepsi.check(re.search("event=destination-recovered domain=w.test now=dane", s.log()), "no line of its recovery")
    pepsi.wait_for("it is well again", lambda: s.d.status()["destinations"]["weaker"] == 0, 60, 0.5)
    s.d.stop()


def addresses(t):
    s = Lab(t)

    def last():
        # its own line, behind the one that ask() waits for
        pepsi.wait_for("the address", lambda: s.log().count("event=probe-address ") == s.log().count("event=probe domain="))
        return re.findall(r'event=probe-address n=(\d) state=(\S+) wait=(-?\d+) why="(\w*)"', s.log())[-1]
    s.ask("x@mx.test")
    pepsi.check(last()[:2] == ("1", "new"), "%s" % (last(),))
    s.ask("good@mx.test")
    pepsi.check(last()[:2] == ("1", "good"), "%s" % (last(),))
    s.ask("bad@mx.test")
    n, state, wait, why = last()
    pepsi.check((n, state, why) == ("0", "paused", "some") and 25 <= int(wait) <= 40, "%s" % (last(),))
    pepsi.wait_for("it is in the table", lambda: s.d.json("sts", "addresses"), 60, 0.5)
    row = s.d.json("sts", "addresses", "mx.test")[0]
    pepsi.check(row["address"] == "192.0.2.7" and row["failures"] == 1 and row["why"] == 'connection "timed" out' and row["ok"] and row["until"] > row["failed"], "%s" % row)
    pepsi.check(s.d.status()["destinations"]["addresses_failing"] == 1, "status")
    # a new worker begins with what is known
    s.d.cli("reload")
    s.ask("x@mx.test")
    pepsi.check(last()[:2] == ("0", "paused"), "%s" % (last(),))
    s.ask("good@mx.test")
    pepsi.check(last()[:2] == ("1", "good"), "%s" % (last(),))
    pepsi.wait_for("it is well in the table", lambda: s.d.json("sts", "addresses")[0]["failures"] == 0, 60, 0.5)
    pepsi.check(re.search("event=address-ill address=192.0.2.7", s.log()) and re.search("event=address-well address=192.0.2.7", s.log()), "no lines")
    s.d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [policies, ratchet, addresses])
