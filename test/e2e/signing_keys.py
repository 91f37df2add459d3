"""pepsi-keys dkim: keys it makes sign and verify; a rotation waits until the slowest authoritative server tells the new record, and survives being cut off at
any step."""
import json
import os
import re
import subprocess

import authority
import pepsi
import signing


class Site:
    def __init__(self, t):
        self.t = t
        self.keys = signing.Keys(t)
        self.d, self.sink = signing.daemon(t, self.keys, start=False)
        self.folder = os.path.join(self.keys.path, "example.test")

    def run(self, *args, code=0):
        got, out, err = self.d.cli("keys", "dkim", *args)
        pepsi.check(got == code, "keys dkim %s: exit %d: %s%s" % (" ".join(args), got, out, err))
        return out + err

    def json(self, *args):
        return self.d.json("keys", "dkim", *args)

    def states(self):
        return {k["selector"]: k["state"] for k in self.json("list", "example.test")}

    def records(self, server):
        return {k["name"]: k["record"] for k in self.json("dns", "example.test", "--server", server)}

    def serve(self, records):
        return authority.start(self.t, {"example.test": "".join("%s IN TXT %s\n" % (n[:-len(".example.test")], authority.strings(v)) for n, v in records.items())})

    def signs_with(self):
        r = signing.trial(self.d, self.keys, signing.mail())
        return sorted(re.findall(r"selector=(\S+)", signing.said(r)))

    def ring(self, text=None):
        path = os.path.join(self.folder, "keys")
        if text is not None:
            with open(path, "w") as f:
                f.write(text)
        with open(path) as f:
            return f.read()


def made_here(t):
    s = Site(t)
    out = s.run("add", "example.test", "--selector", "s1")
    pepsi.check(re.search(r'(?m)^s1\._domainkey\.example\.test\. IN TXT "[^"]{255}" "[^"]+"$', out), "the record: %s" % out)
    s.run("add", "EXAMPLE.test", "--selector", "s2", "--algorithm", "ed25519")
    pepsi.check("already" in s.run("add", "example.test", "--selector", "s1", code=1), "a selector twice")
    for bad in (["add", "../x"], ["add", "a/b"], ["add", "example.test", "--selector", "../x"], ["add", "example.test", "--selector", ".x"],
                ["add", "example.test", "--algorithm", "rsa1024"], ["add", "example.test", "--algorithm", "dsa"], ["add"], ["dns"], ["frobnicate"],
                ["list", "example.test", "--server", "x"][:2] + ["a", "b"]):
        s.run(*bad, code=2)
    for f in os.listdir(s.folder):
        st = os.stat(os.path.join(s.folder, f))
        pepsi.check(st.st_uid == pepsi.service_account().pw_uid and (not f.endswith(".pem") or st.st_mode & 0o777 == 0o600), "%s: %o of %d" % (f, st.st_mode, st.st_uid))
    pepsi.check(s.states() == {"s1": "active", "s2": "active"}, "states: %s" % s.states())
    nobody = s.serve({})
    pepsi.check([k["dns"] for k in s.json("dns", "example.test", "--server", nobody)] == ["not published"] * 2, "nothing is published")
    records = s.records(nobody)
    both = s.serve(records)
    pepsi.check([k["dns"] for k in s.json("dns", "example.test", "--server", both)] == ["published"] * 2, "both are published")
    pepsi.check("ALARM" in s.run("check", "--server", nobody, code=1), "an active key without a record is no alarm")
    s.d.start()
    got = s.d.status()["signing"]
    pepsi.check(len(got["alarms"]) == 2 and got["checked_at"] and "example.test s1: signs, but" in got["alarms"][0], "status: %s" % got)
    pepsi.check("signing   ALARM example.test s1" in s.d.cli("status")[1], "status: %s" % s.d.cli("status")[1])
    s.run("check", "--server", both)
    pepsi.check(s.d.status()["signing"]["alarms"] == [], "an alarm that is over stays")
    s.d.accept("a@example.test", "b@far.test", signing.mail("made"))
    s.keys.records = records
    signing.check_all(t, s.d, "made", signing.received(s.sink, "made").data, s.keys, 2, both)
    s.d.stop()
    s.run("remove", "example.test", code=2)
    s.run("remove", "example.test", "--selector", "s1")
    pepsi.check(s.states() == {"s2": "active"} and not os.path.exists(os.path.join(s.folder, "s1.pem")), "removed: %s" % s.states())


def changed_in_time(t):
    s = Site(t)
    s.run("add", "example.test", "--selector", "old")
    first = s.serve(s.records(s.serve({})))
    # nobody tells the new record
    out = s.run("rotate", "example.test", "--selector", "new", "--server", first)
    pepsi.check("new._domainkey.example.test. IN TXT" in out and "waits" in out, "rotate: %s" % out)
    pepsi.check(s.states() == {"old": "active", "new": "waiting"} and s.signs_with() == ["old"], "it switched too early: %s" % s.states())
    # one does, the other lags
    second = s.serve(s.records(first))
    out = s.run("check", "example.test", "--server", "%s,%s" % (second, first))
    pepsi.check("%s has no record" % first in out and second not in out, "who lags is not named: %s" % out)
    pepsi.check(s.signs_with() == ["old"], "it switched with a server behind")
    # a second rotate goes on with the first; a wrong record is not ours
    wrong = s.serve(dict(s.records(first), **{"new._domainkey.example.test": "v=DKIM1; k=rsa; p=AAAA"}))
    out = s.run("rotate", "example.test", "--server", "%s,%s" % (second, wrong))
    pepsi.check("under way already" in out and "another record" in out and len(s.states()) == 2, "rotate again: %s" % out)
    # a server that is silent is not one that agrees
    silent = "127.0.0.1:%d" % pepsi.free_port()
    s.run("check", "--server", "%s,%s" % (second, silent))
    pepsi.check(s.states()["new"] == "waiting", "a silent server agreed")
    # both
    third = s.serve(s.records(first))
    out = s.run("check", "--server", "%s,%s" % (second, third))
    pepsi.check(s.states() == {"old": "retired", "new": "active"} and s.signs_with() == ["new"], "no switch: %s" % out)
    both = "%s,%s" % (second, third)
    # the old one stays for the retry lifetime and two days
    for days, state in ((6, "retired"), (8, "revoked")):
        s.ring(re.sub(r"(?m)^(old \S+ retired) \d+", lambda m: "%s %d" % (m.group(1), int(__import__("time").time()) - days * 86400), s.ring()))
        out = s.run("check", "--server", both)
        pepsi.check(s.states()["old"] == state, "after %d days: %s: %s" % (days, s.states(), out))
    pepsi.check(not os.path.exists(os.path.join(s.folder, "old.pem")) and "p=" in out, "the private half: %s" % out)
    # its record is still there; then it is taken back
    s.run("check", "--server", both)
    pepsi.check("old" in s.states(), "forgotten although its record is there")
    last = s.serve({n: v for n, v in s.records(second).items() if n.startswith("new.")})
    s.run("check", "--server", last)
    pepsi.check(s.states() == {"new": "active"} and s.signs_with() == ["new"], "at the end: %s" % s.states())


def cut_off(t):
    s = Site(t)
    s.run("add", "example.test", "--selector", "a")
    # a key whose line was never written, and a file half written
    s.keys.make("example.test", "b")
    with open(os.path.join(s.folder, ".new"), "w") as f:
        f.write("half")
    pepsi.check(s.signs_with() == ["a"], "a key that nobody names signs: %s" % s.signs_with())
    s.run("add", "example.test", "--selector", "b")
    pepsi.check(s.signs_with() == ["a", "b"] and not os.path.exists(os.path.join(s.folder, ".new")), "after the cut: %s" % s.signs_with())
    # revoked, but the file was not taken away
    s.ring(re.sub(r"(?m)^b (\S+) active", r"b \1 revoked", s.ring()))
    told = s.serve({})
    pepsi.check(s.signs_with() == ["a"], "a revoked key signs")
    s.run("check", "--server", told, code=1)
    pepsi.check(not os.path.exists(os.path.join(s.folder, "b.pem")) and s.states() == {"a": "active"}, "what was cut off is not finished: %s" % s.states())
    # a text nobody of ours wrote is not overwritten
    s.ring("a rsa2048 active\n")
    pepsi.check(":1:" in s.run("add", "example.test", code=1) and s.ring() == "a rsa2048 active\n", "a broken ring was taken")


def found_by_itself(t):
    """Without --server: the NS records of the zone, their addresses, port 53, in a network of our own."""
    if not pepsi.ROOT or os.system("unshare -n true 2>/dev/null"):
        raise pepsi.Skip("no network of our own")
    s = Site(t)
    s.run("add", "example.test", "--selector", "k")
    nsd, ip = pepsi.need("nsd"), pepsi.need("ip")
    record = s.json("dns", "example.test", "--server", s.serve({}))[0]["record"]
    zone = "$ORIGIN example.test.\n$TTL 60\n@ IN SOA ns1 root 1 3600 600 86400 30\n@ IN NS ns1\n@ IN NS ns2\nns1 IN A 127.0.0.2\nns2 IN A 127.0.0.3\n%s"
    with_it = "k._domainkey IN TXT %s\n" % authority.strings(record)
    script = ["set -e", ip + " link set lo up"]
    for n, text in ((2, with_it), (3, ""), (4, with_it)):
        folder = os.path.join(t.dir, "ns%d" % n)
        os.mkdir(folder)
        with open(folder + "/zone", "w") as f:
            f.write(zone % text)
        with open(folder + "/conf", "w") as f:
            f.write('server:\n ip-address: 127.0.0.%d@53\n username: ""\n chroot: ""\n zonesdir: "%s"\n database: ""\n pidfile: "%s/pid"\n xfrdfile: "%s/x"\n '
                    'zonelistfile: "%s/z"\n xfrdir: "%s"\n server-count: 1\n rrl-ratelimit: 0\nremote-control:\n control-enable: no\nzone:\n name: example.test\n zonefile: zone\n'
                    % (3 if n == 4 else n, folder, folder, folder, folder, folder))
    conf = s.d.config
    with open(conf) as f:
        text = f.read().replace("SERVERS = 127.0.0.1:9", "SERVERS = 127.0.0.2:53")
    with open(conf, "w") as f:
        f.write(text)
    # until nobody is silent any more
    ask = "for i in $(seq 20); do out=$(%s -c %s --json keys dkim dns example.test); case $out in *'answer'*|*'not known'*) sleep 1 ;; *) break ;; esac; done; echo \"$out\"" % (os.path.join(pepsi.BIN, "pepsi"), conf)
    script += ["%s -d -c %s/ns2/conf >/dev/null 2>&1 & a=$!" % (nsd, t.dir), "%s -d -c %s/ns3/conf >/dev/null 2>&1 & b=$!" % (nsd, t.dir), ask, "kill $b; wait $b || :",
               "%s -d -c %s/ns4/conf >/dev/null 2>&1 & b=$!" % (nsd, t.dir), ask, "kill $a $b; wait"]
    r = subprocess.run(["unshare", "-n", "sh", "-c", "\n".join(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    lines = [json.loads(x)[0] for x in r.stdout.decode().splitlines() if x.startswith("[")]
    pepsi.check([x["dns"] for x in lines] == ["not everywhere", "published"], "found: %r" % r.stdout)
    pepsi.check(lines[0]["why"] == "ns2.example.test has no record", "who lags: %s" % lines[0])


if __name__ == "__main__":
    pepsi.main(__file__, [made_here, changed_in_time, cut_off, found_by_itself])
