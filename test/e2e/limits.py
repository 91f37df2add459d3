"""What strangers may not do: recipients that do not exist, too much from one place, floods, lists in the DNS, greylisting, clients
that trickle. Clients come by a PROXY header, so that each test has as many addresses as it likes; our own network is
198.18.0.0/15. Nobody honest is held up meanwhile."""
import os
import socket
import subprocess
import threading
import time

import dnslab
import pepsi

DISCARD = "[stage-init]\nPROGRAM = pepsi-stage-discard\n"
OURS = "RELAY_NETWORKS = 198.18.0.0/15\n"


class Client:
    """A session from an address of our choice; replies as (code, text)."""

    def __init__(self, d, address, ehlo=True, timeout=30, port=None):
        self.address, self.port = address, port or d.port
        self.sock = socket.create_connection(("127.0.0.1", self.port), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = "TCP6" if ":" in address else "TCP4"
        self.sock.sendall(("PROXY %s %s %s 4711 25\r\n" % (kind, address, "2001:db8::1" if ":" in address else "192.0.2.1")).encode())
        self.file = self.sock.makefile("rb")
        if ehlo:
            pepsi.check(self.reply()[0] == 220, "no banner for %s" % address)
            pepsi.check(self.cmd("EHLO client.example.test")[0] == 250, "EHLO of %s" % address)

    def reply(self):
        lines = []
        while True:
            line = self.file.readline(4096)
            if not line.endswith(b"\n"):
                return 0, "closed"
            lines.append(line[4:].decode("utf-8", "replace").strip())
            if line[3:4] == b" ":
                return int(line[:3]), "\n".join(lines)

    def cmd(self, line):
        self.sock.sendall(line.encode() + b"\r\n")
        return self.reply()

    def rcpt(self, to, sender="a@far.test"):
        """The reply to RCPT in a transaction of its own."""
        code, text = self.cmd("MAIL FROM:<%s>" % sender)
        if code != 250:
            return code, text
        code, text = self.cmd("RCPT TO:<%s>" % to)
        if code in (421, 0):
            return code, text
        self.cmd("RSET")
        return code, text

    def send(self, to, sender="a@far.test", token="x"):
        for line in ("MAIL FROM:<%s>" % sender, "RCPT TO:<%s>" % to, "DATA"):
            code, text = self.cmd(line)
            if code not in (250, 354):
                return code, text
        self.sock.sendall(pepsi.message(token) + b"\r\n.\r\n")
        return self.reply()

    def close(self):
        self.file.close()
        self.sock.close()


def daemon(t, listener="", pepsi_more="", more="", stages=DISCARD):
    return pepsi.Pepsid(t, stages, pepsi=OURS + pepsi_more, listener="PROXY_FROM = 127.0.0.1\n" + listener, more=more)


def told(d, address, ip="203.0.113.1"):
    c = Client(d, ip)
    try:
        return c.rcpt(address)
    finally:
        c.close()


def recipients(t):
    file = os.path.join(t.dir, "recipients")
    with open(file, "w") as f:
        f.write("# who lives here\nfile-alice@example.test OK\n@open.example.test\r\nbare\n" + "x" * 3000 + "\n")
    d = daemon(t, "UNKNOWN_DELAY = 0 s\nMAX_UNKNOWN = 0\nMAX_ERRORS = 1000\n",
               "LOCAL_DOMAINS = example.test *.example.test any.test\nRECIPIENTS = table aliases system file:%s\nRECIPIENT_DELIMITER = +\n" % file,
               "[domain-any.test]\nRECIPIENTS = any\n[domain-closed.example.test]\nRECIPIENTS = table\nRECIPIENT_DELIMITER =\n")
    for a in ("alice@example.test", "@catch.example.test", "Bob@Example.TEST", "carol@closed.example.test"):
        code, out, err = d.cli("recipient", "add", a)
        pepsi.check(code == 0, "recipient add %s: %s" % (a, err))
    code, out, err = d.cli("recipient", "add", "alice@example.test")
    pepsi.check(code == 1 and "already" in err, "added twice: %s" % err)
    code, out, err = d.cli("recipient", "add", "no address")
    pepsi.check(code == 1 and "wanted" in err, "a bad one: %s" % err)
    pepsi.check(d.json("recipient", "list") == ["@catch.example.test", "alice@example.test", "bob@example.test", "carol@closed.example.test"], "list")
    alias(d, "INSERT INTO pepsi.alias_map VALUES ('sales@example.test', '{alice@example.test}'), ('local-alias', '{alice@example.test}')")
    c, r = Client(d, "203.0.113.1"), {}
    pepsi.wait_for("the accounts of the machine", lambda: c.rcpt("root@example.test")[0] == 250, 20)
    for to, code in (("alice@example.test", 250), ("ALICE@EXAMPLE.TEST", 250), ("alice+lists@example.test", 250), ("bob@example.test", 250),
                     ("nobody-here@example.test", 550), ("anything@catch.example.test", 250), ("anything@other.example.test", 550),
                     ("sales@example.test", 250), ("local-alias@example.test", 250), ("file-alice@example.test", 250), ("bare@example.test", 250),
                     ("anything@open.example.test", 250), ("root@example.test", 250), ("root+x@example.test", 250), ("whoever@any.test", 250),
                     ("carol@closed.example.test", 250), ("carol+x@closed.example.test", 550), ("root@closed.example.test", 550),
                     ("postmaster@closed.example.test", 250), ("x@elsewhere.test", 550)):
        got = c.rcpt(to)
        pepsi.check(got[0] == code, "RCPT TO:<%s>: %s, not %d" % ((to, got, code)))
        if code == 550 and "elsewhere" not in to:
            pepsi.check(got[1].startswith("5.1.1 "), "RCPT TO:<%s>: %s" % (to, got))
    # our own network is told as well
    ours = Client(d, "198.18.0.1")
    pepsi.check(ours.rcpt("nobody-here@example.test")[0] == 550 and ours.rcpt("x@elsewhere.test")[0] == 250, "our own network")
    pepsi.check(c.cmd("VRFY alice@example.test")[0] == 252 and c.cmd("VRFY nobody-here@example.test")[0] == 252, "VRFY told a stranger")
    # changes count at once, whoever makes them, and in files
    pepsi.check(c.rcpt("dave@example.test")[0] == 550, "dave is there")
    d.cli("recipient", "add", "dave@example.test")
    pepsi.wait_for("dave", lambda: c.rcpt("dave@example.test")[0] == 250, 10)
    d.cli("recipient", "remove", "dave@example.test")
    pepsi.wait_for("dave gone", lambda: c.rcpt("dave@example.test")[0] == 550, 10)
    alias(d, "DELETE FROM pepsi.alias_map")
    pepsi.wait_for("aliases gone", lambda: c.rcpt("sales@example.test")[0] == 550, 10)
    with open(file + ".new", "w") as f:
        f.write("erin@example.test\n" + "".join("user%d@example.test\n" % i for i in range(200000)))
    os.rename(file + ".new", file)
    pepsi.wait_for("the new file", lambda: c.rcpt("erin@example.test")[0] == 250, 15)
    pepsi.check(c.rcpt("user199999@example.test")[0] == 250 and c.rcpt("file-alice@example.test")[0] == 550, "the new file")
    for a, answer, source in (("alice@example.test", "yes", "table"), ("erin@example.test", "yes", file), ("root@example.test", "yes", "system"),
                              ("x@any.test", "yes", "any"), ("who@example.test", "no", ""), ("x@elsewhere.test", "relay", ""), ("@", "invalid", "")):
        code, out, err = d.cli("--json", "recipient", "test", a)
        pepsi.check('"%s"' % answer in out and '"%s"' % source in out.replace("\\/", "/"), "recipient test %s: %s %s" % (a, out, err))
        pepsi.check((code == 0) == (answer == "yes"), "recipient test %s: exit %d" % (a, code))
    m = d.metrics()
    pepsi.check(m['pepsi_smtp_rejected_total{reason="recipient"}'] > 5 and m["pepsi_recipient_cache_hits_total"] > 5, "metrics")
    pepsi.check("unknown_recipient" in d.cli("status")[1], "status says nothing")
    # many at once: one statement for many
    before = m["pepsi_recipient_statements_total"]
    c.cmd("MAIL FROM:<>")
    crowd = [Client(d, "203.0.113.%d" % (i + 10)) for i in range(30)]
    for x in crowd:
        x.cmd("MAIL FROM:<a@far.test>")
    for i, x in enumerate(crowd):
        x.sock.sendall(b"RCPT TO:<guess%d@example.test>\r\n" % i)
    pepsi.check(all(x.reply()[0] == 550 for x in crowd), "guesses")
    pepsi.say("      30 lookups in %d statements" % (d.metrics()["pepsi_recipient_statements_total"] - before))
    # the database goes: those it would have to be asked about get 451, never 550; what a file knows is taken... but MAIL is refused before
    os.kill(d.postmaster_pid(), 3)
    code, text = 0, ""

    def away():
        nonlocal code, text
        code, text = c.cmd("RCPT TO:<somebody%d@example.test>" % time.monotonic_ns())
        return code == 451
    pepsi.wait_for("451 without a database", away, 15)
    pepsi.check(text.startswith("4.3.0"), "%d %s" % (code, text))
    d.destroy()
    t.daemons.remove(d)


def alias(d, sql):
    me = pepsi.service_account() if pepsi.ROOT else None

    def become():
        if me:
            os.setgroups([])
            os.setgid(me.pw_gid)
            os.setuid(me.pw_uid)
    p = subprocess.run([pepsi.need("psql"), "-qX", "-v", "ON_ERROR_STOP=1", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", sql],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=become, timeout=60, cwd="/")
    pepsi.check(p.returncode == 0, "psql: %s" % p.stdout.decode())


def rates(t):
    d = daemon(t, "CONNECTIONS_PER_MINUTE = 6\nMESSAGES_PER_MINUTE = 3\nRECIPIENTS_PER_MINUTE = 5\nNETWORK_FACTOR = 2\nMAX_CONNECTIONS_PER_ADDRESS = 2\n"
                  "MAX_CONNECTIONS_PER_NETWORK = 3\nMAX_ERRORS = 100\n")
    a, b, c = Client(d, "203.0.113.1"), Client(d, "203.0.113.1"), Client(d, "203.0.113.2")
    for ip in ("203.0.113.1", "203.0.113.3"):  # of the address, of the network
        x = Client(d, ip, ehlo=False)
        code, text = x.reply()
        pepsi.check(code == 421 and "4.7.0" in text and x.reply()[0] == 0, "%s: %d %s" % (ip, code, text))
    # other networks, ours included, do not notice
    held = [Client(d, "198.18.0.1") for _ in range(10)]
    other = Client(d, "203.0.114.1")
    for i in range(3):
        pepsi.check(a.send("r@example.test")[0] == 250, "message %d" % i)
    code, text = a.send("r@example.test")
    pepsi.check(code == 450 and text.startswith("4.7.1"), "the fourth message: %d %s" % (code, text))
    pepsi.check(other.send("r@example.test")[0] == 250, "another network is held up")
    other.cmd("MAIL FROM:<a@far.test>")
    codes = [other.cmd("RCPT TO:<r%d@example.test>" % i)[0] for i in range(6)]
    pepsi.check(codes == [250] * 4 + [450] * 2, "recipients: %s" % codes)
    # 6 of this network so far; c is another address of it
    for i in range(3):
        pepsi.check(c.send("r@example.test")[0] == 250, "network, message %d" % i)
    b.close()
    c.close()
    pepsi.wait_for("places", lambda: d.status()["ingress"]["sessions"] == 12, 10)
    x = Client(d, "203.0.113.4")
    pepsi.check(x.send("r@example.test")[0] == 450, "the network's seventh message")
    for s in held:
        pepsi.check(all(s.send("r@example.test")[0] == 250 for _ in range(4)), "our own network is limited")
    m = d.metrics()
    pepsi.check(m['pepsi_smtp_rejected_total{reason="rate"}'] >= 4 and m['pepsi_smtp_rejected_total{reason="connections"}'] == 2, "metrics")
    # connections in a minute
    codes = []
    for _ in range(8):
        x = Client(d, "203.0.115.1", ehlo=False)
        codes.append(x.reply()[0])
        x.close()
    pepsi.check(codes == [220] * 6 + [421] * 2, "connections: %s" % codes)
    six = Client(d, "2001:db8:1:2::1")
    seven = Client(d, "2001:db8:1:2:ffff::2")
    pepsi.check(Client(d, "2001:db8:1:2:5::3", ehlo=False).reply()[0] == 421, "a /64 is one address")
    pepsi.check(six.send("r@example.test")[0] == 250 and seven.send("r@example.test")[0] == 250, "IPv6")
    d.stop()


def harvest(t):
    d = daemon(t, "UNKNOWN_FREE = 2\nUNKNOWN_DELAY = 700 ms\nMAX_UNKNOWN = 5\nUNKNOWN_PER_HOUR = 8\n", "RECIPIENTS = table\n",
               "[pepsi-ingress]\nTARPIT_MAX = 3\n")
    d.cli("recipient", "add", "alice@example.test")
    c = Client(d, "203.0.113.1")
    pepsi.wait_for("alice", lambda: c.rcpt("alice@example.test")[0] == 250, 10)
    took, codes = [], []
    for i in range(5):
        began = time.monotonic()
        codes.append(c.rcpt("guess%d@example.test" % i)[0])
        took.append(time.monotonic() - began)
    pepsi.check(codes == [550] * 4 + [421], "codes %s" % codes)
    pepsi.check(min(took[2:]) >= 0.6, "no delay: %s" % took)
    pepsi.check(c.reply()[0] == 0, "the session goes on")
    # of the network: 5 so far, three more, then the first in a session is the last
    c = Client(d, "203.0.113.2")
    for i in range(3):
        pepsi.check(c.rcpt("guess%d@example.test" % i)[0] == 550, "guess %d" % i)
    c = Client(d, "203.0.113.3")
    pepsi.check(c.rcpt("alice@example.test")[0] == 250, "who exists is refused to a network that guesses")
    pepsi.check(c.rcpt("guess@example.test")[0] == 421, "the network guesses on")
    # delayed replies hold nothing but a session, and not too many of those
    before = d.status()["ingress"]["abuse"]
    crowd = [Client(d, "203.1.%d.1" % i) for i in range(8)]
    for x in crowd:
        x.sock.sendall(b"MAIL FROM:<a@far.test>\r\n" + b"RCPT TO:<who@example.test>\r\n" * 3)
        pepsi.check([x.reply()[0] for _ in range(3)] == [250, 550, 550], "pipelined")
    again = Client(d, "198.18.0.1")
    began = time.monotonic()
    pepsi.check(again.send("alice@example.test")[0] == 250, "an honest client")
    pepsi.check(time.monotonic() - began < 3 * pepsi.SLACK, "an honest client waited")
    pepsi.check(all(x.reply()[0] == 550 for x in crowd), "delayed replies")
    m = d.metrics()
    pepsi.check(m["pepsi_smtp_tarpitted"] == 0 and m["pepsi_smtp_tarpitted_total"] >= 6 and m['pepsi_smtp_rejected_total{reason="harvest"}'] == 2,
                "metrics: %s" % {k: v for k, v in m.items() if "tarpit" in k})
    # gone while its answer is held back
    x = Client(d, "203.2.0.1")
    x.sock.sendall(b"MAIL FROM:<a@far.test>\r\n" + b"RCPT TO:<who@example.test>\r\n" * 4)
    for _ in range(3):
        x.reply()
    x.close()
    pepsi.wait_for("nobody held", lambda: d.status()["ingress"]["abuse"]["tarpitted"] == 0, 10)
    pepsi.check(d.status()["ingress"]["abuse"]["unknown_recipient"] > before["unknown_recipient"], "status")
    d.stop()


def early(t):
    d = daemon(t, "BANNER_DELAY = 800 ms\n")
    c = Client(d, "203.0.113.1", ehlo=False)
    c.sock.sendall(b"EHLO too.early\r\n")
    code, text = c.reply()
    pepsi.check(code == 554 and c.reply()[0] == 0, "talked first: %d %s" % (code, text))
    c = Client(d, "203.0.113.1", ehlo=False)
    began = time.monotonic()
    pepsi.check(c.reply()[0] == 220 and time.monotonic() - began > 0.6, "no delay")
    c.cmd("EHLO x.test")
    pepsi.check(c.send("r@example.test")[0] == 250, "a patient client")
    # the first one may have talked before its banner was even due
    before = d.metrics()["pepsi_smtp_banners_delayed_total"]
    pepsi.check(before in (1, 2), "%d banners were delayed" % before)
    known, ours = Client(d, "203.0.113.1"), Client(d, "198.18.0.9")
    m = d.metrics()
    pepsi.check(m["pepsi_smtp_banners_delayed_total"] == before, "a known client, or one of ours, waits")
    pepsi.check(Client(d, "203.0.113.2") and d.metrics()["pepsi_smtp_banners_delayed_total"] == before + 1, "a stranger does not")
    pepsi.check(m['pepsi_smtp_rejected_total{reason="early-talk"}'] == 1, "metrics")
    known.close()
    ours.close()
    d.stop()


def listed(octets, zone):
    return ".".join(reversed(octets.split("."))) + "." + zone


def dns_lists(t):
    lab = dnslab.Lab({
        listed("203.0.113.1", "bl.test"): {"A": ["127.0.0.2"], "TXT": ["spam \u0007from here, see https://bl.test/?" + "x" * 300]},
        listed("203.0.113.2", "bl.test"): {"A": ["127.0.0.99"]},
        listed("203.0.113.3", "defer.test"): {"A": ["127.0.0.5"]},
        listed("203.0.113.4", "bl.test"): {"A": ["192.0.2.1"]},  # a parked zone
        listed("203.0.113.5", "bl.test"): {"A": ["127.0.0.3"]}, listed("203.0.113.5", "wl.test"): {"A": ["127.0.3.1"]},
        listed("203.0.113.6", "note.test"): {"A": ["127.0.0.2", "127.0.0.4"]},
        listed("203.0.113.7", "bl.test"): {"DO": "silent"},
        listed("203.0.113.8", "bl.test"): {"DO": "servfail"},
        listed("198.18.0.1", "bl.test"): {"A": ["127.0.0.2"]},
        listed("2001:db8::1", "x"): {}, "1" + ".0" * 23 + ".8.b.d.0.1.0.0.2.bl.test": {"A": ["127.0.0.2"]},
    })
    t.cleanup(lab.close)
    d = daemon(t, "DNSBL = bl.test=127.0.0.2-11:reject defer.test:defer note.test:record\nDNSWL = wl.test\nDNSBL_WAIT = 1 s\nREVERSE_DNS = NO\n",
               more="[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 300 ms\nLOOKUP_DEADLINE = 5 s\nATTEMPTS = 10\n" % lab.server,
               stages="[stage-init]\nPROGRAM = pepsi-stage-relay-to-lmtp\nSOCKET = /nonexistent/lmtp\nRETRY_MIN = 1 h\nRETRY_MAX = 2 h\n")
    for ip, code in (("203.0.113.1", 550), ("203.0.113.2", 250), ("203.0.113.3", 450), ("203.0.113.4", 250), ("203.0.113.5", 250),
                     ("203.0.113.6", 250), ("203.0.113.8", 250), ("203.0.113.9", 250), ("198.18.0.1", 250), ("2001:db8::1", 550)):
        got = told(d, "r@example.test", ip)
        pepsi.check(got[0] == code, "%s: %s, not %d" % (ip, got, code))
        if ip == "203.0.113.1":
            pepsi.check("bl.test: spam ?from here" in got[1] and len(got[1]) < 400, "the reason: %s" % got[1])
    began = time.monotonic()
    pepsi.check(told(d, "r@example.test", "203.0.113.7")[0] == 250, "a silent list refuses")
    pepsi.check(0.7 < time.monotonic() - began < 4 * pepsi.SLACK, "waited %.1f s for a silent list" % (time.monotonic() - began))
    c = Client(d, "203.0.113.6")
    code, text = c.send("r@example.test")
    row = d.json("queue", "show", text.split()[-1])
    pepsi.check(row["state"]["origin"]["dnsbl"] == [{"list": "note.test", "address": "127.0.0.2"}], "origin: %s" % row["state"]["origin"])
    c = Client(d, "203.0.113.5")
    code, text = c.send("r@example.test")
    row = d.json("queue", "show", text.split()[-1])
    pepsi.check(row["state"]["origin"]["dnswl"][0]["list"] == "wl.test", "origin: %s" % row["state"]["origin"])
    pepsi.check(not lab.count(listed("198.18.0.1", "bl.test")), "our own network was looked up")
    m = d.metrics()
    pepsi.check(m['pepsi_smtp_rejected_total{reason="dnsbl"}'] == 3 and m['pepsi_smtp_dns_list_total{zone="bl.test",result="late"}'] == 1, "metrics")
    d.stop()


def greylist(t):
    d = daemon(t, "GREYLIST = YES\nMAX_ERRORS = 100\n", more="[pepsi-ingress]\nGREYLIST_DELAY = 2 s\nGREYLIST_AUTO = 2\n")
    pepsi.wait_for("lookups", lambda: told(d, "warm@example.test", "203.0.112.1")[0] == 450, 20)
    c = Client(d, "203.0.113.1")
    code, text = c.rcpt("r@example.test", "bounces-1@far.test")
    pepsi.check(code == 450 and text.startswith("4.7.1"), "first time: %d %s" % (code, text))
    pepsi.check(c.rcpt("other@example.test", "a@far.test")[0] == 450, "another triplet")
    pepsi.check(Client(d, "198.18.0.1").rcpt("r@example.test")[0] == 250, "our own network")
    # a null sender is asked at DATA: whether an address exists may be asked
    pepsi.check(c.rcpt("r@example.test", "")[0] == 250, "RCPT of the null sender")
    code, text = c.send("r@example.test", "")
    pepsi.check(code == 451 and text.startswith("4.7.1"), "DATA of the null sender: %d %s" % (code, text))
    c.cmd("RSET")
    pepsi.wait_for("the second time", lambda: Client(d, "203.0.113.77").rcpt("r@example.test", "bounces-22@far.test")[0] == 250, 15, 0.3)
    pepsi.wait_for("another second time", lambda: c.rcpt("other@example.test", "a@far.test")[0] == 250, 15, 0.3)
    # two came back: the network is known
    pepsi.check(c.rcpt("third@example.test", "new@far.test")[0] == 250, "the network is not known")
    pepsi.check(told(d, "third@example.test", "203.0.99.1")[0] == 450, "any network is known")
    m = d.metrics()
    pepsi.check(m['pepsi_greylist_total{answer="wait"}'] >= 4 and m['pepsi_greylist_total{answer="pass"}'] >= 3, "metrics")
    d.stop()


def queue_limit(t):
    d = daemon(t, "", more="[pepsi-ingress]\nQUEUE_MAX_ROWS = 5\n", stages="[stage-init]\nPROGRAM = pepsi-stage-relay-to-lmtp\nSOCKET = /nonexistent/lmtp\nRETRY_MIN = 1 h\nRETRY_MAX = 2 h\n")
    c, codes = Client(d, "198.18.0.1"), []

    def full():
        code, text = c.send("r@example.test")
        codes.append(code)
        return code == 452 and text.startswith("4.3.1")
    pepsi.wait_for("452", full, 20)
    pepsi.check(codes.count(250) in (5, 6), "taken: %s" % codes)
    code, out, err = d.cli("queue", "delete", "--all")
    pepsi.wait_for("room again", lambda: c.send("r@example.test")[0] == 250, 20)
    d.stop()


def flood(t):
    """40 clients that come again and again, say as much as they can, and never end; somebody honest, and one of ours, beside them."""
    sink = pepsi.Sink(t)
    d = daemon(t, "MAX_CONNECTIONS = 30\nRESERVED_CONNECTIONS = 10\nMAX_CONNECTIONS_PER_ADDRESS = 1000\nMAX_CONNECTIONS_PER_NETWORK = 15\n"
                  "CONNECTIONS_PER_MINUTE = 200\n", stages=pepsi.smarthost("init", sink.port) + pepsi.bounce())
    over, seen, lock = threading.Event(), {"refused": 0, "served": 0}, threading.Lock()

    def one(n):
        while not over.is_set():
            try:
                c = Client(d, "203.0.113.%d" % (n + 1), ehlo=False, timeout=5)
                code = c.reply()[0]
                with lock:
                    seen["served" if code == 220 else "refused"] += 1
                end = time.monotonic() + 1
                while code == 220 and time.monotonic() < end and not over.is_set():
                    c.sock.sendall(b"NOOP\r\n" * 200)
                    c.reply()
                    time.sleep(0.02)  # the honest client shares this interpreter
                c.close()
                time.sleep(0.05)
            except OSError:
                pass
    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(40)]
    for x in threads:
        x.start()
    pepsi.wait_for("the flood", lambda: seen["refused"] > 50 and seen["served"] >= 10, 30)
    took = []
    try:
        for i in range(10):
            for ip in ("203.0.200.1", "198.18.0.1"):
                began = time.monotonic()
                c = Client(d, ip)
                code, text = c.send("r@example.test", token="%s-%d" % (ip, i))
                c.close()
                took.append(time.monotonic() - began)
                pepsi.check(code == 250, "%s: %d %s" % (ip, code, text))
    finally:
        over.set()
    for x in threads:
        x.join(30)
    pepsi.say("      %d refused, %d served; honest messages: %.0f ms in the mean, %.0f ms at most" % (seen["refused"], seen["served"], 1e3 * sum(took) / len(took), 1e3 * max(took)))
    pepsi.check(max(took) < 10 * pepsi.SLACK, "an honest client waited %.1f s" % max(took))
    pepsi.wait_for("all honest messages", lambda: len(set(sink.tokens())) == 20, 20)
    d.stop()


def slow(t):
    """One octet a second, in every state: gone at the deadline, which no octet moves."""
    d = daemon(t, "COMMAND_TIMEOUT = 3 s\nSESSION_TIMEOUT = 10 s\nMIN_DATA_RATE = 1 KiB\n")
    body = b"X: y\r\n\r\n" + b"z" * 5000
    states = {
        "banner": [], "command": [], "rcpt": ["MAIL FROM:<a@far.test>"], "data": ["MAIL FROM:<a@far.test>", "RCPT TO:<r@example.test>", "DATA"],
        "bdat": ["MAIL FROM:<a@far.test>", "RCPT TO:<r@example.test>"], "noop": [],
    }
    said = {"banner": b"", "command": b"EHLO " + b"x" * 400, "rcpt": b"RCPT TO:<" + b"r" * 400, "data": body, "bdat": body, "noop": b"NOOP\r\n" * 100}
    clients = {}
    for name, before in states.items():
        c = Client(d, "203.0.113.%d" % (len(clients) + 1))
        for line in before:
            c.cmd(line)
        if name == "bdat":
            c.sock.sendall(b"BDAT 4000 LAST\r\n")
        clients[name] = [c, said[name], time.monotonic(), None]
    end = time.monotonic() + 40 * pepsi.PATIENCE
    while any(x[3] is None for x in clients.values()) and time.monotonic() < end:
        for x in clients.values():
            if x[3] is not None:
                continue
            x[0].sock.settimeout(0.01)
            try:
                if x[1]:
                    x[0].sock.sendall(x[1][:1])
                    x[1] = x[1][1:]
                while True:
                    if x[0].sock.recv(4096) == b"":
                        x[3] = time.monotonic() - x[2]
                        break
            except socket.timeout:
                pass
            except OSError:
                x[3] = time.monotonic() - x[2]
        time.sleep(0.3)
    late = {n: x[3] for n, x in clients.items() if x[3] is None or x[3] > 25 * pepsi.SLACK}
    pepsi.say("      gone after %s" % ", ".join("%s %.1f s" % (n, x[3] or -1) for n, x in clients.items()))
    pepsi.check(not late, "still there: %s" % late)
    pepsi.check(d.metrics()["pepsi_smtp_timeouts_total"] >= 6, "time-outs")
    pepsi.wait_for("no session left", lambda: d.status()["ingress"]["sessions"] == 0, 10)
    d.stop()


pepsi.main(__file__, [recipients, rates, harvest, early, dns_lists, greylist, queue_limit, flood, slow])
