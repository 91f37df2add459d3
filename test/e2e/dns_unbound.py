"""[pepsi-dns] BACKEND = libunbound: pepsid's own validating child instead of a resolver. nsd is the authority of signed zones (dns_real.py), the
trust anchors are the test's. What is signed is authenticated, what is broken is a temporary failure, what is unsigned is neither; the child may
die at any time; workers and tools ask it, too; a reload changes to servers and back."""
import json
import os
import re
import signal
import subprocess
import threading
import time

import dns_real
import dnslab
import pepsi

STAGES = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")


def children(d, name="pepsi-recursor"):
    return [p for p in pepsi.proc_tree(d.process.pid) if pepsi.proc_comm(p) == name]


def laboratory(t, more_conf="", stages=None, more=""):
    pepsi.need("nsd")
    folder = os.path.join(t.dir, "names%d" % t.next_number())
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    anchors = dns_real.make_zones(t, folder)
    nsd = pepsi.free_port()
    dns_real.start_nsd(t, folder, nsd)
    anchor, conf = os.path.join(folder, "anchors"), os.path.join(folder, "unbound.conf")
    with open(anchor, "w") as f:
        f.write("".join(a + "\n" for a in anchors))
    with open(conf, "w") as f:
        f.write('server:\n do-not-query-localhost: no\n domain-insecure: "plain.test"\n local-zone: "test." nodefault\n' + more_conf)
        for name in ("secure.test", "bogus.test", "plain.test"):
            f.write("stub-zone:\n name: %s\n stub-addr: 127.0.0.1@%d\n" % (name, nsd))
    for path in (anchor, conf):
        os.chmod(path, 0o644)
    d = pepsi.Pepsid(t, "", start=False)
    section = "[pepsi-dns]\nBACKEND = libunbound\nTRUST_ANCHOR = %s\nUNBOUND_CONFIG = %s\nLOOKUP_DEADLINE = 3 s\n" % (anchor, conf)
    path = "MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))
    d.write_config((stages or pepsi.maildir("init", "@MAIL@") + pepsi.bounce()).replace("@MAIL@", d.mail), pepsi=path, more=section + more)
    return d, section, nsd


def begin(t, d):
    d.start()
    if "built without libunbound" in open(d.log).read():
        raise pepsi.Skip("built without libunbound")
    pepsi.wait_for("nsd and the child answer", lambda: d.cli("reload") and dns_real.ask(d, "ready%d.plain.test" % t.next_number())["status"] == "nxdomain", 60, 0.5)


def log_of(d):
    with open(d.log, errors="replace") as f:
        return f.read()


def validated(t):
    d, _, _ = laboratory(t)
    begin(t, d)
    for name, kind, status, ad, records in (
            ("secure.test", "MX", "ok", True, ["10 mx.secure.test", "20 mx2.secure.test"]),
            ("mx.secure.test", "A", "ok", True, ["192.0.2.1"]),
            ("MX2.Secure.test", "AAAA", "ok", True, ["2001:db8::2"]),
            ("_25._tcp.mx.secure.test", "TLSA", "ok", True, ["3 1 1 " + "ab" * 32]),
            ("alias.secure.test", "A", "ok", True, ["192.0.2.1"]),
            ("far.secure.test", "A", "ok", False, ["192.0.2.1"]),
            ("mx.secure.test", "TXT", "nodata", True, []),
            ("nothing.secure.test", "A", "nxdomain", True, []),
            ("mx.plain.test", "A", "ok", False, ["192.0.2.1"]),
            ("nothing.plain.test", "A", "nxdomain", False, []),
            ("mx.bogus.test", "A", "tempfail", False, []),
            ("big.secure.test", "TXT", "ok", True, ['"%s"' % ("x" * 5000)])):
        a = dns_real.ask(d, name, kind)
        pepsi.check((a["status"], a["authenticated"], sorted(a["records"])) == (status, ad, sorted(records)), "%s %s: %s" % (name, kind, str(a)[:400]))
        pepsi.check(a["status"] == "tempfail" or a["server"] == "libunbound", "by whom: %s" % a)
    pepsi.check(dns_real.ask(d, "mx.bogus.test")["why"] == "SERVFAIL", "why")
    pepsi.check(re.search(r"event=dns-bogus name=\S*mx\.bogus\.test", log_of(d)), "no line about the bogus answer")
    status = d.status()["dns"]
    pepsi.check(status["source"] == "libunbound" and status["servers"][0]["up"] and status["servers"][0]["trusted"], "status: %s" % status)
    pepsi.check("libunbound" in d.cli("status")[1], "pepsi status: %s" % d.cli("status")[1])
    text = d.http_get("/metrics")[1]
    text = text.decode() if isinstance(text, bytes) else text
    pepsi.check(re.search(r'pepsi_dns_queries_total\{server="libunbound"\} [1-9]', text) and re.search(r"pepsi_dns_authenticated_total [1-9]", text), "metrics")
    if pepsi.ROOT:
        uid = pepsi.proc_status_uid(children(d)[0])
        pepsi.check(uid != 0, "the child runs as root")
    # the tool asks the child as well, without pepsid's help
    code, out, _ = d.cli("--json", "dns", "--direct", "mx.secure.test")
    pepsi.check(code == 0 and json.loads(out)["authenticated"], "pepsi dns --direct: %s" % out)
    d.stop()
    pepsi.check("event=recursor-died" not in log_of(d), "it died")


def dying(t):
    """Killed with questions in flight: these fail at once, plain sessions do not notice, the next questions are answered."""
    hole = dnslab.Lab({"*.hole.test": {"DO": "silent"}})
    t.cleanup(hole.close)
    d, _, _ = laboratory(t, 'stub-zone:\n name: hole.test\n stub-addr: 127.0.0.1@%d\n' % hole.port)
    begin(t, d)
    smtp, times, over = pepsi.Smtp(d.port), [], threading.Event()

    def run():
        while not over.is_set():
            began = time.monotonic()
            smtp.cmd("NOOP")
            times.append(time.monotonic() - began)
            over.wait(0.01)
    plain = threading.Thread(target=run, daemon=True)
    plain.start()
    for i in range(3):
        old = pepsi.wait_for("there is a child", lambda: children(d), 60)[0]
        got = []
        def hang(name="n%d.hole.test" % i):
            began = time.monotonic()
            got.append((dns_real.ask(d, name), time.monotonic() - began))
        waiting = threading.Thread(target=hang)
        waiting.start()
        pepsi.wait_for("the question is under way", lambda: hole.count("n%d.hole.test" % i), 20)
        os.kill(old, signal.SIGKILL)
        waiting.join(30)
        pepsi.check(got and got[0][0]["status"] == "tempfail" and got[0][1] < 2.5 * pepsi.SLACK, "in flight: %s" % got)
        number = iter(range(1000 * i, 1000 * i + 999))
        pepsi.wait_for("another child answers", lambda: dns_real.ask(d, "x%d.plain.test" % next(number))["status"] == "nxdomain", 60, 0.2)
        pepsi.check(dns_real.ask(d, "mx.secure.test")["authenticated"], "validated as before")
    # one that hangs: the deadline of the question, not more
    stuck = children(d)[0]
    os.kill(stuck, signal.SIGSTOP)
    began = time.monotonic()
    a = dns_real.ask(d, "stuck.plain.test")
    took = time.monotonic() - began
    os.kill(stuck, signal.SIGCONT)
    pepsi.check(a["status"] == "tempfail" and took < 3 + 2 * pepsi.SLACK, "a child that hangs: %s in %.1f s" % (a, took))
    over.set()
    plain.join(30)
    smtp.close()
    times.sort()
    p99 = times[len(times) * 99 // 100]
    pepsi.say("      NOOP beside it: p99 %.1f ms of %d" % (p99 * 1e3, len(times)))
    pepsi.check(p99 < 0.05 * pepsi.SLACK, "a plain session waited: p99 %.0f ms" % (p99 * 1e3))
    log = log_of(d)
    pepsi.check(log.count("event=recursor-died") == 3, "deaths in the log: %s" % re.findall("event=recursor-.*", log))
    d.stop()


def reloading(t):
    """To servers and back, and with a file that is not there."""
    lab = dnslab.Lab({"x.test": {"A": ["192.0.2.7"]}})
    t.cleanup(lab.close)
    d, section, _ = laboratory(t)
    begin(t, d)
    with open(d.config) as f:
        text = f.read()

    def change(new):
        with open(d.config, "w") as f:
            f.write(text.replace(section, new))
        code, _, err = d.cli("reload")
        pepsi.check(code == 0, "reload: %s" % err)
    change("[pepsi-dns]\nSERVERS = %s\n" % lab.server)
    pepsi.check(dns_real.ask(d, "x.test")["records"] == ["192.0.2.7"], "the server")
    pepsi.wait_for("the child is gone", lambda: not children(d), 30)
    change(section)
    pepsi.wait_for("the child is back", lambda: dns_real.ask(d, "b%d.plain.test" % t.next_number())["status"] == "nxdomain", 60, 0.3)
    pepsi.check(dns_real.ask(d, "mx.secure.test")["authenticated"], "validated")
    change(section.replace("anchors", "no-anchors"))
    pepsi.wait_for("it says why", lambda: re.search(r"event=recursor-start option=TRUST_ANCHOR path=\S*no-anchors", log_of(d)), 30)
    a = dns_real.ask(d, "other.plain.test")
    pepsi.check(a["status"] == "tempfail", "without the child: %s" % a)
    change(section)
    pepsi.wait_for("the child is back", lambda: dns_real.ask(d, "c%d.plain.test" % t.next_number())["status"] == "nxdomain", 60, 0.3)
    d.stop()


def forwarding(t):
    """SERVERS are what it forwards to; without trust anchor nothing is authenticated."""
    lab = dnslab.Lab({"x.fwd.test": {"A": ["192.0.2.7"]}, "fwd.test": {"SOA": ["ns.fwd.test"], "NS": ["ns.fwd.test"]}})
    t.cleanup(lab.close)
    d, section, _ = laboratory(t)
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write(text.replace(section, re.sub("TRUST_ANCHOR = .*", "TRUST_ANCHOR = none", section) + "SERVERS = %s\n" % lab.server))
    begin(t, d)
    a = dns_real.ask(d, "x.fwd.test")
    pepsi.check(a["records"] == ["192.0.2.7"] and not a["authenticated"] and a["server"] == "libunbound", "forwarded: %s" % a)
    pepsi.check(not dns_real.ask(d, "mx.secure.test")["authenticated"], "nothing to validate with")
    d.stop()


def modules(t):
    """A worker's host->resolve() asks the child, too."""
    names = "mx.secure.test mx.plain.test nothing.secure.test mx.bogus.test"
    d, _, _ = laboratory(t, stages="[stage-init]\nPROGRAM = pepsi-stage-resolve\nNAMES = %s\nNEXT_STAGE = maildir\n" % names
                         + pepsi.maildir("maildir", "@MAIL@") + pepsi.bounce())
    begin(t, d)
    d.accept("a@b.test", "x@example.test", pepsi.message("ask"))
    mail = pepsi.wait_for("the message", lambda: d.maildir("x@example.test"), 30)[0].decode()
    got = re.findall(r"(?m)^X-DNS: (\S+) status=(\d) n=(\d+) .*ad=(\d)", mail)
    pepsi.check(got == [("mx.secure.test", "0", "1", "1"), ("mx.plain.test", "0", "1", "0"), ("nothing.secure.test", "2", "0", "1"), ("mx.bogus.test", "3", "0", "0")],
                "the module was told: %s" % got)
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [validated, dying, reloading, forwarding, modules])
