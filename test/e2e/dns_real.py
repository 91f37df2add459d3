"""The resolver with real servers beside it: nsd as the authority of signed zones (ldns-signzone), unbound as the validating resolver
pepsid asks. All on loopback, as our own processes. What is signed is authenticated, what is broken is a temporary failure, what is
unsigned is neither; TCP, aliases, negative answers and the return of a resolver that was away as they are in life."""
import json
import os
import subprocess

import pepsi

NAMES = ("secure.test", "bogus.test", "plain.test")
ZONE = """$ORIGIN %(name)s.
$TTL 60
@ IN SOA ns root 1 3600 600 86400 30
@ IN NS ns
ns IN A 127.0.0.1
@ IN MX 10 mx
@ IN MX 20 mx2
mx IN A 192.0.2.1
mx2 IN AAAA 2001:db8::2
alias IN CNAME mx
far IN CNAME mx.plain.test.
big IN TXT %(big)s
_25._tcp.mx IN TLSA 3 1 1 %(hex)s
"""


def zone_text(name):
    return ZONE % {"name": name, "big": " ".join('"%s"' % ("x" * 250) for _ in range(20)), "hex": "ab" * 32}


def sign(folder, name, text):
    """The zone's file, signed with a key of its own; the trust anchor."""
    keygen, signzone = pepsi.need("ldns-keygen", "ldns-signzone")
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    r = subprocess.run([keygen, "-k", "-a", "ECDSAP256SHA256", name], cwd=folder, stdout=subprocess.PIPE, check=True)
    key = r.stdout.decode().strip()
    subprocess.run([signzone, "-f", path + ".signed", path, key], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    os.rename(path + ".signed", path)
    with open(os.path.join(folder, key + ".ds")) as f:
        return f.read().split("\t;")[0].strip().replace("\t", " ")


def spoil(folder, name, old, new):
    """What is signed says something else from now on."""
    path = os.path.join(folder, name)
    with open(path) as f:
        text = f.read()
    pepsi.check(old in text, "nothing to break in the zone: %s" % old)
    with open(path, "w") as f:
        f.write(text.replace(old, new))


def make_zones(t, folder):
    """secure.test (signed), bogus.test (signed, then changed), plain.test. The trust anchors of the first two."""
    anchors = [sign(folder, name, zone_text(name)) for name in NAMES[:2]]
    with open(os.path.join(folder, "plain.test"), "w") as f:
        f.write(zone_text("plain.test"))
    spoil(folder, "bogus.test", "192.0.2.1", "192.0.2.66")
    return anchors


def start_nsd(t, folder, port, names=NAMES):
    conf = os.path.join(folder, "nsd.conf")
    with open(conf, "w") as f:
        f.write('server:\n ip-address: 127.0.0.1@%d\n username: ""\n chroot: ""\n zonesdir: "%s"\n database: ""\n pidfile: "%s/nsd.pid"\n'
                ' xfrdfile: "%s/xfrd"\n zonelistfile: "%s/zonelist"\n xfrdir: "%s"\n server-count: 1\nremote-control:\n control-enable: no\n'
                % (port, folder, folder, folder, folder, folder))
        for name in names:
            f.write('zone:\n name: "%s"\n zonefile: "%s"\n' % (name, name))
    return t.popen([pepsi.need("nsd"), "-d", "-c", conf], log=os.path.join(folder, "nsd.log"))


def start_unbound(t, folder, port, nsd, anchors, names=NAMES):
    conf = os.path.join(folder, "unbound-%d.conf" % port)
    with open(conf, "w") as f:
        f.write('server:\n interface: 127.0.0.1\n port: %d\n username: ""\n chroot: ""\n directory: "%s"\n pidfile: "%s/unbound-%d.pid"\n do-daemonize: no\n'
                ' use-syslog: no\n do-not-query-localhost: no\n module-config: "validator iterator"\n num-threads: 1\n val-log-level: 0\n domain-insecure: "plain.test"\n'
                ' local-zone: "test." nodefault\n root-hints: ""\n' % (port, folder, folder, port))
        f.write("".join(' trust-anchor: "%s"\n' % a for a in anchors))
        for name in names:
            f.write("stub-zone:\n name: %s\n stub-addr: 127.0.0.1@%d\n" % (name, nsd))
        f.write('remote-control:\n control-enable: no\n')
    return t.popen([pepsi.need("unbound"), "-d", "-c", conf], log=os.path.join(folder, "unbound.log"))


def laboratory(t):
    pepsi.need("nsd", "unbound")
    folder = os.path.join(t.dir, "names%d" % t.next_number())
    os.mkdir(folder)
    anchors = make_zones(t, folder)
    nsd, first, second = pepsi.free_port(), pepsi.free_port(), pepsi.free_port()
    start_nsd(t, folder, nsd)
    one = start_unbound(t, folder, first, nsd, anchors)
    start_unbound(t, folder, second, nsd, anchors)
    d = pepsi.Pepsid(t, "", start=False)
    d.write_config(pepsi.maildir("init", d.mail) + pepsi.bounce(),
                   more="[pepsi-dns]\nSERVERS = 127.0.0.1:%d 127.0.0.1:%d\nTIMEOUT = 2 s\n" % (first, second))
    return folder, one, (first, second, nsd, anchors), d


def ask(d, name, kind="A"):
    _, out, err = d.cli("--json", "dns", name, kind)
    try:
        return json.loads(out)
    except ValueError:
        raise pepsi.Failed("pepsi dns: %s" % err)


def validated(t):
    folder, one, (first, second, nsd, anchors), d = laboratory(t)
    d.start()

    def ready():
        d.cli("reload")  # what failed before is forgotten after some seconds only
        return ask(d, "ready%d.plain.test" % t.next_number())["status"] == "nxdomain"
    try:
        pepsi.wait_for("unbound and nsd answer", ready, 60, 0.5)
    except pepsi.Failed:
        for name in ("nsd.log", "unbound.log"):
            with open(os.path.join(folder, name), errors="replace") as f:
                pepsi.say("---- %s\n%s" % (name, f.read()[-1500:]))
        raise
    for name, kind, status, ad, records in (
            ("secure.test", "MX", "ok", True, ["10 mx.secure.test", "20 mx2.secure.test"]),
            ("mx.secure.test", "A", "ok", True, ["192.0.2.1"]),
            ("mx2.secure.test", "AAAA", "ok", True, ["2001:db8::2"]),
            ("_25._tcp.mx.secure.test", "TLSA", "ok", True, ["3 1 1 " + "ab" * 32]),
            ("alias.secure.test", "A", "ok", True, ["192.0.2.1"]),
            ("far.secure.test", "A", "ok", False, ["192.0.2.1"]),      # the end of the chain is not signed
            ("mx.secure.test", "TXT", "nodata", True, []),
            ("nothing.secure.test", "A", "nxdomain", True, []),
            ("mx.plain.test", "A", "ok", False, ["192.0.2.1"]),
            ("nothing.plain.test", "A", "nxdomain", False, []),
            ("mx.bogus.test", "A", "tempfail", False, []),            # never "it is not there"
            ("big.secure.test", "TXT", "ok", True, ['"%s"' % ("x" * 5000)])):
        a = ask(d, name, kind)
        pepsi.check((a["status"], a["authenticated"], sorted(a["records"])) == (status, ad, sorted(records)), "%s %s: %s" % (name, kind, str(a)[:400]))
    pepsi.check(ask(d, "mx.bogus.test")["why"] == "SERVFAIL", "why")
    a = ask(d, "nothing.secure.test")
    pepsi.check(a["cached"] and 0 < a["ttl"] <= 30, "the negative answer is kept for the zone's 30 s: %s" % a)
    # the first resolver goes: the second is asked; it comes back: so is the first
    one.terminate()
    one.wait(20)
    for i in range(4):
        a = ask(d, "n%d.plain.test" % i)
        pepsi.check(a["status"] == "nxdomain" and a["server"] == "127.0.0.1:%d" % second, "the second resolver: %s" % a)
    pepsi.check(not d.status()["dns"]["servers"][0]["up"], "the first counts as down")
    start_unbound(t, folder, first, nsd, anchors)
    number = iter(range(100, 100000))
    pepsi.wait_for("the first is asked again", lambda: ask(d, "n%d.plain.test" % next(number)).get("server") == "127.0.0.1:%d" % first, 60, 0.5)
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [validated])
