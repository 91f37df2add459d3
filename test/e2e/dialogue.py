"""Dialogues between a mail program and a server: recorded by a relay that stands between the two and ends TLS on both sides, kept in a file
that people can read, and said again to a server. A module; no test by itself.

A file of test/e2e/dialogues, one line an event, in the order in which they happened:

    #  anything               a comment; `# program:`, `# system:` and `# listener:` stand in it
    S  250 2.1.0 Ok\\r\\n        what the server sent, as much as came in one read
    C  12 MAIL FROM:…\\r\\n      what the client sent in one write (one TLS record), and how many milliseconds after the event before
    TLS                       the handshake; without one before the first S it is a plain connection
    END C                     who closed: C or S

Octets that are not printable ASCII are \\r, \\n, \\\\ or \\xHH."""
import os
import re
import select
import socket
import ssl
import threading
import time

import pepsi

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dialogues")


def quoted(octets):
    named = {10: "\\n", 13: "\\r", 92: "\\\\"}
    return "".join(named.get(c) or (chr(c) if 32 <= c < 127 else "\\x%02x" % c) for c in octets)


def unquoted(text):
    named = {"n": b"\n", "r": b"\r", "\\": b"\\"}
    parts = re.split(r"\\(x[0-9a-f]{2}|.)", text)
    return b"".join(p.encode("ascii") if i % 2 == 0 else named.get(p) or bytes.fromhex(p[1:]) for i, p in enumerate(parts))


class Recorder:
    """A relay to `port` that keeps one connection's dialogue at a time: `events` are (kind, milliseconds, octets). identity: (certificate,
    key) towards the client; towards the server it believes ca. implicit: TLS from the first octet."""

    def __init__(self, t, port, identity, ca, implicit=False):
        self.port, self.to, self.implicit = pepsi.free_port(), port, implicit
        self.server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server_side.load_cert_chain(*identity)
        self.client_side = ssl.create_default_context(cafile=ca)
        self.dialogues = []
        self.listener = socket.create_server(("127.0.0.1", self.port))
        t.cleanup(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(c,), daemon=True).start()

    def relay(self, c):
        events, at = [], [time.monotonic()]
        s = socket.create_connection(("127.0.0.1", self.to), 60)
        for x in (c, s):
            x.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def note(kind, octets=b""):
            now = time.monotonic()
            events.append((kind, int(1000 * (now - at[0])), octets))
            at[0] = now

        def to_tls():
            note("TLS")
            return self.server_side.wrap_socket(c, server_side=True), self.client_side.wrap_socket(s, server_hostname="localhost")
        try:
            if self.implicit:
                c, s = to_tls()
            asked = False
            while True:
                if not (isinstance(c, ssl.SSLSocket) and (c.pending() or s.pending())):
                    ready = select.select([c, s], [], [], 60)[0]
                else:
                    ready = [c] if c.pending() else [s]
                if not ready:
                    break
                # what a server said comes before what a client answers to it
                x = s if s in ready else c
                data = x.recv(65536)
                if not data:
                    note("END", b"S" if x is s else b"C")
                    break
                note("S" if x is s else "C", data)
                (c if x is s else s).sendall(data)
                if x is c and re.match(rb"(?i)STARTTLS\r\n$", data):
                    asked = True
                elif x is s and asked:
                    asked = False
                    if data.startswith(b"220"):
                        c, s = to_tls()
        except (OSError, ssl.SSLError):
            note("END", b"C")
        for x in (c, s):
            x.close()
        self.dialogues.append(events)


def write(name, program, system, listener, events):
    with open(os.path.join(FOLDER, name + ".txt"), "w") as f:
        f.write("# program: %s\n# system: %s\n# listener: %s\n" % (program, system, listener))
        for kind, ms, octets in events:
            if kind == "C":
                f.write("C %d %s\n" % (ms, quoted(octets)))
            else:
                f.write("%s %s\n" % (kind, quoted(octets)) if octets else kind + "\n")


class Dialogue:
    """One of the recorded files. messages: what it sends between 354 and the final dot, without the dots of transparency."""

    def __init__(self, path):
        self.name = os.path.basename(path)[:-4]
        self.about, self.events = {}, []
        with open(path) as f:
            for line in f.read().splitlines():
                m = re.match(r"# (program|system|listener): (.*)", line)
                if m:
                    self.about[m.group(1)] = m.group(2)
                elif line.startswith("C "):
                    _, ms, text = line.split(" ", 2)
                    self.events.append(("C", int(ms), unquoted(text)))
                elif line and line[0] != "#":
                    kind, _, text = line.partition(" ")
                    self.events.append((kind, 0, unquoted(text)))

    def groups(self):
        """The dialogue in turns: ("S", [code…]), ("C", [(ms, octets)…]), ("TLS",), ("END", who)."""
        out = []
        for kind, ms, octets in self.events:
            if kind in "SC" and out and out[-1][0] == kind:
                out[-1][1].append((ms, octets))
            else:
                out.append((kind, [(ms, octets)]))
        return [(k, re.findall(rb"(?m)^(\d{3}) ", b"".join(o for _, o in v))) if k == "S" else (k, v) for k, v in out]

    def messages(self):
        out, inside, data = [], False, b""
        for kind, _, octets in self.events:
            if kind == "S":
                inside = re.search(rb"(?m)^354", octets) is not None
                data = b""
            elif kind == "C" and inside:
                data += octets
                if data.endswith(b"\r\n.\r\n"):
                    out.append(re.sub(rb"(?m)^\.", b"", data[:-3]))
        return out


def recorded():
    return [Dialogue(os.path.join(FOLDER, n)) for n in sorted(os.listdir(FOLDER)) if n.endswith(".txt")]


def replay(d, port, ca, way):
    """Says the client's part to the server at port, each turn after the replies that came before it then. way: "recorded", in the writes and
    at the pace of then; "whole", each turn in one write; "octets", each octet in a write of its own. Fails where a reply has another code."""
    context = ssl.create_default_context(cafile=ca)
    s = socket.create_connection(("127.0.0.1", port), 30 * pepsi.PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    rest, said = b"", ""
    try:
        for kind, what in d.groups():
            if kind == "TLS":
                pepsi.check(not rest, "%s: replies ahead of TLS: %r" % (d.name, rest))
                s = context.wrap_socket(s, server_hostname="localhost")
            elif kind == "S":
                for code in what:
                    while True:
                        m = re.match(rb"(?:\d{3}-[^\n]*\n)*(\d{3}) [^\n]*\r\n", rest)
                        if m:
                            break
                        got = s.recv(65536)
                        pepsi.check(got, "%s (%s): closed; %s was to come after %s" % (d.name, way, code, said))
                        rest += got
                    pepsi.check(m.group(1) == code, "%s (%s): %r, then it was %s, after %s" % (d.name, way, m.group(0), code.decode(), said))
                    rest = rest[m.end():]
            elif kind == "C":
                said = quoted(what[-1][1][-200:])
                if way == "recorded":
                    for ms, octets in what:
                        time.sleep(min(ms, 40) / 1000)
                        s.sendall(octets)
                else:
                    octets = b"".join(o for _, o in what)
                    for i in range(0, len(octets), len(octets) if way == "whole" else 1):
                        s.sendall(octets[i:i + (len(octets) if way == "whole" else 1)])
        pepsi.check(not rest, "%s (%s): more replies than then: %r" % (d.name, way, rest))
    finally:
        s.close()
