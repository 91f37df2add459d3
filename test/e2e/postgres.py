"""Databases of the end-to-end tests beside the embedded one: a cluster of the operator's, sessions on it, a proxy before it that can hold
answers back, and a clock that can be set. No test by itself."""
import glob
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pepsi


class Cluster:
    """A PostgreSQL of the operator's, outside pepsid."""

    def __init__(self, t, more=""):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found:
            raise pepsi.Skip("PostgreSQL is not installed")
        self.bin = os.path.dirname(found[-1])
        self.dir = os.path.join(t.dir, "pg%d" % t.next_number())
        os.mkdir(self.dir)
        self.account = pepsi.service_account()
        if pepsi.ROOT:
            os.chown(self.dir, self.account.pw_uid, self.account.pw_gid)
        self.port = pepsi.free_port()
        if not pepsi.copy_cluster("external", self.dir + "/data"):
            pepsi.check(pepsi.copy_cluster("bare", self.dir + "/data"), "no cluster was made")
        with open(self.dir + "/data/postgresql.conf", "a") as f:
            f.write("listen_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = ''\nmax_connections = 60\n%s" % (self.port, more))
        t.cleanup(self.stop)
        self.up = False
        self.start()
        if not self.sql("SELECT 1 FROM pg_database WHERE datname = 'pepsi'", "postgres"):
            self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "pepsi")
        self.uri = "postgres://postgres@127.0.0.1:%d/pepsi" % self.port

    def command(self, program, *args):
        command = [os.path.join(self.bin, program), *args]
        if pepsi.ROOT:
            command = ["setpriv", "--reuid", str(self.account.pw_uid), "--regid", str(self.account.pw_gid), "--clear-groups"] + command
        return command

    def run(self, program, *args):
        with open(self.dir + ".log", "ab") as log:
            r = subprocess.run(self.command(program, *args), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60)
        pepsi.check(r.returncode == 0, "%s failed: %s" % (program, open(self.dir + ".log", errors="replace").read()[-800:]))

    def start(self):
        with open(self.dir + ".log", "ab") as log:
            self.process = subprocess.Popen(self.command("postgres", "-D", self.dir + "/data"), cwd="/", stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, preexec_fn=pepsi.die_with_me)
        self.up = True
        ready = self.command("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
        pepsi.wait_for("the external PostgreSQL", lambda: subprocess.run(ready, cwd="/").returncode == 0, 30, 0.1)

    def stop(self, how=signal.SIGINT):
        if self.up:
            self.process.send_signal(how)
            self.process.wait(30)
            self.up = False

    def kill(self):
        """kill -9 of every process of it, as the out-of-memory killer or a lost machine would."""
        tree = [self.process.pid] + pepsi.proc_tree(self.process.pid)
        self.stop(signal.SIGKILL)
        for p in tree[1:]:
            try:
                os.kill(p, signal.SIGKILL)
            except ProcessLookupError:
                pass
        pepsi.wait_for("its processes are gone", lambda: not [p for p in tree if pepsi.alive(p)], 10)

    def sql(self, statement, database="pepsi"):
        """The value of a statement, as superuser."""
        uri = "postgres://postgres@127.0.0.1:%d/%s" % (self.port, database)
        r = subprocess.run([pepsi.need("psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", "-d", uri, "-c", statement], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=60, cwd="/")
        pepsi.check(r.returncode == 0, "psql: %s: %s" % (statement, r.stderr.decode(errors="replace")))
        return r.stdout.decode().strip()


class Session:
    """An open session of a superuser, for transactions that stand beside those of the daemon."""

    def __init__(self, t, cluster):
        self.process = subprocess.Popen([pepsi.need("psql"), "-qXAt", "-d", cluster.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, preexec_fn=pepsi.die_with_me, cwd="/")
        self.marks = 0
        t.cleanup(self.process.kill)

    def begin(self, statement):
        """Sends it and does not wait; what it says comes with the next say()."""
        self.process.stdin.write(statement.encode() + b";\n")
        self.process.stdin.flush()

    def say(self, statement):
        """Sends it; what it (and those begun before) answered."""
        self.marks += 1
        mark = "-- mark %d" % self.marks
        self.begin(statement + ";\n\\echo '%s'" % mark)
        out = ""
        while mark not in out:
            line = self.process.stdout.readline().decode(errors="replace")
            pepsi.check(line, "the session ended: %s" % out)
            out += line
        return out[:out.index(mark)].strip()


class Proxy:
    """Between the daemon and the database. Connections are known by their application_name; what the server says to those whose name
    is in `held` stays here, and is lost with cut()."""

    def __init__(self, t, port):
        self.target, self.port, self.held, self.cuts, self.over = port, pepsi.free_port(), set(), 0, False
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(64)
        t.cleanup(self.down)
        threading.Thread(target=self.accept, daemon=True).start()

    def cut(self):
        self.cuts += 1
        self.held.clear()

    def down(self):
        self.over = True
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                c, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 5)
        except OSError:
            client.close()
            return
        for s in (client, server):
            s.settimeout(None)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        name = [None]
        threading.Thread(target=self.pump, args=(client, server, name, True), daemon=True).start()
        self.pump(server, client, name, False)

    def pump(self, a, b, name, up):
        try:
            while True:
                data = a.recv(65536)
                if not data:
                    break
                if up and name[0] is None:
                    m = re.search(rb"application_name\0([^\0]*)\0", data)
                    if m:
                        name[0] = m.group(1).decode()
                cuts = self.cuts
                while not up and name[0] in self.held and not self.over:
                    time.sleep(0.01)
                if self.cuts != cuts:
                    break
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):  # whatever ends one side ends both, as a lost machine does
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Clock:
    """A clock for processes that are started from now on, shifted by what is set here (clock_shim.c). Under root the accounts that
    they change to must be able to read the file."""

    def __init__(self, t):
        library = os.path.join(os.path.dirname(pepsi.BIN), "test", "clock_shim.so")
        if not os.path.exists(library):
            raise pepsi.Skip("test/clock_shim.so was not built")
        self.path = os.path.join(t.dir, "clock")
        with open(self.path, "wb") as f:
            f.write(bytes(16))
        os.chmod(self.path, 0o644)
        self.file = open(self.path, "r+b", buffering=0)
        self.map = mmap.mmap(self.file.fileno(), 16)
        t.environment.update(LD_PRELOAD=library, PEPSI_CLOCK_SHIFT=self.path)
        # it calls nothing but the kernel, so that it may come before the sanitizers' own library
        t.environment["ASAN_OPTIONS"] += ":verify_asan_link_order=0"

    def shift(self, wall_s, mono_s=0):
        self.map[:] = struct.pack("=qq", int(wall_s), int(mono_s))
