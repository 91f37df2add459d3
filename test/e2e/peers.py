"""Other people's mail servers for the end-to-end tests: Postfix as installed, Exim and OpenSMTPD as fetch_peers unpacked them, each a
private instance on loopback ports with all it keeps in the test's folder. They run as root in a mount namespace of their own, where the
accounts exist that they want. A module; no test by itself."""
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pepsi
from proc import alive

FETCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fetch_peers")


def unpacked(program):
    """The path of a program below the folder of fetch_peers, fetched now where it is not there yet; or Skip."""
    if not pepsi.ROOT:
        raise pepsi.Skip("only root can run another mail server")
    folder = os.path.join(os.path.dirname(pepsi.BIN), "peers")
    path = os.path.join(folder, program)
    if not os.path.exists(path):
        r = subprocess.run(["sh", FETCH, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        if r.returncode or not os.path.exists(path):
            raise pepsi.Skip("no %s: %s" % (os.path.basename(program), r.stdout.decode(errors="replace").strip()))
    return path


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
        return True
    except OSError:
        return False


class Peer:
    """Common to all: a folder, a port mail is put in at, and a log."""

    def __init__(self, t, name):
        if not pepsi.ROOT:
            raise pepsi.Skip("only root can run another mail server")
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode:
            raise pepsi.Skip("no mount namespace can be had")
        self.t, self.name, self.port = t, name, pepsi.free_port()
        self.dir = os.path.join(t.dir, "%s%d" % (name, t.next_number()))
        os.mkdir(self.dir, 0o755)
        self.out = self.path("out")
        t.cleanup(self.show)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def accounts(self, *names):
        """/etc/passwd and /etc/group with these accounts in addition; ids that nobody has."""
        uid = 64900
        passwd, group = open("/etc/passwd").read(), open("/etc/group").read()
        for n in names:
            if re.search(r"(?m)^%s:" % n, passwd):
                continue
            while re.search(r"(?m)^[^:]*:[^:]*:%d:" % uid, passwd + group):
                uid += 1
            passwd += "%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\n" % (n, uid, uid)
            group += "%s:x:%d:\n" % (n, uid)
            uid += 1
        self.passwd = self.write("passwd", passwd)
        return "mount --bind %s /etc/passwd && mount --bind %s /etc/group" % (self.passwd, self.write("group", group))

    def uid(self, name):
        for line in open(self.passwd):
            f = line.split(":")
            if f[0] == name:
                return int(f[2]), int(f[3])
        raise pepsi.Failed("no account " + name)

    def run(self, mounts, *command, env=None):
        """In a namespace of its own, in the foreground, until the end of the test."""
        script = self.write("start", "set -e\n%s\nexec \"$@\"\n" % mounts)
        self.process = self.t.popen(["unshare", "-m", "--propagation", "private", "sh", script, *command], log=self.out, env=dict(os.environ, **(env or {})),
                                    cwd=self.dir, start_new_session=True)
        pepsi.wait_for("%s listens (%s)" % (self.name, self.out), lambda: listens(self.port), 20)

    def texts(self):
        out = ""
        for f in self.logs():
            try:
                with open(f, errors="replace") as g:
                    out += g.read()
            except OSError:
                pass
        return out

    def logs(self):
        return [self.out]

    def show(self):
        if os.environ.get("PEPSI_KEEP"):
            pepsi.say("---- %s\n%s" % (self.name, self.texts()[-6000:]))


class Postfix(Peer):
    """`more` goes to the end of main.cf; `transports` is {name: options of that smtp transport}."""

    def __init__(self, t, more="", transports=None, services=""):
        """services: more lines of master.cf"""
        pepsi.need("postfix", "postconf")
        super().__init__(t, "postfix")
        for d in ("etc", "spool", "data"):
            os.mkdir(self.path(d), 0o755)
        shutil.chown(self.path("data"), "postfix")
        self.write("etc/main.cf", "compatibility_level = 3.6\nqueue_directory = %s\ndata_directory = %s\nmyhostname = postfix.example.test\n"
                   "mydestination =\nlocal_recipient_maps =\nalias_maps =\nalias_database =\nmynetworks = 127.0.0.0/8\ninet_interfaces = 127.0.0.1\n"
                   "inet_protocols = ipv4\nsmtp_dns_support_level = disabled\nsmtp_host_lookup = native\nsmtpd_peername_lookup = no\n"
                   "smtpd_relay_restrictions = permit_mynetworks, reject\nsmtpd_tls_security_level = none\nbiff = no\nmaillog_file = %s\n"
                   "maillog_file_prefixes = %s\nminimal_backoff_time = 2s\nqueue_run_delay = 2s\nsmtputf8_autodetect_classes = all\n%s"
                   % (self.path("spool"), self.path("data"), self.path("log"), self.dir, more))
        self.write("log", "")
        source = next((p for p in ("/usr/share/postfix/master.cf.dist", "/etc/postfix/master.cf.proto", "/etc/postfix/master.cf") if os.path.exists(p)), None)
        if not source:
            raise pepsi.Skip("Postfix without a master.cf.dist")
        out, skip = [], False
        for line in open(source):
            if line[:1] not in " \t#\n":
                c = line.split()
                skip = c[1] == "inet" and c[0] != "smtp"
                if c[0] == "smtp" and c[1] == "inet":
                    line = "127.0.0.1:%d inet n - n - - smtpd\n" % self.port
                elif len(c) > 4 and c[4] == "y":
                    c[4] = "n"
                    line = " ".join(c) + "\n"
            if not skip:
                out.append(line)
        if not any(x.startswith("postlog ") for x in out):
            out.append("postlog unix-dgram n - n - 1 postlogd\n")
        for name, options in (transports or {}).items():
            out.append("%s unix - - n - - smtp\n%s" % (name, "".join("  -o %s\n" % o for o in options)))
        self.write("etc/master.cf", "".join(out) + services)
        t.cleanup(self.stop)
        self.start()
        if not self.speaks():
            # its processes write their log through a socket of few places: one of them that fails at the start can make all others wait for good
            pepsi.say("%s was silent, once more" % self.dir)
            self.stop()
            self.start()
            pepsi.check(self.speaks(), "Postfix says nothing: %s" % self.texts()[-2000:])

    def start(self):
        r = subprocess.run([pepsi.need("postfix"), "-c", self.path("etc"), "start"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        pepsi.check(r.returncode == 0, "postfix start: %s%s" % (r.stdout.decode(errors="replace"), self.texts()[-2000:]))
        pepsi.wait_for("Postfix listens", lambda: listens(self.port), 30)

    def speaks(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as s:
                s.settimeout(20)
                return s.recv(4) == b"220 "
        except OSError:
            return False

    def stop(self):
        """By its processes' group, the master's, and not by `postfix stop`, which logs and so waits for what has to be stopped."""
        try:
            with open(self.path("spool", "pid", "master.pid")) as f:
                master = int(f.read())
            os.kill(master, signal.SIGTERM)
        except (OSError, ValueError):
            return
        for _ in range(50):
            if not alive(master):
                break
            time.sleep(0.1)
        try:
            os.killpg(master, signal.SIGKILL)
        except OSError:
            pass

    def logs(self):
        return [self.path("log")]

    def idle(self):
        """Nothing in its queue."""
        return not any(files for d in ("incoming", "active", "deferred", "maildrop") for _, _, files in os.walk(self.path("spool", d)))


class Exim(Peer):
    """`config` is what stands behind the main section's options: routers, transports, …; `pair`: certificate and key, for STARTTLS."""

    def __init__(self, t, config, main="", pair=None):
        self.program = unpacked("exim/usr/sbin/exim4")
        super().__init__(t, "exim")
        # it trusts no configuration but the one in its own place: all its processes need it
        mounts = (self.accounts("Debian-exim") + " && mount -t tmpfs none /var/lib && mkdir /var/lib/exim4"
                  " && if [ -d /etc/exim4 ]; then mount -t tmpfs none /etc/exim4; fi && cp %s /var/lib/exim4/config.autogenerated" % self.path("exim.conf"))
        uid, gid = self.uid("Debian-exim")
        for d in ("spool", "logs"):
            os.mkdir(self.path(d), 0o750)
            os.chown(self.path(d), uid, gid)
        if pair:  # it reads them as its own account
            for n, path in enumerate(pair):
                shutil.copy(path, self.path("tls%d" % n))
                os.chown(self.path("tls%d" % n), uid, gid)
            main += "tls_advertise_hosts = *\ntls_certificate = %s\ntls_privatekey = %s\n" % (self.path("tls0"), self.path("tls1"))
        else:
            main += "tls_advertise_hosts =\n"
        self.write("exim.conf", "primary_hostname = exim.example.test\nexim_user = Debian-exim\nexim_group = Debian-exim\nexim_path = %s\n"
                          "spool_directory = %s\nlog_file_path = %s/%%slog\nkeep_environment = LD_LIBRARY_PATH\nlocal_interfaces = 127.0.0.1\n"
                          "daemon_smtp_ports = %d\nacl_smtp_rcpt = accept\nacl_smtp_data = accept\nhost_lookup =\nrfc1413_hosts =\n"
                          "chunking_advertise_hosts = *\nsmtputf8_advertise_hosts = *\ndsn_advertise_hosts = *\nprdr_enable = true\n"
                          "message_size_limit = 50M\naccept_8bitmime = true\ndeliver_drop_privilege = true\nlog_selector = +smtp_confirmation +tls_cipher\n%s\n%s"
                          % (self.program, self.path("spool"), self.path("logs"), self.port, main, config))
        libs = ":".join(glob.glob(os.path.join(os.path.dirname(self.program), "..", "lib", "*-linux-gnu*")))
        self.run(mounts, self.program, "-bdf", "-q2s", env={"LD_LIBRARY_PATH": libs} if libs else None)

    def logs(self):
        return [self.out, self.path("logs", "mainlog"), self.path("logs", "paniclog")]


class OpenSmtpd(Peer):
    def __init__(self, t, config, ca=None):
        self.program = unpacked("opensmtpd/usr/sbin/smtpd")
        super().__init__(t, "opensmtpd")
        mounts = self.accounts("opensmtpd", "opensmtpq")
        mounts += (" && mount -t tmpfs none /var/lib && mount -t tmpfs none /var/spool && mount -t tmpfs none /run"
                   " && mkdir -p -m 755 /var/lib/opensmtpd/empty /var/spool/smtpd && chmod 711 /var/spool/smtpd")
        if ca:  # the place of the authorities it trusts is compiled in
            mounts += " && mount -t tmpfs none /etc/ssl/certs && cp %s /etc/ssl/certs/ca-certificates.crt" % ca
        file = self.write("smtpd.conf", config.replace("PORT", str(self.port)), 0o600)
        self.run(mounts, self.program, "-d", "-v", "-f", file)
