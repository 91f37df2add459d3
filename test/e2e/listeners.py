"""Ways in: unix sockets, IPv6, systemd's sockets; implicit TLS, SNI, tickets, client certificates, old TLS refused; certificates
and listeners exchanged by a reload while sessions stay open; PROXY and XCLIENT, from those who may and from others."""
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import time

import pepsi
from certs import Authority, run

DISCARD = "[stage-init]\nPROGRAM = pepsi-stage-discard\n"


class Wire:
    """A line-wise SMTP client over any connected socket; it may turn to TLS."""

    def __init__(self, sock, banner=True):
        self.sock = sock
        sock.settimeout(60)
        self.file = sock.makefile("rb")
        if banner:
            code, text = self.reply()
            pepsi.check(code == 220, "banner: %d %s" % (code, text))

    def reply(self):
        out = []
        while True:
            line = self.file.readline()
            if not line.endswith(b"\n"):
                raise pepsi.SmtpError("the connection ended")
            out.append(line[4:].strip().decode())
            if line[3:4] == b" ":
                return int(line[:3]), "\n".join(out)

    def cmd(self, line, want=None):
        self.sock.sendall(line.encode() + b"\r\n")
        code, text = self.reply()
        pepsi.check(want is None or code == want, "%s: %d %s, not %s" % (line, code, text, want))
        return text

    def starttls(self, context, name="mx.example.test", session=None):
        self.cmd("EHLO client.example.test", 250)
        self.cmd("STARTTLS", 220)
        self.file.close()
        self.sock = context.wrap_socket(self.sock, server_hostname=name, session=session)
        self.file = self.sock.makefile("rb")
        return self

    def message(self, rcpt="rcpt@example.test", token="x", verb="EHLO"):
        """One message; the queue id."""
        self.cmd(verb + " client.example.test", 250)
        self.cmd("MAIL FROM:<sender@example.test>", 250)
        self.cmd("RCPT TO:<%s>" % rcpt, 250)
        self.cmd("DATA", 354)
        self.sock.sendall(pepsi.message(token) + b".\r\n")
        code, text = self.reply()
        pepsi.check(code == 250, "not accepted: %d %s" % (code, text))
        return text.split("queued as ")[1].split()[0]

    def close(self):
        self.file.close()
        self.sock.close()


def tcp(port, host="127.0.0.1"):
    return socket.create_connection((host, port), 60)


def over_unix(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60)
    s.connect(path)
    return s


def section(name, bind, protocol="smtp", **options):
    text = "[listener-%s]\nBIND = %s\nPROTOCOL = %s\n" % (name, bind, protocol)
    for key, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            text += "%s = %s\n" % (key, one)
    return text


def pair(*pairs):
    """TLS options of a section; pairs of files in the order of the file."""
    return "".join("TLS_CERT = %s\nTLS_KEY = %s\n" % p for p in pairs)


def logged(d, *words):
    """The last line of the log that has all of them, or None."""
    with open(d.log, errors="replace") as f:
        found = [line for line in f if all(w in line for w in words)]
    return found[-1] if found else None


def held(t, **kw):
    """A daemon whose messages stay in the queue, to be looked at."""
    return pepsi.Pepsid(t, pepsi.smarthost("init", pepsi.free_port()) + pepsi.bounce(), **kw)


def show(d, queue_id):
    o = d.json("queue", "show", queue_id)
    return o[0] if isinstance(o, list) else o


def received(d, queue_id):
    """The first field of the message, unfolded."""
    code, out, err = d.cli("queue", "cat", queue_id)
    pepsi.check(code == 0, err)
    return re.sub(r"\s+", " ", re.match(r"(?s)(.*?\n)(?![ \t])", out.replace("\r\n", "\n")).group(1))


# ------------------------------------------------------------------------------------------------------------ sockets
def unix_socket(t):
    folder = os.path.join(t.dir, "sockets")
    os.mkdir(folder, 0o755)
    path = os.path.join(folder, "in")
    d = held(t, more=section("local", "unix:" + path, SOCKET_MODE="0660") + section("lmtp", "unix:%s/lmtp" % folder, "lmtp"))
    pepsi.check(os.stat(path).st_mode & 0o777 == 0o660, "permissions %o" % os.stat(path).st_mode)
    pepsi.check(os.stat(folder + "/lmtp").st_mode & 0o777 == 0o666, "permissions %o" % os.stat(folder + "/lmtp").st_mode)
    w = Wire(over_unix(path))
    origin = show(d, w.message())["state"]["origin"]
    pepsi.check(origin["ip"] == "unix" and origin["listener"] == "local", "origin %s" % origin)
    w.cmd("MAIL FROM:<sender@example.test>", 250)
    w.cmd("RCPT TO:<rcpt@far.test>", 550)  # a unix socket is no network of ours unless RELAY_NETWORKS says so
    w.close()
    w = Wire(over_unix(folder + "/lmtp"))
    text = received(d, w.message(verb="LHLO"))
    pepsi.check(" with LMTP id" in text, text)
    w.close()
    # whatever a dead daemon left is taken away; what somebody else listens on, or what is no socket, is not
    pepsi.check(d.running(), "it runs")
    d.process.kill()
    d.process.wait()
    pepsi.wait_for("all of it gone", lambda: not d.postgres_pids() and not pepsi.listener_pids(d.port), 30)
    pepsi.check(os.path.exists(path), "the socket is gone already")
    d.start()
    Wire(over_unix(path)).close()
    d.stop()
    if not pepsi.ROOT:
        pepsi.check(not os.path.exists(path), "the socket is left")
    for what, make in (("no socket", lambda: open(path, "w").close()), ("another process listens", lambda: other.listen(1))):
        if os.path.exists(path):
            os.unlink(path)
        if what != "no socket":
            other = socket.socket(socket.AF_UNIX)
            other.bind(path)
        make()
        d.start(wait=False)
        pepsi.check(d.process.wait(60) == 1 and logged(d, what, path), "%s: not refused" % what)
        pepsi.check(os.path.exists(path), "%s: removed" % what)
    other.close()
    os.unlink(path)
    os.chmod(folder, 0o777)
    d.start(wait=False)
    pepsi.check(d.process.wait(60) == 1 and logged(d, "may be written to by others"), "a folder open to all was taken")


def ipv6(t):
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
        except OSError:
            raise pepsi.Skip("no ::1 here")
    port = pepsi.free_port()
    d = held(t, more=section("six", "[::1]:%d" % port))
    w = Wire(tcp(port, "::1"))
    i = w.message()
    pepsi.check("([IPv6:::1])" in received(d, i), received(d, i))
    w.close()
    d.stop()


# Bound here and passed on: what systemd does for a .socket unit.
LAUNCHER = """
import os, socket, sys
names, path, argv = sys.argv[1], sys.argv[2], sys.argv[3:]
socks = []
for p in (int(sys.argv[2].split(",")[0]), int(sys.argv[2].split(",")[1])):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", p))
    s.listen(100)
    socks.append(s)
high = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(socks)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, True)
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(socks)), LISTEN_FDNAMES=names)
os.execv(argv[0], argv)
"""


def systemd(t):
    ports = [pepsi.free_port(), pepsi.free_port()]
    d = held(t, start=False, more=section("passed", "systemd:mx"))

    def launch(names):
        with open(d.log, "ab") as log:
            d.process = subprocess.Popen([shutil.which("python3"), "-c", LAUNCHER, names, "%d,%d" % tuple(ports), os.path.join(pepsi.BIN, "pepsid"), "-c",
                                          d.config, "--state", d.state], stdin=subprocess.DEVNULL, stdout=log, stderr=log, close_fds=True,
                                         env=dict(os.environ, **t.environment), preexec_fn=pepsi.die_with_me)
    launch("mx:mx")
    d.wait_ready()
    for p in ports:
        w = Wire(tcp(p))
        i = w.message()
        w.close()
        pepsi.check(show(d, i)["state"]["origin"]["listener"] == "passed", "not through that listener")
    # another reactor has them too, a reload keeps them, and no worker has any
    old = d.reactor_pid()
    os.kill(old, 9)
    pepsi.wait_for("another reactor", lambda: d.reactor_pid() not in (None, old), 30)
    d.wait_ready()
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))
    Wire(tcp(ports[1])).close()
    # (a child that was just forked has not closed them yet)
    pepsi.wait_for("nobody but spawner and reactor has the sockets", lambda: set(pepsi.listener_pids(ports[0])) == {d.spawner_pid(), d.reactor_pid()}, 10)
    d.stop()
    launch("smtp:lmtp")
    pepsi.check(d.process.wait(60) == 1 and logged(d, "none under this name"), "a wrong name was taken")
    d.start(wait=False)
    pepsi.check(d.process.wait(60) == 1 and logged(d, "systemd passed no sockets"), "no sockets were taken for some")


# ---------------------------------------------------------------------------------------------------------------- TLS
def tls(t):
    ca = Authority(t)
    one, two = ca.issue("mx.example.test", "DNS:mx.example.test"), ca.issue("other", "DNS:other.test,DNS:*.wild.test", days=5)
    port = pepsi.free_port()
    d = held(t, listener=pair(one, two), more=section("users", "127.0.0.1:%d" % port, "submissions") + pair(one))
    # which certificate: by name, by wildcard, and the first where none fits
    for name, want in (("mx.example.test", "mx.example.test"), ("other.test", "other"), ("a.wild.test", "other"), ("else.test", "mx.example.test")):
        c = ca.context()
        c.check_hostname = False
        w = Wire(tcp(d.port)).starttls(c, name)
        got = dict(x[0] for x in w.sock.getpeercert()["subject"])["commonName"]
        pepsi.check(got == want, "asked for %s, got %s" % (name, got))
        w.close()
    # tickets
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        c = ca.context(version)
        w = Wire(tcp(d.port)).starttls(c)
        w.cmd("NOOP", 250)
        pepsi.check(not w.sock.session_reused, "reused at once")
        session = w.sock.session
        w.close()
        w = Wire(tcp(d.port)).starttls(c, session=session)
        i = w.message()
        pepsi.check(w.sock.session_reused, "%s: not taken up" % version.name)
        text = received(d, i)
        pepsi.check("%s" % w.sock.version() in text and w.sock.cipher()[0] in text and " with ESMTPS id" in text, text)
        origin = show(d, i)["state"]["origin"]["tls"]
        pepsi.check(origin == {"protocol": w.sock.version(), "cipher": w.sock.cipher()[0], "bits": w.sock.cipher()[2]}, "origin %s" % origin)
        w.close()
    pepsi.check(d.metrics()["pepsi_smtp_tls_resumed_total"] == 2, "resumed %s" % d.metrics()["pepsi_smtp_tls_resumed_total"])
    # TLS first: the banner inside, no STARTTLS, and nobody sends without having signed in
    w = Wire(ca.context().wrap_socket(tcp(port), server_hostname="mx.example.test"))
    text = w.cmd("EHLO client.example.test", 250)
    pepsi.check("STARTTLS" not in text, text)
    w.cmd("MAIL FROM:<sender@example.test>", 530)
    w.close()
    s = tcp(port)  # plain text gets no plain answer
    s.sendall(b"EHLO client.example.test\r\n")
    try:
        got = s.recv(4096)
    except OSError:
        got = b""
    pepsi.check(not got.startswith(b"2") and b"example" not in got, "plaintext was answered: %r" % got)
    s.close()
    # seen by another implementation of the client; TLS 1.1 ends in an alert
    for args, want in ((["-tls1_2"], "TLSv1.2, Cipher is ECDHE-ECDSA-AES128-GCM-SHA256"), (["-tls1_3"], "TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384"),
                       (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "alert protocol version"), (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"], "handshake failure"),
                       (["-tls1_3", "-groups", "X448"], "handshake failure")):
        r = subprocess.run([ca.openssl, "s_client", "-connect", "127.0.0.1:%d" % d.port, "-starttls", "smtp", "-CAfile", ca.cert, "-brief"][:-1] + args,
                           input=b"QUIT\r\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        pepsi.check(want in r.stdout.decode(errors="replace"), "s_client %s: %s" % (args, r.stdout.decode(errors="replace")[-2000:]))
    # ends that come near are told
    certificates = d.status()["ingress"]["certificates"]
    soon = {c["file"]: c["expires_soon"] for c in certificates}
    pepsi.check(soon == {one[0]: False, two[0]: True}, "certificates %s" % certificates)
    pepsi.check(logged(d, "event=certificate-expires", two[0]), "no warning in the log")
    code, out, err = d.cli("status")
    pepsi.check(two[0] in out and "expires" in out, "pepsi status does not tell:\n" + out)
    pepsi.check(any(k.startswith('pepsi_tls_certificate_not_after_seconds{listener="mx",file="%s"' % two[0]) for k in d.metrics()), "no metric")
    d.stop()


def client_certificates(t):
    ca, strangers = Authority(t), Authority(t, "strangers")
    server = ca.issue("mx.example.test", "DNS:mx.example.test")
    alice = ca.issue("alice", "email:alice@example.test", use="clientAuth")
    mallory = strangers.issue("alice", "email:alice@example.test", file="mallory", use="clientAuth")
    must = pepsi.free_port()
    d = held(t, listener=pair(server) + "TLS_CLIENT_CA = %s\nTLS_CLIENT_CERT = ask\n" % ca.cert,
             more=section("must", "127.0.0.1:%d" % must, TLS_CLIENT_CA=ca.cert, TLS_CLIENT_CERT="require") + pair(server))
    want = run(ca.openssl, "x509", "-in", alice[0], "-noout", "-fingerprint", "-sha256").decode().split("=")[1].strip().replace(":", "").lower()
    for port in (d.port, must):
        w = Wire(tcp(port)).starttls(ca.context(identity=alice))
        origin = show(d, w.message())["state"]["origin"]["tls"]
        pepsi.check(origin.get("client_subject") == "CN=alice" and origin.get("client_fingerprint") == want, "origin %s" % origin)
        w.close()
    w = Wire(tcp(d.port)).starttls(ca.context())
    pepsi.check("client_subject" not in show(d, w.message())["state"]["origin"]["tls"], "a certificate from nowhere")
    w.close()
    # TLS 1.3 tells the client only after its own part of the handshake
    for port, identity in ((must, None), (must, mallory), (d.port, mallory)):
        try:
            w = Wire(tcp(port)).starttls(ca.context(identity=identity))
            w.cmd("EHLO client.example.test")
            raise pepsi.Failed("port %d: taken with %s" % (port, identity))
        except (ssl.SSLError, pepsi.SmtpError, OSError):
            pass
    # a ticket does not go from one listener to another with other rules
    c = ca.context(ssl.TLSVersion.TLSv1_2)
    w = Wire(tcp(d.port)).starttls(c)
    session = w.sock.session
    w.close()
    try:
        w = Wire(tcp(must)).starttls(c, session=session)
        w.cmd("EHLO client.example.test")
        raise pepsi.Failed("a ticket passed for a certificate")
    except (ssl.SSLError, pepsi.SmtpError, OSError):
        pass
    d.stop()


# ------------------------------------------------------------------------------------------------------------- reload
def subject(ca, port):
    """The serial number of the certificate a new session gets."""
    w = Wire(tcp(port)).starttls(ca.context())
    serial = w.sock.getpeercert()["serialNumber"]
    w.close()
    return serial


def reload(t):
    ca = Authority(t)
    certs = ca.issue("mx.example.test", "DNS:mx.example.test")
    d = held(t, listener=pair(certs))
    if pepsi.ROOT:  # the key is root's; the reactor is not root any more
        pepsi.check(pepsi.proc_status_uid(d.reactor_pid()) != 0 and os.stat(certs[1]).st_uid == 0, "the test tests nothing")
    first = subject(ca, d.port)
    stays = Wire(tcp(d.port)).starttls(ca.context())
    stays.cmd("EHLO client.example.test", 250)
    reactor = d.reactor_pid()

    # renewed as certbot does: other files under the same names
    ca.issue("mx.example.test", "DNS:mx.example.test")
    pepsi.check(subject(ca, d.port) == first, "a new certificate without a reload")
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))
    second = subject(ca, d.port)
    pepsi.check(second != first, "the old certificate is still shown")
    stays.message()
    pepsi.check(d.reactor_pid() == reactor, "another reactor")

    # no key is left in a process it does not belong to: nobody but the reactor has the sockets, and no child of root is left
    pepsi.wait_for("the helper of the reload is gone", lambda: not [p for p in pepsi.proc_tree(d.spawner_pid()) if pepsi.proc_comm(p) == "pepsi-grant"], 10)

    # a key that does not fit: told, and the old one goes on
    good = open(certs[1]).read()
    other = ca.issue("other", "DNS:other.test")
    shutil.copyfile(other[1], certs[1])
    code, out, err = d.cli("reload")
    pepsi.check(code != 0 and "does not belong to" in out + err, "a wrong key was taken: %s%s" % (out, err))
    pepsi.check(subject(ca, d.port) == second, "the certificate changed")
    with open(certs[1], "w") as f:
        f.write(good)

    # listeners come and go; sessions on those that went stay
    ports = [pepsi.free_port(), pepsi.free_port()]
    base = pepsi.smarthost("init", pepsi.free_port()) + pepsi.bounce()
    d.write_config(base, listener=pair(certs), more=section("new", "127.0.0.1:%d unix:%s/new" % (ports[0], t.dir)))
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))
    w = Wire(tcp(ports[0]))
    Wire(over_unix(t.dir + "/new")).close()
    d.write_config(base, listener=pair(certs), more=section("again", "127.0.0.1:%d" % ports[1]))
    code, out, err = d.cli("reload")
    pepsi.check(code == 0, "reload: %s%s" % (out, err))
    w.message()
    w.close()
    Wire(tcp(ports[1])).close()
    for connect in (lambda: tcp(ports[0]), lambda: over_unix(t.dir + "/new")):
        try:
            connect().close()
            raise pepsi.Failed("a listener that was removed still listens")
        except OSError:
            pass
    # one that cannot be had is told, the rest is done
    taken = socket.socket()
    taken.bind(("127.0.0.1", ports[0]))
    taken.listen(1)
    d.write_config(base, listener=pair(certs) + "MESSAGE_SIZE_LIMIT = 1 MiB\n", more=section("taken", "127.0.0.1:%d" % ports[0]))
    code, out, err = d.cli("reload")
    pepsi.check(code != 0 and "cannot listen on 127.0.0.1:%d" % ports[0] in out + err, "reload: %s%s" % (out, err))
    pepsi.check("SIZE 1048576" in Wire(tcp(d.port)).cmd("EHLO client.example.test", 250), "the rest is not in force")
    taken.close()
    stays.message()
    stays.close()
    d.stop()


# ------------------------------------------------------------------------------------------------------ PROXY, XCLIENT
def v2(src, dst, sport, dport, command=1, tlvs=b""):
    family, body = 0x11, socket.inet_aton(src) + socket.inet_aton(dst) if "." in src else b""
    if ":" in src:
        family, body = 0x21, socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst)
    body += struct.pack(">HH", sport, dport) + tlvs
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([0x20 | command, family]) + struct.pack(">H", len(body)) + body


def tlv(kind, value):
    return bytes([kind]) + struct.pack(">H", len(value)) + value


def proxy(t):
    ca = Authority(t)
    certs = ca.issue("mx.example.test", "DNS:mx.example.test")
    inside, users, path = pepsi.free_port(), pepsi.free_port(), os.path.join(t.dir, "proxied")
    d = held(t, more=section("behind", "127.0.0.1:%d unix:%s" % (inside, path), PROXY_FROM="127.0.0.0/8 unix") +
             section("users", "127.0.0.1:%d" % users, "submissions", PROXY_FROM="127.0.0.1") + pair(certs))

    def through(header, connect=lambda: tcp(inside), pieces=1):
        s = connect()
        step = max(1, len(header) // pieces)
        s.settimeout(60)
        for i in range(0, len(header), step):
            s.sendall(header[i:i + step])
            if pieces > 1:
                time.sleep(0.01)
        return Wire(s)

    info = tlv(2, b"mail.example.test") + tlv(0x20, b"\1\0\0\0\1" + tlv(0x21, b"TLSv1.3") + tlv(0x23, b"TLS_AES_128_GCM_SHA256"))
    for header, ip in ((b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 25\r\n", "192.0.2.7"), (b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 25\r\n", "2001:db8::7"),
                       (v2("192.0.2.8", "192.0.2.1", 4711, 25, tlvs=info), "192.0.2.8"), (v2("2001:db8::8", "2001:db8::1", 4711, 25), "2001:db8::8")):
        for pieces, connect in ((1, lambda: tcp(inside)), (7, lambda: tcp(inside)), (1, lambda: over_unix(path))):
            w = through(header, connect, pieces)
            i = w.message()
            row = show(d, i)
            origin = row["state"]["origin"]
            pepsi.check(origin["ip"] == ip and origin["port"] == 4711, "%r: %s" % (header, origin))
            pepsi.check(origin["proxy"]["ip"] == ("unix" if connect().family == socket.AF_UNIX else "127.0.0.1"), "origin %s" % origin)
            pepsi.check("[%s%s]" % ("IPv6:" if ":" in ip else "", ip) in received(d, i), "Received without the client")
            if b"mail.example.test" in header:
                pepsi.check(origin["proxy"].get("authority") == "mail.example.test" and origin["proxy"].get("tls_protocol") == "TLSv1.3", "origin %s" % origin)
            # the proxy is in RELAY_NETWORKS, its client is not
            w.cmd("MAIL FROM:<sender@example.test>", 250)
            w.cmd("RCPT TO:<rcpt@far.test>", 550)
            w.close()
    # the proxy itself (a health check), and clients it knows nothing of
    w = through(v2("192.0.2.8", "192.0.2.1", 1, 2, command=0))
    w.cmd("EHLO proxy.example.test", 250)
    w.cmd("MAIL FROM:<sender@example.test>", 250)
    w.cmd("RCPT TO:<rcpt@far.test>", 250)
    w.close()
    w = through(b"PROXY UNKNOWN\r\n")
    w.cmd("EHLO client.example.test", 250)
    w.cmd("MAIL FROM:<sender@example.test>", 250)
    w.cmd("RCPT TO:<rcpt@far.test>", 550)
    w.close()
    # a handshake right behind the header is left to TLS
    s = tcp(users)
    s.sendall(v2("192.0.2.9", "192.0.2.1", 4711, 465))
    w = Wire(ca.context().wrap_socket(s, server_hostname="mx.example.test"))
    w.cmd("EHLO client.example.test", 250)
    w.close()
    # nothing but a header is taken from a proxy; what follows before the banner is early talk
    for octets in (b"EHLO client.example.test\r\n", b"PROXY TCP4 1.2.3.4\r\n", b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0", b"PROXY " + b"x" * 200):
        s = tcp(inside)
        s.sendall(octets)
        s.settimeout(60)
        try:
            got = s.recv(4096)
        except OSError:
            got = b""
        pepsi.check(got == b"", "%r was answered %r" % (octets, got))
        s.close()
    s = tcp(inside)
    s.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 25\r\nEHLO early.example.test\r\n")
    got = s.makefile("rb").readline()
    pepsi.check(got.startswith(b"554 "), "early talk behind the header: %r" % got)
    s.close()
    # from others a header is nothing but bad manners
    s = tcp(d.port)
    f = s.makefile("rb")
    s.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 25\r\n")
    lines = [f.readline() for _ in range(2)]
    pepsi.check(lines[0].startswith(b"554") or (lines[0].startswith(b"220") and lines[1].startswith(b"5")), "answered %s" % lines)
    s.close()
    pepsi.check(d.metrics()['pepsi_smtp_rejected_total{reason="proxy"}'] >= 4, "refusals are not counted")
    pepsi.check(d.metrics()["pepsi_smtp_proxied_total"] >= 14, "proxied connections are not counted")
    d.stop()


def xclient(t):
    port = pepsi.free_port()
    d = held(t, more=section("filter", "127.0.0.1:%d" % port, XCLIENT_FROM="127.0.0.1"))
    pepsi.check("XCLIENT" not in Wire(tcp(d.port)).cmd("EHLO client.example.test", 250), "offered to anybody")
    w = Wire(tcp(d.port))
    w.cmd("EHLO client.example.test", 250)
    w.cmd("XCLIENT ADDR=192.0.2.7", 550)
    w.close()
    w = Wire(tcp(port))
    pepsi.check("XCLIENT" in w.cmd("EHLO proxy.example.test", 250), "not offered")
    w.cmd("XCLIENT ADDR=IPV6:2001:db8::7 NAME=host.example.test HELO=client.example.test LOGIN=alice", 220)
    i = w.message()
    row = show(d, i)
    origin, text = row["state"]["origin"], received(d, i)
    pepsi.check(origin["ip"] == "2001:db8::7" and origin["helo"] == "client.example.test" and origin["proxy"]["ip"] == "127.0.0.1", "origin %s" % origin)
    pepsi.check("from client.example.test (host.example.test [IPv6:2001:db8::7])" in text and " with ESMTPA id" in text, text)
    w.cmd("MAIL FROM:<sender@example.test>", 250)
    w.close()
    w = Wire(tcp(port))
    w.cmd("EHLO proxy.example.test", 250)
    w.cmd("XCLIENT ADDR=192.0.2.7", 220)
    pepsi.check("XCLIENT" not in w.cmd("EHLO client.example.test", 250), "the client has its proxy's rights")
    w.cmd("MAIL FROM:<sender@example.test>", 250)
    w.cmd("RCPT TO:<rcpt@far.test>", 550)
    w.close()
    d.stop()


# ------------------------------------------------------------------------------------------------------------- memory
def resident(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def memory(t):
    """What an idle session costs the reactor: the slope between 200 and 1000 of them (a tenth of that under sanitizers, whose
    memory says nothing)."""
    few, many = (20, 80) if pepsi.SANITIZED else (200, 800)
    ca = Authority(t)
    certs = ca.issue("mx.example.test", "DNS:mx.example.test")
    limits = "MAX_CONNECTIONS = 5000\nMAX_CONNECTIONS_PER_ADDRESS = 5000\n"
    d = pepsi.Pepsid(t, DISCARD, listener=limits + pair(certs))
    context, pid = ca.context(), d.reactor_pid()

    def idle(secure):
        w = Wire(tcp(d.port))
        if secure:
            w.starttls(context)
        w.cmd("EHLO client.example.test", 250)
        w.file.close()
        return w.sock
    for name, secure, most in (("plain", False, 16), ("TLS", True, 64)):
        crowd = [idle(secure) for _ in range(few)]
        before = resident(pid)
        crowd += [idle(secure) for _ in range(many)]
        each = (resident(pid) - before) / many
        pepsi.say("      %s: %.1f KiB for each idle session" % (name, each))
        pepsi.check(pepsi.SANITIZED or each <= most, "%s: %.1f KiB, more than %d" % (name, each, most))
        for s in crowd:
            s.close()
        pepsi.wait_for("no session left", lambda: d.status()["ingress"]["sessions"] == 0, 20)
    d.stop()


pepsi.main(__file__, [unix_socket, ipv6, systemd, tls, client_certificates, reload, proxy, xclient, memory])
