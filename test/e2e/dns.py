"""The resolver in a real pepsid, against a server that misbehaves (dnslab.py): what is answered, in what time, and that nobody
else waits; servers that go down and come back; the name of a client's address; modules that ask through the host."""
import concurrent.futures
import json
import os
import re
import socket
import threading
import time

import dnslab
import pepsi

STAGES = os.path.join(os.path.dirname(pepsi.BIN), "test", "stages")
CHAIN = {"c%d.chain.test" % i: {"CNAME": ["c%d.chain.test" % (i + 1)]} for i in range(7)}
ZONE = dict(CHAIN, **{
    "good.test": {"A": ["192.0.2.1", "192.0.2.2"], "MX": ["20 b.good.test", "10 A.good.test"], "TXT": [["v=spf1 ", "-all"]],
                  "AAAA": ["2001:db8::1"]},
    "signed.test": {"A": ["192.0.2.1"], "DO": "ad"},
    "alias.test": {"CNAME": ["good.test"]},
    "c7.chain.test": {"A": ["192.0.2.7"]},
    "loop.test": {"CNAME": ["loop2.test"]}, "loop2.test": {"CNAME": ["loop.test"]},
    "huge.test": {"TXT": ["x" * 40000]},
    "slow.test": {"A": ["192.0.2.1"], "DO": "delay 0.2"},
    "dead.test": {"DO": "silent"},
    "servfail.test": {"DO": "servfail"},
    "refused.test": {"DO": "refused"},
    "noedns.test": {"DO": "formerr"},
    "truncated.test": {"A": ["192.0.2.1"], "DO": "truncate"},
    "drip.test": {"A": ["192.0.2.1"], "DO": "drip"},
    "cut.test": {"A": ["192.0.2.1"], "DO": "cut"},
    "id.test": {"A": ["192.0.2.66"], "DO": "wrong-id"},
    "source.test": {"A": ["192.0.2.66"], "DO": "wrong-source"},
    "name.test": {"A": ["192.0.2.66"], "DO": "wrong-name"},
    "flood.test": {"A": ["192.0.2.1"], "DO": "flood"},
    "garbage.test": {"A": ["192.0.2.66"], "DO": "garbage"},
    "big.test": {"TXT": ["x" * 4000], "DO": "big-udp"},
    "pointers.test": {"A": ["192.0.2.66"], "DO": "pointers"},
    # clients: 127.0.0.2 has a name that leads back, 127.0.0.3 one that does not, 127.0.0.4 none, 127.0.0.5 nobody tells
    "2.0.0.127.in-addr.arpa": {"PTR": ["Two.Clients.test"]}, "two.clients.test": {"A": ["127.0.0.9", "127.0.0.2"]},
    "3.0.0.127.in-addr.arpa": {"PTR": ["two.clients.test"]},
    "5.0.0.127.in-addr.arpa": {"DO": "silent"},
})
# name, type, status, first record (or part of why), seconds at most
CASES = [
    ("good.test", "A", "ok", "192.0.2.1", 1),
    ("GOOD.test.", "MX", "ok", "10 a.good.test", 1),
    ("good.test", "TXT", "ok", '"v=spf1 -all"', 1),
    ("good.test", "AAAA", "ok", "2001:db8::1", 1),
    ("good.test", "TLSA", "nodata", None, 1),
    ("nothing.test", "A", "nxdomain", None, 1),
    ("alias.test", "A", "ok", "192.0.2.1", 1),
    ("c0.chain.test", "A", "ok", "192.0.2.7", 1),
    ("loop.test", "A", "tempfail", "CNAME chain too long", 1),
    ("huge.test", "TXT", "ok", '"xxx', 2),
    ("slow.test", "A", "ok", "192.0.2.1", 2),
    ("dead.test", "A", "tempfail", "time-out", 4),
    ("servfail.test", "A", "tempfail", "SERVFAIL", 1),
    ("refused.test", "A", "tempfail", "REFUSED", 1),
    ("noedns.test", "A", "tempfail", "FORMERR", 1),
    ("truncated.test", "A", "ok", "192.0.2.1", 2),
    ("drip.test", "A", "tempfail", "time-out", 4),
    ("cut.test", "A", "tempfail", "connection closed", 2),
    ("id.test", "A", "tempfail", "time-out", 4),
    ("source.test", "A", "tempfail", "time-out", 4),
    ("name.test", "A", "tempfail", "time-out", 4),
    ("flood.test", "A", "ok", "192.0.2.1", 2),
    ("garbage.test", "A", "tempfail", "time-out", 4),
    ("big.test", "TXT", "ok", '"xxx', 2),
    ("pointers.test", "A", "tempfail", "malformed reply", 1),
    ("not..a.name", "A", "nxdomain", "not a domain name", 1),
    ("x" * 64 + ".test", "A", "nxdomain", "not a domain name", 1),
]


def lab_of(t, zone=None):
    lab = dnslab.Lab(ZONE if zone is None else zone)
    t.cleanup(lab.close)
    return lab


def dns(*labs, more=""):
    return "[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 500 ms\nLOOKUP_DEADLINE = 2 s\n%s\n" % (" ".join(l.server for l in labs), more)


def daemon(t, *labs, more="", listener="", stages=None, pepsi_more=""):
    d = pepsi.Pepsid(t, "", start=False)
    stages = stages or pepsi.route("init", [("example.test", "maildir")], "bounce") + pepsi.maildir("maildir", d.mail) + pepsi.bounce()
    d.write_config(stages.replace("@MAIL@", d.mail), pepsi=pepsi_more, listener=listener, more=dns(*labs, more=more))
    d.start()
    return d


def ask(d, name, kind):
    """(the answer, seconds); exit 0 only for records."""
    began = time.monotonic()
    code, out, err = d.cli("--json", "dns", name, kind)
    took = time.monotonic() - began
    pepsi.check("cannot be asked" not in err, "pepsid was not asked: %s" % err)
    answer = json.loads(out)
    pepsi.check((code == 0) == (answer["status"] == "ok"), "exit %d for %s" % (code, answer["status"]))
    return answer, took


class Prober:
    """NOOPs of a plain session, all the time: how long each took."""

    def __init__(self, d):
        self.smtp, self.times, self.over = pepsi.Smtp(d.port), [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            self.smtp.cmd("NOOP")
            self.times.append(time.monotonic() - began)
            self.over.wait(0.005)

    def stop(self):
        self.over.set()
        self.thread.join(30)
        self.smtp.close()
        return sorted(self.times)


def hostile(t):
    lab = lab_of(t)
    d = daemon(t, lab)
    probe = Prober(d)
    def one(case):
        name, kind, status, first, seconds = case
        a, took = ask(d, name, kind)
        what = "%s %s: %s" % (name, kind, json.dumps(a)[:300])
        pepsi.check(a["status"] == status, what)
        pepsi.check(a["authenticated"] is False, what)
        if first is not None:
            pepsi.check((a["records"][0] if status == "ok" else a.get("why", "")).startswith(first), what)
        pepsi.check(took < (seconds + 2) * 2 * pepsi.SLACK, "%s took %.1f s" % (name, took))
        asked = lab.count(name.lower().rstrip("."), kind)
        pepsi.check(asked <= 4, "%s %s caused %d queries" % (name, kind, asked))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, CASES))
    a, _ = ask(d, "c0.chain.test", "A")
    pepsi.check(len(a["chain"]) == 7 and a["chain"][-1] == "c7.chain.test" and a["cached"] and a["ttl"] <= 60, "the chain: %s" % a)
    a, _ = ask(d, "signed.test", "A")
    pepsi.check(a["authenticated"] is True, "AD of a resolver on loopback: %s" % a)
    pepsi.check(not [r for r in lab.asked if r[0] == "not..a.name" or r[0].startswith("xxxx")], "what is no name was asked")
    pepsi.check(("huge.test", "TXT", "tcp") in lab.asked and ("flood.test", "A", "tcp") in lab.asked, "TCP was not used: %s" % lab.asked)
    times = probe.stop()
    p99 = times[len(times) * 99 // 100]
    pepsi.say("      %d cases; NOOP beside them: median %.1f ms, p99 %.1f ms of %d" % (len(CASES), times[len(times) // 2] * 1e3, p99 * 1e3, len(times)))
    pepsi.check(p99 < 0.5 * pepsi.SLACK, "a plain session waited: p99 %.0f ms" % (p99 * 1e3))
    m = metrics(d)
    pepsi.check(m["pepsi_dns_forged_total"] >= 20 and m["pepsi_dns_tcp_total"] >= 5 and m["pepsi_dns_cache_hits_total"] >= 1, "metrics: %s" % m)
    pepsi.check(m['pepsi_dns_answers_total{type="A",result="tempfail"}'] >= 9, "metrics: %s" % m)
    d.stop()


def metrics(d):
    code, body = d.http_get("/metrics")
    pepsi.check(code == 200, "/metrics: %d" % code)
    text = body.decode() if isinstance(body, bytes) else body
    return {k: float(v) for k, v in re.findall(r"(?m)^(pepsi_(?:dns|smtp_iprev)\S*) (\S+)$", text)}


def down_and_up(t):
    """A server that is silent is left alone, shown as down, and asked again when it is back."""
    bad, good = lab_of(t, {"*.test": {"A": ["192.0.2.1"], "DO": "silent"}}), lab_of(t, {"*.test": {"A": ["192.0.2.2"]}})
    d = daemon(t, bad, good)
    for i in range(3):
        a, _ = ask(d, "n%d.test" % i, "A")
        pepsi.check(a["records"] == ["192.0.2.2"] and a["server"] == good.server, "the second server: %s" % a)
    servers = {s["server"]: s for s in d.status()["dns"]["servers"]}
    pepsi.check(not servers[bad.server]["up"] and servers[good.server]["up"] and servers[bad.server]["timeouts"] == 3, "status: %s" % servers)
    pepsi.check("%s down" % bad.server in d.cli("status")[1], "pepsi status: %s" % d.cli("status")[1])
    with open(d.log) as f:
        pepsi.check("event=dns-server-down server=%s" % bad.server in f.read(), "no line in the log")
    before = bad.count()
    pepsi.check(ask(d, "n4.test", "A")[1] < 0.5 * pepsi.SLACK and bad.count() <= before + 1, "it is waited for all the same")
    bad.zone["*.test"] = {"A": ["192.0.2.3"]}
    number = iter(range(10, 10000))
    pepsi.wait_for("the server is up again", lambda: ask(d, "n%d.test" % next(number), "A")[0]["records"] == ["192.0.2.3"], 60, 0.3)
    with open(d.log) as f:
        pepsi.check("event=dns-server-up server=%s" % bad.server in f.read(), "no line in the log")
    pepsi.check(metrics(d)['pepsi_dns_server_up{server="%s"}' % bad.server] == 1, "metrics")
    d.stop()


def reloading(t):
    """Other servers after a reload; a wrong address is refused and changes nothing."""
    one, two = lab_of(t, {"x.test": {"A": ["192.0.2.1"]}}), lab_of(t, {"x.test": {"A": ["192.0.2.2"]}})
    d = daemon(t, one)
    pepsi.check(ask(d, "x.test", "A")[0]["records"] == ["192.0.2.1"], "the first")
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write(text.replace(one.server, "127.0.0.1:http"))
    code, _, err = d.cli("reload")
    pepsi.check(code == 1 and "is no address of a server" in err, "reload: %d %s" % (code, err))
    pepsi.check(ask(d, "x.test", "A")[0]["records"] == ["192.0.2.1"], "the first stays")
    with open(d.config, "w") as f:
        f.write(text.replace(one.server, two.server))
    pepsi.check(d.cli("reload")[0] == 0, "reload")
    pepsi.check(ask(d, "x.test", "A")[0]["records"] == ["192.0.2.2"], "the second, not what the cache knew of the first")
    d.stop()
    # without pepsid: a resolver of the tool's own, and it says so
    code, out, err = d.cli("dns", "x.test")
    pepsi.check(code == 0 and "192.0.2.2" in out and "resolver of our own" in err, "%d %s %s" % (code, out, err))
    code, out, err = d.cli("dns", "--direct", "192.0.2.9")
    pepsi.check(code == 1 and out.startswith("9.2.0.192.in-addr.arpa PTR: nxdomain"), "%d %s %s" % (code, out, err))


def client_names(t):
    """iprev: in Received, in the state and in the metrics; the banner waits only for so long."""
    lab = lab_of(t)
    d = daemon(t, lab, listener="REVERSE_DNS_WAIT = 1 s\n")
    for host, name, result in (("127.0.0.2", "two.clients.test", "pass"), ("127.0.0.3", None, "fail"), ("127.0.0.4", None, "permerror")):
        token = "c" + host[-1]
        s = pepsi.Smtp(d.port, source=host)
        code, text = s.send("a@example.test", token + "@example.test", pepsi.message(token))
        s.close()
        pepsi.check(code == 250, "%d %s" % (code, text))
        mail = pepsi.wait_for("the message of " + host, lambda: d.maildir(token + "@example.test"), 15)[0].decode(errors="replace")
        received = mail.split("by mx.example.test")[0]
        pepsi.check("[%s]" % host in received and ((name in received) if name else "clients.test" not in received),
                    "Received: %s" % received)
        pepsi.check(metrics(d)['pepsi_smtp_iprev_total{result="%s"}' % result] == 1, "iprev %s: %s" % (result, metrics(d)))
    began = time.monotonic()
    s = pepsi.Smtp(d.port, source="127.0.0.5")
    took = time.monotonic() - began
    s.close()
    pepsi.check(0.9 < took < 3 * pepsi.SLACK, "the banner came after %.2f s, not after one" % took)
    # a client that goes while its name is looked up, and one that talks before the banner
    for early in (b"", b"EHLO early.test\r\n"):
        c = socket.create_connection(("127.0.0.1", d.port), 10, ("127.0.0.5", 0))
        if early:
            c.sendall(early)
            line = c.makefile("rb").readline()
            pepsi.check(line[:3] in (b"220", b"554"), "early talker: %r" % line)
        c.close()
    s = pepsi.Smtp(d.port)
    pepsi.check(s.cmd("NOOP")[0] == 250, "others go on")
    s.close()
    d.stop()


def state_of(t):
    """origin.rdns and origin.iprev, as a later stage finds them."""
    lab = lab_of(t)
    d = daemon(t, lab, listener="REVERSE_DNS_WAIT = 2 s\n",
               stages="[stage-init]\nPROGRAM = pepsi-stage-relay-to-smarthost\nHOST = 127.0.0.1\nPORT = 9\nBOUNCE_STAGE = bounce\n" + pepsi.bounce())
    for host, rdns, result in (("127.0.0.2", "two.clients.test", "pass"), ("127.0.0.3", None, "fail"), ("127.0.0.1", None, None)):
        s = pepsi.Smtp(d.port, source=host)
        code, text = s.send("a@example.test", "b@example.test", pepsi.message("x"))
        s.close()
        ident = re.search(r"queued as (\S+)", text).group(1)
        origin = d.json("queue", "show", ident)["state"]["origin"]
        pepsi.check(origin.get("rdns") == rdns and origin.get("iprev") == result, "origin of %s: %s" % (host, origin))
    d.stop()


def modules(t):
    """host->resolve(): answers, temporary failures, budget; and not without the capability."""
    lab = lab_of(t)
    names = "good.test alias.test nothing.test servfail.test not..a.name good.test"
    stage = ("[stage-ask]\nPROGRAM = pepsi-stage-resolve\nNAMES = %s\nNEXT_STAGE = maildir\n"
             "[stage-many]\nPROGRAM = pepsi-stage-resolve\nNAMES = %s\nNEXT_STAGE = maildir\n"
             "[stage-nocap]\nPROGRAM = pepsi-stage-resolve-nocap\nNAMES = good.test\nNEXT_STAGE = maildir\n"
             % (names, " ".join("n%d.test" % i for i in range(6))))
    path = "MODULE_PATH = %s:%s\n" % (STAGES, os.path.join(os.path.dirname(pepsi.BIN), "lib", "pepsi", "modules"))
    d = daemon(t, lab, more="MAX_QUERIES = 4\n", pepsi_more=path + "LOCAL_DOMAINS = ask.test many.test nocap.test\n",
               stages=pepsi.route("init", [("ask.test", "ask"), ("many.test", "many"), ("nocap.test", "nocap")], "bounce") + stage
               + pepsi.maildir("maildir", "@MAIL@") + pepsi.bounce())
    d.accept("a@b.test", "x@ask.test", pepsi.message("ask"))
    mail = pepsi.wait_for("the message", lambda: d.maildir("x@ask.test"), 15)[0].decode()
    got = re.findall(r"(?m)^X-DNS: (.*?)\r?$", mail)
    want = ["good.test status=0 n=2 canonical=good.test ad=0 why=- c0000201 c0000202",
            "alias.test status=0 n=2 canonical=good.test ad=0 why=- c0000201 c0000202",
            "nothing.test status=2 n=0 canonical=nothing.test ad=0 why=-",
            "servfail.test status=3 n=0 canonical=servfail.test ad=0 why=SERVFAIL",
            "not..a.name status=2 n=0 canonical= ad=0 why=not a domain name",
            "good.test status=0 n=2 canonical=good.test ad=0 why=- c0000201 c0000202"]
    pepsi.check(got == want, "the module was told:\n%s" % "\n".join(got))
    d.accept("a@b.test", "x@many.test", pepsi.message("many"))
    mail = pepsi.wait_for("the message", lambda: d.maildir("x@many.test"), 15)[0].decode()
    got = re.findall(r"(?m)^X-DNS: \S+ status=(\d) .*why=(.*?)\r?$", mail)
    pepsi.check(got == [("2", "-")] * 4 + [("3", "query budget used up")] * 2, "the budget: %s" % got)
    ident = d.accept("a@b.test", "x@nocap.test", pepsi.message("nocap"))
    pepsi.wait_for("the message fails", lambda: [r for r in d.queue("--status", "failed") if str(r["id"]) == ident], 15)
    pepsi.check("PEPSI_CAP_NET" in d.cli("queue", "show", ident)[1], "the reason")
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [hostile, down_and_up, reloading, client_names, state_of, modules])
