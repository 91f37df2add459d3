"""What the end-to-end tests share: a daemon of their own, peers that misbehave on demand, and an SMTP client that
shows every octet. Standard library only; nothing listens beyond loopback. Everything a test starts is stopped by pid,
also when it fails or runs out of time.

A test is a program: functions that take a Test, and `pepsi.main(__file__, [functions])` at its end. Exit code 0 passed,
1 failed, 77 skipped (with a line that says why)."""
import ctypes
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from proc import alive, listener_pids, proc_cmdline, proc_comm, proc_exe, proc_parents, proc_state, proc_status_uid, proc_tree, proc_uid

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.path.abspath(os.environ.get("PEPSI_BIN") or os.path.join(SOURCE, "build", "bin"))
SANITIZED = os.environ.get("PEPSI_SANITIZED") == "1"
ROOT = os.geteuid() == 0
# How long a test may take, clean-up excluded; ctest's own limit lies above, since it kills without clean-up. Far above what any
# needs on a machine of its own: it may be slow, or busy with others.
TIME_LIMIT = int(os.environ.get("PEPSI_TIME_LIMIT") or 480)
# What is waited for gets so many times the time that it should take; nobody waits longer than it takes.
PATIENCE = 6 if SANITIZED else 3
# What is measured may be so many times what it should be: of a machine that does nothing else PEPSI_STRICT=1 asks for the figures.
SLACK = 1 if os.environ.get("PEPSI_STRICT") == "1" else 12 if SANITIZED else 6


class Skip(Exception):
    """The machine lacks something this test needs."""


class Failed(Exception):
    pass


def say(text):
    print(text, flush=True)


def check(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(what, condition, seconds=15.0, step=0.05):
    """Until condition() is true; its value. Fails with `what` after so many seconds, times PATIENCE."""
    end = time.monotonic() + seconds * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed("%s: not within %g s" % (what, seconds * PATIENCE))
        time.sleep(step)


_claims = []


def claim_port(port):
    """Makes the port this test's for as long as it runs; False when it is another's. The claim is a name in the abstract
    namespace of unix sockets: only one process can hold it, and it ends with its holder, however that ends."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind("\0pepsi-test-port-%d" % port)
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def free_port():
    """A loopback port that nobody listens on now, and no other call in this or any other test was given. Below those that
    the kernel gives to clients, so that none of them takes it before its owner listens."""
    for _ in range(1000):
        port = random.randint(20000, 32000)
        if not claim_port(port):
            continue
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise Failed("no free port")


def die_with_me():
    """In a child, before exec: SIGTERM when the test is gone, even by kill -9."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def service_account():
    """The account that stages and the private cluster run under: ours, or as root pepsi, or nobody."""
    if not ROOT:
        return pwd.getpwuid(os.geteuid())
    for name in ("pepsi", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Skip("neither an account pepsi nor nobody")


def copy_cluster(kind, where):
    """A PostgreSQL data folder of the service account's at `where`, copied from one that was made before for this build (test/cluster).
    False where that cannot be had."""
    command = [os.path.join(SOURCE, "test", "cluster"), kind, where, service_account().pw_name]
    r = subprocess.run(command, env=dict(os.environ, PEPSI_BUILD=os.path.dirname(BIN)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=60 * PATIENCE)
    check(r.returncode in (0, 3), "%s: %s" % (command, r.stdout.decode(errors="replace")))
    return r.returncode == 0


# ------------------------------------------------------------------------------------------------------ SMTP client
class SmtpError(Exception):
    pass


class Smtp:
    """One SMTP session, octet by octet; replies come as (code, text)."""

    def __init__(self, port, host="127.0.0.1", timeout=30, ehlo="client.example.test", source=None):
        self.sock = socket.create_connection((host, port), timeout, source and (source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")
        self.extensions = []
        self.banner = self.reply()
        if self.banner[0] != 220:
            raise SmtpError("banner %d %s" % self.banner)
        if ehlo:
            code, text = self.cmd("EHLO " + ehlo)
            if code != 250:
                raise SmtpError("EHLO: %d %s" % (code, text))
            self.extensions = text.split("\n")[1:]

    def reply(self):
        lines = []
        while True:
            line = self.file.readline(4096)
            if not line.endswith(b"\n"):
                raise SmtpError("connection closed")
            if not re.match(rb"\d{3}[ -]", line):
                raise SmtpError("no reply line: %r" % line)
            lines.append(line[4:].rstrip(b"\r\n").decode("utf-8", "replace"))
            if line[3:4] == b" ":
                return int(line[:3]), "\n".join(lines)

    def raw(self, octets):
        self.sock.sendall(octets)

    def cmd(self, line):
        self.raw((line if isinstance(line, bytes) else line.encode()) + b"\r\n")
        return self.reply()

    def envelope(self, mail_from, rcpts, params="", rcpt_params=""):
        """MAIL, RCPT, DATA up to the 354; (354, …) or the first refusal."""
        code, text = self.cmd("MAIL FROM:<%s>%s" % (mail_from, " " + params if params else ""))
        if code != 250:
            return code, text
        for r in [rcpts] if isinstance(rcpts, str) else rcpts:
            code, text = self.cmd("RCPT TO:<%s>%s" % (r, " " + rcpt_params if rcpt_params else ""))
            if code != 250:
                return code, text
        return self.cmd("DATA")

    def send(self, mail_from, rcpts, data, params="", rcpt_params=""):
        """One transaction; data with CRLF line ends. The last reply."""
        code, text = self.envelope(mail_from, rcpts, params, rcpt_params)
        if code != 354:
            if code != 421:
                try:
                    self.cmd("RSET")
                except (SmtpError, OSError):
                    pass
            return code, text
        if not data.endswith(b"\r\n"):
            data += b"\r\n"
        self.raw(re.sub(rb"(?m)^\.", b"..", data) + b".\r\n" if b"\n." in data or data[:1] == b"." else data + b".\r\n")
        return self.reply()

    def send_binary(self, mail_from, rcpts, data):
        """One transaction of BODY=BINARYMIME, in one chunk; the last reply."""
        code, text = self.cmd("MAIL FROM:<%s> BODY=BINARYMIME" % mail_from)
        for r in rcpts if code == 250 else ():
            code, text = self.cmd("RCPT TO:<%s>" % r) if code == 250 else (code, text)
        if code != 250:
            return code, text
        self.raw(b"BDAT %d LAST\r\n" % len(data) + data)
        return self.reply()

    def close(self):
        try:
            self.raw(b"QUIT\r\n")
            self.reply()
        except (SmtpError, OSError):
            pass
        self.file.close()
        self.sock.close()


def crlf(data):
    """LF or CRLF line ends → CRLF; a bare CR stays, so that it can be refused."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def message(token, size=0, subject="test", sender="sender@example.test", rcpt="rcpt@example.test"):
    """A message with X-Token, filled up with lines to about `size` octets."""
    head = ("From: <%s>\r\nTo: <%s>\r\nSubject: %s\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\n"
            "Message-ID: <%s@client.example.test>\r\nX-Token: %s\r\n\r\n" % (sender, rcpt, subject, token, token)).encode()
    line = b"all work and no play makes mail a dull thing to look at, line for line\r\n"
    return head + line * max(1, (size - len(head)) // len(line))


def token_of(data):
    m = re.search(rb"(?mi)^X-Token: (\S+)", data)
    return m.group(1).decode() if m else None


# ------------------------------------------------------------------------------------------------------------ sinks
class Received:
    """A message as the sink got it: envelope with parameters, and the octets between DATA and the final dot."""

    def __init__(self, mail_from, mail_params, rcpts, data):
        self.mail_from, self.mail_params, self.rcpts, self.data = mail_from, mail_params, rcpts, data
        self.at = time.time()
        self.token = token_of(data)


class Sink:
    """A next hop, SMTP or LMTP, one thread per connection. `script` maps a phase (banner, ehlo, mail, rcpt, data, eod)
    to what happens there: absent: all is well; "450 4.2.0 text": this reply; "hang": no answer ever; "drop": the
    connection closes; a function of the line's argument that gives one of these. It may change at any time."""

    def __init__(self, test, lmtp=False, extensions=("PIPELINING", "8BITMIME", "SIZE 52428800", "SMTPUTF8", "ENHANCEDSTATUSCODES", "DSN"), port=None,
                 tls=None, address="127.0.0.1"):
        """tls: (certificate, key) for STARTTLS; tls_extensions are then what EHLO offers inside, else the same"""
        self.address = address
        self.tls, self.tls_extensions = tls, None
        self.lmtp, self.extensions, self.script = lmtp, list(extensions), {}
        self.port = port or free_port()
        self.messages, self.connections, self.lock = [], 0, threading.Lock()
        self.listener, self.open = None, set()
        self.delay = 0.0
        self.up()
        test.cleanup(self.down)

    def up(self):
        s = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((self.address, self.port))
        s.listen(256)
        self.listener = s
        threading.Thread(target=self.accept, args=(s,), daemon=True).start()

    def down(self):
        """Refuses connections from now on and drops those that are open."""
        if self.listener:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        for c in list(self.open):
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept(self, listener):
        while True:
            try:
                c, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.add(c)
            threading.Thread(target=self.session, args=(c,), daemon=True).start()

    def act(self, c, phase, argument, ok):
        """Plays the phase's script. True: go on as accepted; False: refused; None: the connection is over."""
        s = self.script.get(phase)
        if callable(s):
            s = s(argument)
        if s is None:
            c.sendall(ok)
            return True
        if s == "hang":
            while c in self.open and self.listener:
                if not c.recv(65536):
                    return None
            return None
        if s == "drop":
            return None
        c.sendall(s.encode() + b"\r\n")
        return False

    def session(self, c):
        try:
            c.settimeout(120)
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.dialogue(c)
        except (OSError, ValueError):
            pass
        finally:
            with self.lock:
                self.open.discard(c)
            c.close()

    def dialogue(self, c):
        if self.act(c, "banner", "", b"220 sink.example.test ESMTP\r\n") is None:
            return
        f = c.makefile("rb")
        sender, sender_params, rcpts, chunks = None, "", [], []
        while True:
            line = f.readline(8192)
            if not line.endswith(b"\n"):
                return
            text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            verb = text.split(" ")[0].upper()
            if verb in ("EHLO", "LHLO", "HELO"):
                offer = self.tls_extensions if self.tls_extensions is not None and isinstance(c, ssl.SSLSocket) else self.extensions
                keys = ["sink.example.test"] + (list(offer) if verb != "HELO" else [])
                ok = "".join("250%s%s\r\n" % ("-" if i + 1 < len(keys) else " ", k) for i, k in enumerate(keys)).encode()
                done = self.act(c, "ehlo", text, ok)
            elif verb == "MAIL":
                done = self.act(c, "mail", text, b"250 2.1.0 ok\r\n")
                if done:
                    m = re.match(r"(?i)MAIL FROM:<(.*?)>\s*(.*)$", text)
                    sender, sender_params, rcpts = m.group(1), m.group(2), []
            elif verb == "RCPT":
                done = self.act(c, "rcpt", text, b"250 2.1.5 ok\r\n")
                if done:
                    m = re.match(r"(?i)RCPT TO:<(.*?)>\s*(.*)$", text)
                    rcpts.append((m.group(1), m.group(2)))
            elif verb == "DATA":
                if not rcpts:
                    c.sendall(b"554 5.5.1 no valid recipients\r\n")
                    continue
                done = self.act(c, "data", text, b"354 go ahead\r\n")
                if done:
                    data = self.read_data(f)
                    if data is None:
                        return
                    if self.delay:
                        time.sleep(self.delay)
                    if self.lmtp:
                        good = []
                        for r in rcpts:
                            done = self.act(c, "eod", r[0], b"250 2.0.0 delivered\r\n")
                            if done is None:
                                return
                            if done:
                                good.append(r)
                    else:
                        # stored before the reply: a sink that is killed or cut off has taken it all the same
                        good = rcpts if self.script.get("eod") is None else []
                        if good:
                            self.store(sender, sender_params, good, data)
                        done = self.act(c, "eod", "", b"250 2.0.0 taken\r\n")
                        if done and not good:
                            self.store(sender, sender_params, rcpts, data)
                    if self.lmtp and good:
                        self.store(sender, sender_params, good, data)
                    rcpts = []
            elif verb == "BDAT":
                data = f.read(int(text.split(" ")[1]))
                chunks.append(data)
                if text.upper().endswith(" LAST"):
                    self.store(sender, sender_params + " (BDAT)", rcpts, b"".join(chunks))
                    rcpts, chunks = [], []
                c.sendall(b"250 2.0.0 taken\r\n")
                done = True
            elif verb == "STARTTLS" and self.tls:
                c.sendall(b"220 2.0.0 go ahead\r\n")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*self.tls)
                c = context.wrap_socket(c, server_side=True)
                f = c.makefile("rb")
                done = True
            elif verb in ("RSET", "NOOP"):
                rcpts = []
                c.sendall(b"250 2.0.0 ok\r\n")
                done = True
            elif verb == "QUIT":
                c.sendall(b"221 2.0.0 bye\r\n")
                return
            else:
                c.sendall(b"500 5.5.2 what?\r\n")
                done = True
            if done is None:
                return

    @staticmethod
    def read_data(f):
        lines = []
        while True:
            line = f.readline()
            if not line.endswith(b"\n"):
                return None
            if line == b".\r\n":
                return b"".join(lines)
            lines.append(line[1:] if line.startswith(b".") else line)

    def store(self, *what):
        with self.lock:
            self.messages.append(Received(*what))

    def tokens(self):
        with self.lock:
            return [m.token for m in self.messages]


# ----------------------------------------------------------------------------------------------------------- pepsid
class Pepsid:
    """One daemon with a state folder of its own. `stages` is the text of the [stage-…] sections and whatever else
    the test wants; `pepsi`, `listener` and `more` are further lines of those sections / of the file. Its private database
    is a copy of one that was made before, unless the test is about the first start of all."""

    def __init__(self, test, stages, pepsi="", listener="", more="", start=True, first_start=False):
        self.first_start = first_start
        self.test, self.port, self.http = test, free_port(), free_port()
        self.dir = os.path.join(test.dir, "d%d" % test.next_number())
        self.state = os.path.join(self.dir, "state")
        self.mail = os.path.join(self.dir, "mail")
        os.makedirs(self.state)
        os.mkdir(self.mail, 0o700)
        if ROOT:
            os.chown(self.mail, service_account().pw_uid, service_account().pw_gid)
        self.config = os.path.join(self.dir, "pepsi.conf")
        self.log = os.path.join(self.dir, "pepsid.log")
        self.settled = None  # how long the log was when counts() last waited
        self.process = None
        self.write_config(stages, pepsi, listener, more)
        test.daemons.append(self)
        if start:
            self.start()

    def write_config(self, stages, pepsi="", listener="", more=""):
        domains = "" if "LOCAL_DOMAINS" in pepsi else "LOCAL_DOMAINS = example.test\n"
        networks = "" if "RELAY_NETWORKS" in pepsi else "RELAY_NETWORKS = 127.0.0.0/8\n"
        if "STATE_DIR" not in pepsi:
            pepsi += "STATE_DIR = %s\n" % self.state
        # hundreds of sessions from one address are what these tests are about
        limit = "" if "MAX_CONNECTIONS" in listener else "MAX_CONNECTIONS_PER_ADDRESS = 1000\n"
        if "[pepsi-dns]" not in more + stages:
            more += "[pepsi-dns]\nSERVERS = 127.0.0.1:9\n"  # nobody beyond loopback is ever asked
        with open(self.config, "w") as f:
            f.write("[pepsi]\nHOSTNAME = mx.example.test\n%s%s%s\n[listener-mx]\nBIND = 127.0.0.1:%d\nPROTOCOL = smtp\n%s%s\n"
                    "[pepsi-httpd]\nBIND = 127.0.0.1:%d\n\n%s\n%s\n"
                    % (domains, networks, pepsi, self.port, limit, listener, self.http, more, stages))
        os.chmod(self.config, 0o644)

    def own_database(self):
        """Is it to have a private cluster, which is not there yet?"""
        with open(self.config) as f:
            theirs = re.search(r"(?ms)^\[pepsi-postgres\][^\[]*?^CONFIG\s*=", f.read())
        return not theirs and not os.path.exists(os.path.join(self.state, "postgres"))

    def start(self, wait=True):
        if not self.first_start and os.environ.get("PEPSI_TEMPLATE") != "0" and self.own_database():
            copy_cluster("embedded", os.path.join(self.state, "postgres"))
        env = dict(os.environ, **self.test.environment)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(BIN, "pepsid"), "-c", self.config, "--state", self.state],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, preexec_fn=die_with_me)
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=60):
        end = time.monotonic() + seconds * PATIENCE
        while True:
            code, out, err = self.cli("status", "--wait", "2", timeout=30)
            if code == 0:
                return
            if not self.running():
                raise Failed("pepsid ended with %s before it was ready" % self.process.returncode)
            if time.monotonic() > end:
                raise Failed("pepsid is not ready after %d s: %s" % (seconds, err))

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds=30):
        """An orderly stop; fails when it takes too long or the exit code is not 0."""
        if not self.running():
            return
        tree = proc_tree(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed("pepsid did not stop within %d s of SIGTERM" % seconds)
        check(code == 0, "pepsid ended with %s after SIGTERM" % code)
        wait_for("children gone after the stop", lambda: not [p for p in tree if alive(p)], 5)

    def destroy(self):
        """Whatever happened: nothing of it is left."""
        if self.process is None:
            return
        tree = proc_tree(self.process.pid) if self.process.poll() is None else []
        if self.running():
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                tree += proc_tree(self.process.pid)
                self.process.kill()
                self.process.wait()
        tree += self.postgres_pids()
        end = time.monotonic() + 10
        while [p for p in tree if alive(p)] and time.monotonic() < end:
            time.sleep(0.05)
        for p in tree:
            if alive(p) and (proc_exe(p).startswith(BIN) or "postgres" in proc_exe(p)):
                say("had to kill %d %s" % (p, proc_cmdline(p)))
                for s in (signal.SIGCONT, signal.SIGKILL):
                    try:
                        os.kill(p, s)
                    except OSError:
                        pass

    # -- its processes
    def spawner_pid(self):
        return self.process.pid

    def reactor_pid(self):
        tree = set(proc_tree(self.process.pid))
        found = [p for p in listener_pids(self.port) if p in tree]
        # who listens and has no child among those that listen: sockets may be held by the spawner too
        named = [p for p in found if "reactor" in proc_cmdline(p) or "reactor" in proc_comm(p)]
        found = named or found
        return found[0] if found else None

    def worker_pids(self, stage):
        """As `pepsi status` has them; only those that are really there."""
        found = [g for g in self.status()["stages"] if g["name"] == stage]
        tree = set(proc_tree(self.process.pid))
        return [p for g in found for p in g["pids"] if p in tree]

    def postmaster_pid(self):
        try:
            with open(os.path.join(self.state, "postgres", "postmaster.pid")) as f:
                return int(f.readline())
        except (OSError, ValueError):
            return None

    def postgres_pids(self):
        p = self.postmaster_pid()
        return [p] + proc_tree(p) if p and alive(p) and "postgres" in proc_exe(p) else []

    # -- talking to it
    def cli(self, *args, timeout=60, stdin=None, uid=None):
        """(exit code, stdout, stderr) of `pepsi -c CONFIG args…`"""
        command = [os.path.join(BIN, "pepsi"), "-c", self.config] + list(args)
        if uid is not None:
            command = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] + command
        env = dict(os.environ, **self.test.environment)
        r = subprocess.run(command, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=timeout * PATIENCE, env=env)
        return r.returncode, r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")

    def json(self, *args):
        code, out, err = self.cli("--json", *args)
        check(code == 0, "pepsi --json %s: exit %d: %s%s" % (" ".join(args), code, out, err))
        try:
            return json.loads(out)
        except ValueError:
            raise Failed("pepsi --json %s: no JSON: %r" % (" ".join(args), out[:300]))

    def status(self):
        return self.json("status")

    def queue(self, *args):
        return self.json("queue", "list", *args)

    def wait_empty(self, seconds=30):
        try:
            wait_for("queue empty", lambda: self.status()["queue"]["total"] == 0, seconds, 0.1)
        except Failed as e:
            rows = self.queue()
            raise Failed("%s; %s; %d rows, e.g. %s" % (e, self.status()["queue"], len(rows), rows[:3]))

    def send(self, mail_from, rcpts, data, **kw):
        """One message in one session; (code, text)."""
        s = Smtp(self.port)
        try:
            return s.send(mail_from, rcpts, data, **kw)
        finally:
            s.close()

    def accept(self, mail_from, rcpts, data, binary=False, **kw):
        """As send(), must be accepted; the queue id."""
        if binary:
            s = Smtp(self.port)
            code, text = s.send_binary(mail_from, [rcpts] if isinstance(rcpts, str) else rcpts, data)
            s.close()
        else:
            code, text = self.send(mail_from, rcpts, data, **kw)
        check(code == 250, "not accepted: %d %s" % (code, text))
        m = re.search(r"queued as (\S+)", text)
        check(m, "no queue id in the 250: %s" % text)
        return m.group(1)

    def http_get(self, path, timeout=10):
        """(status, body) of one GET; Connection: close."""
        with socket.create_connection(("127.0.0.1", self.http), timeout) as s:
            s.sendall(("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (path, self.http)).encode())
            data = b""
            while True:
                got = s.recv(65536)
                if not got:
                    break
                data += got
        head, _, body = data.partition(b"\r\n\r\n")
        check(head.startswith(b"HTTP/1.1 "), "no HTTP answer: %r" % head[:80])
        if re.search(rb"(?mi)^transfer-encoding:\s*chunked", head):
            out = b""
            while body:
                size, _, body = body.partition(b"\r\n")
                n = int(size, 16)
                out, body = out + body[:n], body[n + 2:]
                if n == 0:
                    break
            body = out
        return int(head.split()[1]), body.decode()

    def metrics(self):
        """{name{labels}: value} of /metrics"""
        status, body = self.http_get("/metrics")
        check(status == 200, "/metrics: %d" % status)
        return dict((k, float(v)) for k, v in (line.rsplit(" ", 1) for line in body.splitlines() if line and line[0] != "#"))

    def module(self, name, stage="init", **labels):
        """One value of what a stage's module counts (pepsi_module_…); None when it is not there."""
        return self.metrics().get('pepsi_module_%s{stage="%s"%s}' % (name, stage, "".join(',%s="%s"' % kv for kv in labels.items())))

    def counts(self, want, name, stage="init", seconds=20, **labels):
        """Waits until it has that value, and looks whether it stays: a worker tells once a second, so a value too low is met on the way to another."""
        what = "%s of %s %s" % (name, stage, labels)
        wait_for("%s = %s" % (what, want), lambda: self.module(name, stage, **labels) == want, seconds, 0.1)
        size = os.path.getsize(self.log)
        if self.settled != size:  # something was done since the last look
            time.sleep(1.3)
            self.settled = os.path.getsize(self.log)
        got = self.module(name, stage, **labels)
        check(got == want, "%s went on to %s, %s was expected" % (what, got, want))

    def maildir(self, address):
        """Messages in the Maildir of `address`, oldest first, as octets with CRLF line ends."""
        local, _, domain = address.partition("@")
        new = os.path.join(self.mail, domain, local, "new")
        out = []
        try:
            names = os.listdir(new)
        except FileNotFoundError:
            return out
        for n in sorted(names):
            with open(os.path.join(new, n), "rb") as f:
                out.append(crlf(f.read()))
        return out


TRACE = re.compile(rb"(?:(?:Return-Path|Received|Delivered-To|X-Original-To|Authentication-Results):[^\r\n]*\r\n(?:[ \t][^\r\n]*\r\n)*)*\Z", re.I)


def below_trace(delivered, sent):
    """Is `delivered` what was sent, octet for octet, below nothing but trace headers? A reason when it is not.
    Only a message without any empty line may have got one: at its end (all header), or before it (no header at all)."""
    sent = sent if sent.endswith(b"\r\n") else sent + b"\r\n"
    tails = [sent]
    if b"\r\n\r\n" not in b"\r\n" + sent:
        tails += [sent + b"\r\n", b"\r\n" + sent]
    for tail in tails:
        if delivered.endswith(tail):
            head = delivered[:len(delivered) - len(tail)]
            if TRACE.match(head) and b"Received:" in head:
                return None
    i = 0
    for tail in tails[:1]:
        at = delivered.find(tail[:20])
        body = delivered[at:] if at >= 0 else delivered
        while i < min(len(body), len(tail)) and body[i] == tail[i]:
            i += 1
    return "differs: sent %d octets, got %d; around octet %d: sent %r, got %r" % (len(sent), len(delivered), i, sent[max(0, i - 30):i + 40], body[max(0, i - 30):i + 40])


# ----------------------------------------------------------------------------------------------------- stage sections
def route(name, rules, default=None, bounce="bounce"):
    """A routing stage: rules is [(domain or address, stage)]."""
    lines = ["[stage-%s]" % name, "PROGRAM = pepsi-stage-route"]
    lines += ["ROUTE_%d = %s %s" % (i + 1, pattern, stage) for i, (pattern, stage) in enumerate(rules)]
    if default:
        lines.append("DEFAULT = %s" % default)
    if bounce:
        lines.append("BOUNCE_STAGE = %s" % bounce)
    return "\n".join(lines) + "\n\n"


def smarthost(name, port, more="", bounce="bounce"):
    return ("[stage-%s]\nPROGRAM = pepsi-stage-relay-to-smarthost\nHOST = 127.0.0.1\nPORT = %d\nTLS = none\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n%s%s\n\n"
            % (name, port, "BOUNCE_STAGE = %s\n" % bounce if bounce else "", more))


def lmtp(name, where, more="", bounce="bounce"):
    """where: a port, or the path of a unix socket"""
    hop = "SOCKET = %s" % where if isinstance(where, str) else "HOST = 127.0.0.1\nPORT = %d" % where
    return ("[stage-%s]\nPROGRAM = pepsi-stage-relay-to-lmtp\n%s\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n%s%s\n\n"
            % (name, hop, "BOUNCE_STAGE = %s\n" % bounce if bounce else "", more))


def maildir(name, folder, more="", bounce="bounce"):
    return ("[stage-%s]\nPROGRAM = pepsi-stage-relay-to-maildir\nMAILDIR = %s/${domain}/${local}\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\n%s%s\n\n"
            % (name, folder, "BOUNCE_STAGE = %s\n" % bounce if bounce else "", more))


def bounce(name="bounce", to="init", more=""):
    return "[stage-%s]\nPROGRAM = pepsi-stage-bounce\nNEXT_STAGE = %s\n%s\n\n" % (name, to, more)


# ------------------------------------------------------------------------------------------------------------- load
class Load:
    """Threads that keep sending small messages until told to stop, whatever happens to the server. `acked` is the
    tokens that got their 250, in no order; refused counts 4xx answers, broken lost connections."""

    def __init__(self, daemon, sessions=8, size=2000, rcpt="rcpt@far.test", pause=0.0, prefix="t"):
        self.daemon, self.size, self.rcpt, self.pause, self.prefix = daemon, size, rcpt, pause, prefix
        self.acked, self.refused, self.broken, self.wrong = [], 0, 0, []
        self.lock, self.over = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,), daemon=True) for i in range(sessions)]
        for t in self.threads:
            t.start()

    def run(self, n):
        i, session = 0, None
        while not self.over.is_set():
            token = "%s-%d-%d" % (self.prefix, n, i)
            i += 1
            try:
                if session is None:
                    session = Smtp(self.daemon.port, timeout=60)
                code, text = session.send("sender@example.test", self.rcpt, message(token, self.size))
                with self.lock:
                    if code == 250:
                        self.acked.append(token)
                    elif 400 <= code < 500:
                        self.refused += 1
                    else:
                        self.wrong.append("%d %s" % (code, text))
                if code == 421:
                    session.close()
                    session = None
                if code != 250:
                    self.over.wait(0.05)
            except (OSError, SmtpError):
                session = None
                with self.lock:
                    self.broken += 1
                self.over.wait(0.05)
            if self.pause:
                self.over.wait(self.pause)
        if session:
            session.close()

    def count(self):
        with self.lock:
            return len(self.acked)

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(90)
            check(not t.is_alive(), "a load session hangs")
        check(not self.wrong, "permanent refusals under load: %s" % self.wrong[:3])
        return list(self.acked)


# ------------------------------------------------------------------------------------------------------------- test
class Test:
    def __init__(self, name):
        self.name, self.cleanups, self.daemons, self.number = name, [], [], 0
        base = tempfile.gettempdir()
        if len(base) > 40:  # unix sockets lie below: 107 octets at most
            base = "/tmp"
        self.dir = tempfile.mkdtemp(prefix="pepsi-%s-" % name[:12], dir=base)
        os.chmod(self.dir, 0o755)
        self.sanitizer = os.path.join(self.dir, "sanitizer")
        os.mkdir(self.sanitizer)
        os.chmod(self.sanitizer, 0o1777)
        log = os.path.join(self.sanitizer, "log")
        self.environment = {
            "ASAN_OPTIONS": "log_path=%s:detect_leaks=0:abort_on_error=0:exitcode=99:allocator_may_return_null=1" % log,
            "UBSAN_OPTIONS": "log_path=%s:print_stacktrace=1" % log,
        }

    def next_number(self):
        self.number += 1
        return self.number

    def cleanup(self, function):
        self.cleanups.append(function)

    def popen(self, command, log=None, **kw):
        """A peer, stopped at the end of the test."""
        out = open(log, "ab") if log else subprocess.DEVNULL
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_me, **kw)
        if log:
            out.close()

        def end():
            if p.poll() is None:
                p.terminate()
                try:
                    p.wait(10)
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
        self.cleanup(end)
        return p

    def sanitizer_reports(self):
        out = []
        for n in sorted(os.listdir(self.sanitizer)):
            with open(os.path.join(self.sanitizer, n), errors="replace") as f:
                out.append(f.read())
        return out

    def finish(self):
        for d in self.daemons:
            try:
                d.destroy()
            except Exception:
                traceback.print_exc()
        for f in reversed(self.cleanups):
            try:
                f()
            except Exception:
                traceback.print_exc()


def need(*programs):
    """Paths of these programs, or Skip."""
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
    out = []
    for p in programs:
        found = shutil.which(p, path=path)
        if not found:
            raise Skip("%s is not installed" % p)
        out.append(found)
    return out[0] if len(out) == 1 else out


def own_mounts(file):
    """Before main(): as root, runs the test again in a mount namespace of its own, so that what it mounts is gone with
    it whatever happens. Where that cannot be had, private_mounts() stays false."""
    if ROOT and not os.environ.get("PEPSI_OWN_MOUNTS") and subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0:
        os.environ["PEPSI_OWN_MOUNTS"] = "1"
        os.execvp("unshare", ["unshare", "-m", "--propagation", "private", sys.executable, os.path.abspath(file)] + sys.argv[1:])


def private_mounts():
    return os.environ.get("PEPSI_OWN_MOUNTS") == "1"


def vectors():
    """The folder of shared test vectors, or Skip."""
    for d in (os.environ.get("PEPSI_VECTORS"), os.path.join(os.path.dirname(SOURCE), "shared", "vectors")):
        if d and os.path.isdir(d):
            return d
    raise Skip("no test vectors: neither PEPSI_VECTORS nor ../shared/vectors")


def main(file, functions):
    name = os.path.basename(file)[:-3]
    if not os.access(os.path.join(BIN, "pepsid"), os.X_OK):
        say("FAIL: no pepsid in %s (PEPSI_BIN)" % BIN)
        sys.exit(1)
    ours = {n[:-3] for n in os.listdir(os.path.dirname(os.path.abspath(file))) if n.endswith(".py")}
    hidden = ours & set(getattr(sys, "stdlib_module_names", ()))
    if hidden:  # whatever imports that gets our file in its place
        say("FAIL: named like a module of the standard library: %s" % " ".join(sorted(hidden)))
        sys.exit(1)
    t = Test(name)

    def too_long(*_):
        raise Failed("the test took longer than %d s" % TIME_LIMIT)

    def interrupted(*_):
        raise Failed("interrupted")
    signal.signal(signal.SIGALRM, too_long)
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    signal.alarm(TIME_LIMIT)
    failed, skipped, passed = [], [], 0
    wanted = sys.argv[1:]
    for f in functions:
        if wanted and f.__name__ not in wanted:
            continue
        begin = time.monotonic()
        try:
            f(t)
            passed += 1
            say("ok    %s (%.1f s)" % (f.__name__, time.monotonic() - begin))
        except Skip as e:
            skipped.append(f.__name__)
            say("skip  %s: %s" % (f.__name__, e))
        except Exception as e:
            failed.append(f.__name__)
            if not isinstance(e, Failed):
                traceback.print_exc()
            say("FAIL  %s: %s" % (f.__name__, e))
            if "longer than" in str(e) or "interrupted" in str(e):
                break
        # one function's daemons are not the next one's
        if any(getattr(d, "keep", False) for d in t.daemons) and not failed:
            continue
        if failed and failed[-1] == f.__name__:
            show_logs(t)
        t.finish()
        t.daemons, t.cleanups = [], []
    signal.alarm(0)
    t.finish()
    for report in t.sanitizer_reports():
        failed.append("sanitizer")
        say("FAIL  sanitizer report:\n" + report[:6000])
    if failed and os.environ.get("PEPSI_KEEP"):
        say("kept: " + t.dir)
    else:
        shutil.rmtree(t.dir, ignore_errors=True)
    sys.exit(1 if failed else 77 if skipped and not passed else 0)


def show_logs(t):
    for d in t.daemons:
        try:
            with open(d.log, errors="replace") as f:
                lines = f.read().splitlines()
        except OSError:
            continue
        say("---- the last of %s" % d.log)
        for line in lines[-40:]:
            say("  | " + line[:400])
