"""A next hop that does what it is told, and tells what it saw: an SMTP or LMTP server for tests of clients. One thread per connection.

    s = sink.Scripted(t, {"rcpt": "450 4.2.0 later", "eod": [sink.OK, "drop"]}, tls=(certificate, key))
    s.port                    a loopback port; address= and port= where it is to be another
    s.messages                [Taken, …]: envelope, content, connection, and for each recipient the reply code whose last octet left
    s.seen                    [Connection, …]: commands in plain text and within TLS, octets, why and when it ended
    s.script, s.tls = {}, …   may be changed at any time: what begins after that goes by it

A script maps a phase to what is done there, in this order where it is a list; phases that it does not name are as they should be:
    banner ehlo helo starttls tls mail rcpt data content eod bdat rset quit
    OK                   the reply that is due             "450 4.2.0 text"    another one
    b"…"                 these octets, whatever they are   0.5                 seconds of silence
    Drip(octets, pause)  one at a time                     Forever(octets)     again and again until the client is gone
    Raw(octets)          below TLS                         "bye"               the close_notify alert
    "hang"               no answer ever                    "drop", "reset"     the end, by FIN or by RST
"tls" is in the place of the handshake. "content" stands for what is done when so many octets of a message came: (octets, steps). A
function of the line's argument may stand for what is done. plan(connection) is called before the first octet, and may give a connection a script
of its own, and cuts: cut_in, cut_out: the connection ends when so many octets came, or left (of the wire: of TLS, those of its records).

What DATA brought is taken when the last dot is there, before the reply: a client that does not read that must send again."""
import re
import socket
import ssl
import struct
import threading
import time

import pepsi

OK = None
KEPT = 64 * 1024      # octets of what a client says that are kept of one connection
FOREVER = 256 << 20   # octets; whoever reads more than that is not bounded by anything


class Drip:
    def __init__(self, octets, pause=1.0):
        self.octets, self.pause = octets, pause


class Forever(Drip):
    def __init__(self, octets, pause=0.0):
        super().__init__(octets, pause)


class Raw:
    def __init__(self, octets):
        self.octets = octets


class Over(Exception):
    """The connection ends here; why. whole: what was being sent left to its last octet."""

    def __init__(self, why, whole=False):
        super().__init__(why)
        self.whole = whole


class Taken(pepsi.Received):
    def __init__(self, connection, mail_from, mail_params, rcpts, data, chunked):
        super().__init__(mail_from, mail_params, rcpts, data)
        self.connection, self.tls, self.chunked = connection, connection.tls, chunked
        self.answers = {}     # recipient → code, when all of the reply left


class Wire:
    """The octets of one connection, counted and cut; TLS over memory, so that cuts are of the wire."""

    def __init__(self, sock):
        self.sock, self.buffer, self.came, self.left = sock, b"", 0, 0
        self.cut_in = self.cut_out = self.ssl = self.watch = None

    def push(self, octets):
        if self.cut_in is not None and self.came >= self.cut_in:
            raise Over("cut-in")
        some = octets if self.cut_out is None else octets[:max(0, self.cut_out - self.left)]
        self.sock.sendall(some)
        self.left += len(some)
        if self.cut_out is not None and self.left >= self.cut_out:
            raise Over("cut-out", len(some) == len(octets))

    def pull(self):
        """Octets off the wire; b"": it is over."""
        limit = 65536 if self.cut_in is None else self.cut_in - self.came
        if limit <= 0:
            raise Over("cut-in")
        octets = self.sock.recv(limit)
        self.came += len(octets)
        return octets

    def send(self, octets):
        if self.ssl:
            self.ssl.write(octets)
            octets = self.outgoing.read()
        self.push(octets)

    def fill(self):
        """More of what the client says into the buffer; False: there is none any more."""
        while True:
            if self.ssl:
                try:
                    got = self.ssl.read(65536)
                    break
                except ssl.SSLWantReadError:
                    got = None
                except ssl.SSLError:
                    return False
            octets = self.pull()
            if not octets:
                return False
            if not self.ssl:
                got = octets
                break
            self.incoming.write(octets)
        self.buffer += got
        if self.watch and got:
            self.watch(len(got))
        return bool(got)

    def readline(self, limit=1 << 20):
        while b"\n" not in self.buffer and len(self.buffer) < limit:
            if not self.fill():
                break
        line, nl, rest = self.buffer.partition(b"\n")
        self.buffer = rest
        return line + nl

    def read(self, n):
        while len(self.buffer) < n and self.fill():
            pass
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def handshake(self, context, connection):
        self.incoming, self.outgoing, self.buffer = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        tls.connection = connection
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.push(self.outgoing.read())
                octets = self.pull()
                if not octets:
                    raise Over("closed in the handshake")
                self.incoming.write(octets)
            except ssl.SSLError as e:
                self.push(self.outgoing.read())
                raise Over("handshake: %s" % e)
        self.ssl = tls
        self.push(self.outgoing.read())


class Connection:
    def __init__(self, sink, sock, number):
        self.sink, self.number, self.script, self.local = sink, number, None, sock.getsockname()[0]
        self.wire, self.tls, self.sni = Wire(sock), None, None
        self.said = {False: [], True: []}    # commands in plain text, and within TLS
        self.kept = self.code = 0
        self.begun = 0                       # times that a client was told to send content
        self.began, self.ended, self.why = time.monotonic(), None, None

    def steps(self, phase, argument=""):
        s = (self.sink.script if self.script is None else self.script).get(phase, OK)
        if callable(s):
            s = s(argument)
        return s if isinstance(s, list) else [s]

    def hear(self, line):
        if self.kept < KEPT:
            self.said[self.tls is not None].append(line.rstrip(b"\r\n").decode("utf-8", "replace"))
            self.kept += len(line)

    def hang_up(self):
        """By another thread."""
        try:
            self.wire.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def hang(self):
        while self.wire.fill():
            self.wire.buffer = b""
        raise Over("closed")

    def play(self, steps, due):
        """The steps of a phase. The code of the last reply that left to its end, 0 without one; self.code has it, too, when the connection ends here."""
        wire, self.code = self.wire, 0
        for s in steps:
            if s is OK:
                s = due
            if s == "hang":
                self.hang()
            elif s in ("drop", "reset"):
                raise Over(s)
            elif s == "bye":
                try:
                    wire.ssl.unwrap()
                except ssl.SSLError:
                    pass
                wire.push(wire.outgoing.read())
            elif isinstance(s, (int, float)):
                time.sleep(s)
            elif isinstance(s, Raw):
                wire.push(s.octets)
            elif isinstance(s, Forever):
                for _ in range(FOREVER // len(s.octets)):
                    wire.send(s.octets)
                    time.sleep(s.pause)
                raise Over("it read all that was sent for ever")
            elif isinstance(s, Drip):
                for i in range(len(s.octets)):
                    wire.send(s.octets[i:i + 1])
                    time.sleep(s.pause)
                self.said_whole(s.octets)
            else:
                s = s if isinstance(s, bytes) else s.encode() + b"\r\n"
                try:
                    wire.send(s)
                except Over as e:
                    if e.whole:
                        self.said_whole(s)
                    raise
                self.said_whole(s)
        return self.code

    def said_whole(self, octets):
        m = re.search(rb"(?m)^(\d\d\d)[^-][^\n]*\n", octets)
        if m:
            self.code = int(m.group(1))
            self.begun += self.code == 354

    def act(self, phase, argument, due):
        return self.play(self.steps(phase, argument), due)


class Scripted(pepsi.Sink):
    def __init__(self, test, script=None, plan=None, **kw):
        self.plan, self.seen, self.contexts, self.keyword = plan, [], {}, {}
        super().__init__(test, **kw)
        self.script = script or {}

    # -- one connection
    def session(self, sock):
        sock.settimeout(120)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            c = Connection(self, sock, len(self.seen))
            self.seen.append(c)
            if self.plan:
                self.plan(c)
        c.why = "closed"
        try:
            self.converse(c)
        except Over as e:
            c.why = str(e)
        except (OSError, ValueError) as e:
            c.why = "lost: %s" % e
        finally:
            with self.lock:
                self.open.discard(sock)
            if c.why == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            c.ended = time.monotonic()

    def context(self):
        pair = self.tls
        if pair not in self.contexts:
            self.contexts[pair] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.contexts[pair].load_cert_chain(*pair)
            self.contexts[pair].sni_callback = lambda tls, name, _: setattr(tls.connection, "sni", name)
        return self.contexts[pair]

    def offer(self, c, verb):
        keys = [] if verb == "HELO" else list(self.tls_extensions if c.tls and self.tls_extensions is not None else self.extensions)
        if self.tls and not c.tls and verb == "EHLO" and "STARTTLS" not in keys:
            keys.append("STARTTLS")
        lines = ["sink.example.test"] + keys
        return "".join("250%s%s\r\n" % ("-" if i + 1 < len(lines) else " ", k) for i, k in enumerate(lines)).encode()

    def converse(self, c):
        if c.act("banner", "", b"220 sink.example.test ESMTP\r\n") // 100 != 2:
            c.hang()
        sender, params, rcpts, chunks = None, "", [], b""
        while True:
            line = c.wire.readline(8192)
            if not line.endswith(b"\n"):
                return
            c.hear(line)
            text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            verb = text.split(" ")[0].upper()
            if verb in ("EHLO", "LHLO", "HELO"):
                c.act("helo" if verb == "HELO" else "ehlo", text, self.offer(c, verb))
            elif verb == "STARTTLS" and self.tls:
                if c.act("starttls", "", b"220 2.0.0 go ahead\r\n") == 220:
                    steps = c.steps("tls")
                    if steps != [OK]:
                        c.play(steps, b"")
                    c.wire.handshake(self.context(), c)
                    c.tls = "%s %s" % (c.wire.ssl.version(), c.wire.ssl.cipher()[0])
            elif verb == "MAIL":
                if c.act("mail", text, b"250 2.1.0 ok\r\n") // 100 == 2:
                    m = re.match(r"(?i)MAIL FROM:<(.*?)>\s*(.*)$", text)
                    sender, params, rcpts, chunks = m.group(1), m.group(2), [], b""
            elif verb == "RCPT":
                if c.act("rcpt", text, b"250 2.1.5 ok\r\n") // 100 == 2 and sender is not None:
                    m = re.match(r"(?i)RCPT TO:<(.*?)>\s*(.*)$", text)
                    rcpts.append((m.group(1), m.group(2)))
            elif verb == "DATA":
                if not rcpts:
                    c.wire.send(b"554 5.5.1 no valid recipients\r\n")
                elif c.act("data", text, b"354 go ahead\r\n") == 354:
                    self.content(c)
                    data = self.read_data(c.wire)
                    c.wire.watch = None
                    if data is None:
                        return
                    self.take(c, sender, params, rcpts, data, False)
                    sender, rcpts = None, []
            elif verb == "BDAT":
                words = text.split(" ")
                chunk = c.wire.read(int(words[1]))
                if len(chunk) < int(words[1]):
                    return
                chunks += chunk
                if words[-1].upper() == "LAST" and rcpts:
                    self.take(c, sender, params, rcpts, chunks, True)
                    sender, rcpts, chunks = None, [], b""
                else:
                    c.act("bdat", text, b"250 2.0.0 more\r\n" if rcpts else b"503 5.5.1 no valid recipients\r\n")
            elif verb == "QUIT":
                c.act("quit", "", b"221 2.0.0 bye\r\n")
                c.why = "quit"
                return
            elif verb in ("RSET", "NOOP"):
                sender, rcpts, chunks = None, [], b""
                c.act("rset", "", b"250 2.0.0 ok\r\n")
            else:
                c.wire.send(b"500 5.5.2 what?\r\n")

    def content(self, c):
        for s in c.steps("content"):
            if not s:
                continue
            left = [s[0] - len(c.wire.buffer)]

            def watch(n, steps=s[1]):
                left[0] -= n
                if left[0] <= 0:
                    c.wire.watch = None
                    c.play(steps, b"")
            c.wire.watch = watch
            watch(0)

    def take(self, c, sender, params, rcpts, data, chunked):
        """Taken before the reply; what the replies were comes after it."""
        m = Taken(c, sender, params, rcpts, data, chunked)
        with self.lock:
            self.messages.append(m)
        for r in [[r] for r in rcpts] if self.lmtp else [rcpts]:
            c.code = 0
            try:
                c.act("eod", r[0][0], b"250 2.0.0 delivered\r\n" if self.lmtp else b"250 2.0.0 taken\r\n")
            finally:
                if c.code:
                    m.answers.update((x[0], c.code) for x in r)

    # -- what came of it
    def taken(self, token, rcpt=None):
        """(for good, perhaps): how often the message came and was answered with 2xx to the last octet, and how often it came and was not."""
        with self.lock:
            codes = [m.answers.get(r[0]) for m in self.messages if m.token == token for r in m.rcpts if rcpt in (None, r[0])]
        good = len([x for x in codes if x and x // 100 == 2])
        return good, len([x for x in codes if x is None])
