"""A DNS server for tests that answers from a table, and misbehaves where it is told to. UDP and TCP on one loopback port,
standard library only.

    lab = dnslab.Lab({"example.test": {"MX": ["10 mx.example.test"], "TXT": ["v=spf1 -all"]},
                      "mx.example.test": {"A": ["192.0.2.1"]},
                      "*.slow.test": {"A": ["192.0.2.2"], "DO": "delay 3"}})
    lab.server      "127.0.0.1:24711", for [pepsi-dns] SERVERS
    lab.asked       [(name, type, "udp" or "tcp"), …]
    lab.close()

Names that are not in the table are NXDOMAIN; types that are not there, NODATA; "*.x" stands for everything below x. CNAME is
followed within the table. An entry may be a function of the name that makes it. DO is what is done with every question for that name:
    silent        nothing is answered          servfail, refused, formerr   this code
    delay S       after S seconds              truncate      TC by UDP, the answer by TCP
    drip          TC, then an octet a second   cut           TC, then half of the answer, and the end
    wrong-id      another id                   wrong-source  the right answer from another port
    wrong-name    another question             flood         a hundred forged answers, then the right one
    garbage       noise behind the id          ad            with the AD bit
    big-udp       4000 octets by UDP, no TC    pointers      a name that is a loop of pointers
    no-tcp        TC, and TCP closes at once   hang          TC, and TCP is silent
    nx-data       NXDOMAIN that has records    lame          a referral to itself, no RA
    notimp        this code                    no-question   the answer without its question
    half          half of the datagram, no TC  maze          a thousand records, names of pointers to pointers
    poison        records of other names, too  wrong-type    the records say that they are something else
    bad-length    a record longer than the message
As a program: python3 dnslab.py [PORT] < ZONE.json serves such a table until it is killed."""
import json
import socket
import struct
import sys
import threading
import time

import pepsi

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "TLSA": 52}
NUMBERS = {v: k for k, v in TYPES.items()}
TTL = 60


def wire_name(name):
    out = b""
    for label in name.rstrip(".").split("."):
        if label:
            octets = label.encode("latin-1")
            out += bytes([len(octets)]) + octets
    return out + b"\0"


def read_question(q):
    """(name, type, octets of the question); None when it is none."""
    labels, at = [], 12
    while at < len(q) and q[at]:
        labels.append(q[at + 1:at + 1 + q[at]].decode("latin-1"))
        at += q[at] + 1
    if at + 5 > len(q):
        return None
    return ".".join(labels).lower(), struct.unpack(">H", q[at + 1:at + 3])[0], q[12:at + 5]


def data_of(kind, text):
    if kind == "A":
        return socket.inet_pton(socket.AF_INET, text)
    if kind == "AAAA":
        return socket.inet_pton(socket.AF_INET6, text)
    if kind == "MX":
        preference, name = text.split(" ", 1)
        return struct.pack(">H", int(preference)) + wire_name(name)
    if kind == "TXT":
        strings = text if isinstance(text, list) else [text[i:i + 255] for i in range(0, len(text), 255)] or [""]
        return b"".join(bytes([len(s)]) + s.encode("latin-1") for s in strings)
    if kind == "TLSA":
        usage, selector, matching, data = text.split()
        return bytes([int(usage), int(selector), int(matching)]) + bytes.fromhex(data)
    if kind == "SOA":
        return wire_name(text) + wire_name("root." + text) + struct.pack(">5I", 1, 3600, 600, 86400, TTL)
    return wire_name(text)


def record(owner, kind, data, ttl=TTL):
    return wire_name(owner) + struct.pack(">HHIH", TYPES[kind], 1, ttl, len(data)) + data


def maze(at, number):
    """Records whose owners are ever longer chains of pointers: name i is a pointer to that of record i - 1."""
    out, owner = [], b"\xc0\x0c"
    for _ in range(1000):
        rr = owner + struct.pack(">HHIH", number, 1, TTL, 4) + b"\1\2\3\4"
        out.append(rr)
        if at < 0x3fff:
            owner = struct.pack(">H", 0xc000 | at)
        at += len(rr)
    return out


class Lab:
    def __init__(self, zone, port=0):
        self.zone = {k.lower().rstrip("."): v for k, v in zone.items()}
        self.asked, self.lock, self.over = [], threading.Lock(), False
        for _ in range(100):
            self.tcp = socket.socket()
            self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.tcp.bind(("127.0.0.1", port or pepsi.free_port()))
                self.udp.bind(self.tcp.getsockname())
                break
            except OSError:
                self.udp.close()
                self.tcp.close()
                if port:
                    raise
        self.port = self.tcp.getsockname()[1]
        self.server = "127.0.0.1:%d" % self.port
        self.tcp.listen(64)
        self.stray = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.stray.bind(("127.0.0.1", 0))
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def close(self):
        self.over = True
        for s in (self.udp, self.tcp):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def count(self, name=None, kind=None):
        with self.lock:
            return len([a for a in self.asked if name in (None, a[0]) and kind in (None, a[1])])

    def entry(self, name):
        e, rest = self.zone.get(name), name
        while e is None and "." in rest:
            rest = rest.split(".", 1)[1]
            e = self.zone.get("*." + rest)
        return e(name) if callable(e) else e

    def what(self, name):
        e = self.entry(name)
        return (e or {}).get("DO", "")

    def answer(self, q, tcp):
        """(whole reply, name, what to do)."""
        parsed = read_question(q)
        if not parsed:
            return None
        name, number, question = parsed
        kind, do = NUMBERS.get(number, "?"), self.what(name)
        with self.lock:
            self.asked.append((name, kind, "tcp" if tcp else "udp"))
        answers, at, code = [], name, 0
        for _ in range(20):
            e = self.entry(at)
            if e is None:
                code = 3
                break
            values = e.get(kind, [])
            if values:
                answers += [record(at, kind, data_of(kind, v), e.get("TTL", TTL)) for v in values]
                break
            if "CNAME" not in e:
                break
            target = e["CNAME"][0]
            answers.append(record(at, "CNAME", wire_name(target), e.get("TTL", TTL)))
            at = target.lower().rstrip(".")
        authority = [] if answers and code == 0 else [record(at, "SOA", data_of("SOA", "ns.test"))]
        codes = {"servfail": 2, "refused": 5, "formerr": 1, "notimp": 4, "nx-data": 3}
        code = codes.get(do, code)
        if do in codes and do != "nx-data":
            answers = authority = []
        flags = 0x8180 | code | (0x20 if do == "ad" else 0)
        if do == "pointers":
            answers = [b"\xc0" + bytes([12 + len(question)]) + struct.pack(">HHIH", number, 1, TTL, 4) + b"\1\2\3\4"]
        if do == "lame":
            flags, answers, authority = 0x8100, [], [record(name, "NS", wire_name("ns." + name))]
        if do == "maze":
            answers = maze(12 + len(question), number)
        if do == "poison":
            answers = [record("good.test", "A", b"\x0a\0\0\1"), *answers, record("bank.test", "A", b"\x0a\0\0\1")]
            authority = [record("test", "NS", wire_name("ns.evil.test")), record("good.test", "A", b"\x0a\0\0\2")]
        if do == "wrong-type":
            answers = [record(name, "MX" if kind != "MX" else "A", b"\0\1\1x\0")]
        if do == "bad-length":
            answers = [record(name, kind, b"x" * 40)[:-30]]
        if do == "big-udp" and not tcp:
            answers = [record(name, "TXT", data_of("TXT", "x" * 4000))]
        if not tcp and (do in ("truncate", "drip", "cut", "no-tcp", "hang") or (len(b"".join(answers)) > 1100 and do != "big-udp")):
            flags |= 0x0200
            answers = authority = []
        if do == "no-question":
            question = b""
        head = struct.pack(">HHHHHH", struct.unpack(">H", q[:2])[0], flags, 1 if question else 0, len(answers), len(authority), 0)
        return head + question + b"".join(answers) + b"".join(authority), name, do

    def serve_udp(self):
        while not self.over:
            try:
                q, peer = self.udp.recvfrom(4096)
            except OSError:
                return
            got = self.answer(q, False)
            if not got:
                continue
            reply, _, do = got
            if do.startswith("delay "):
                threading.Timer(float(do.split()[1]), self.send, (reply, peer)).start()
            elif do == "wrong-source":
                self.stray.sendto(reply, peer)
            elif do == "wrong-id":
                self.send(bytes([reply[0] ^ 0x55]) + reply[1:], peer)
            elif do == "wrong-name":
                self.send(reply[:13] + b"?" + reply[14:], peer)
            elif do == "half":
                self.send(reply[:len(reply) // 2], peer)
            elif do == "garbage":
                self.send(reply[:2] + b"\xff" * 400, peer)
            elif do == "flood":
                for i in range(1, 101):
                    self.send(bytes([reply[0] ^ i]) + reply[1:], peer)
                self.send(reply, peer)
            elif do != "silent":
                self.send(reply, peer)

    def send(self, reply, peer):
        try:
            self.udp.sendto(reply, peer)
        except OSError:
            pass

    def serve_tcp(self):
        while not self.over:
            try:
                c, _ = self.tcp.accept()
            except OSError:
                return
            threading.Thread(target=self.session, args=(c,), daemon=True).start()

    def session(self, c):
        try:
            with c:
                c.settimeout(60)
                f = c.makefile("rb")
                while True:
                    head = f.read(2)
                    if len(head) < 2:
                        return
                    q = f.read(struct.unpack(">H", head)[0])
                    got = self.answer(q, True)
                    if not got:
                        return
                    reply, _, do = got
                    whole = struct.pack(">H", len(reply)) + reply
                    if do == "drip":
                        for i in range(len(whole)):
                            c.sendall(whole[i:i + 1])
                            time.sleep(1)
                    elif do == "cut":
                        c.sendall(whole[:len(whole) // 2])
                        return
                    elif do in ("silent", "hang"):
                        time.sleep(30)
                        return
                    elif do == "no-tcp":
                        return
                    else:
                        c.sendall(whole)
        except OSError:
            pass


if __name__ == "__main__":
    lab = Lab(json.load(sys.stdin), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(lab.server, flush=True)
    while True:
        time.sleep(3600)
