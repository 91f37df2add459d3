"""The units as they are shipped, under a systemd of the test's own (booted.sh): with every restriction that they name the daemon starts and takes mail, its
fetching child fetches a policy of MTA-STS over HTTPS, and each of the timers' services does its work: policies are renewed, TLS reports leave by mail and by
POST, the others find nothing to do. That the restrictions are in force is seen: one that is too narrow makes the same thing fail."""
import glob
import os
import shutil
import subprocess

import certs
import dnslab
import mta_sts
import pepsi
import tls_reports

BUILD = os.path.dirname(pepsi.BIN)
NAMESPACES = ("--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup")
START_S = 120


class Machine:
    """A process 1, and what can be done beside it."""

    def __init__(self, t, config, files):
        for tool in ("unshare", "nsenter", "systemd-sysusers", "systemctl", "dpkg-deb", "dpkg-shlibdeps", "psql"):
            pepsi.need(tool)
        if not pepsi.ROOT:
            raise pepsi.Skip("a systemd of its own needs root")
        if not os.access("/lib/systemd/systemd", os.X_OK):
            raise pepsi.Skip("no systemd")
        if not pepsi.private_mounts() or subprocess.run(["unshare", *NAMESPACES, "true"], stderr=subprocess.DEVNULL).returncode:
            raise pepsi.Skip("this kernel or container grants no namespaces")
        self.dir = os.path.join(t.dir, "machine")
        self.group = self.new_group(t)
        self.log = os.path.join(self.dir, "log", "units.log")
        for d in ("log", "etc/pepsi"):
            os.makedirs(os.path.join(self.dir, d))
        os.chmod(os.path.join(self.dir, "log"), 0o1777)
        for name, text in dict(files, **{"pepsi.conf": config}).items():
            with open(os.path.join(self.dir, "etc/pepsi", name), "w") as f:
                f.write(text)
        r = subprocess.run(["sh", os.path.join(pepsi.SOURCE, "contrib/package"), "--build", BUILD, "--no-debug", "--output", self.dir],
                           env=dict(os.environ, PEPSI_DEB_COMPRESSION="none"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        pepsi.check(r.returncode == 0, "contrib/package: " + r.stdout)
        package, = glob.glob(os.path.join(self.dir, "pepsi_*.deb"))
        sanitizer = {"ASAN_OPTIONS": "log_path=/run/log/asan:detect_leaks=0:exitcode=99:allocator_may_return_null=1", "UBSAN_OPTIONS": "log_path=/run/log/asan"}
        self.boot = os.path.join(self.dir, "boot.log")
        self.process = t.popen(["sh", "-c", 'echo $$ >"$1" && shift && exec "$@"', "sh", os.path.join(self.group, "cgroup.procs"), "unshare", *NAMESPACES, "sh", os.path.join(pepsi.SOURCE, "test/e2e/booted.sh"), self.dir, package,
                                os.path.join(pepsi.SOURCE, "contrib/systemd/pepsi.sysusers")], log=self.boot, env=dict(os.environ, **sanitizer))
        pepsi.wait_for("systemd is up", self.up, 60)

    def new_group(self, t):
        """What it sees as the root of control groups: a group below ours, gone at the end."""
        at = os.path.join(t.dir, "groups")
        os.mkdir(at)
        if subprocess.run(["mount", "-t", "cgroup2", "cgroup2", at], stderr=subprocess.DEVNULL).returncode:
            raise pepsi.Skip("no cgroup2 for a systemd")
        with open("/proc/self/cgroup") as f:
            own = [line.split(":", 2)[2].strip() for line in f if line.startswith("0::")]
        group = os.path.join(at, own[0].lstrip("/") if own else "", "pepsi-units-%d" % os.getpid())
        try:
            os.mkdir(group)
        except OSError as e:
            subprocess.run(["umount", at])
            raise pepsi.Skip("no group of its own: %s" % e)

        def gone():
            for folder, _, _ in os.walk(group, topdown=False):
                pepsi.wait_for("the group is empty", lambda: not open(os.path.join(folder, "cgroup.procs")).read(), 10)
                os.rmdir(folder)
            subprocess.run(["umount", at])
        t.cleanup(gone)
        return group

    def up(self):
        if self.process.poll() is not None:
            with open(self.boot) as f:
                text = f.read()
            if "overlay" in text:
                raise pepsi.Skip("no overlay of this machine's files: " + text[-200:])
            raise pepsi.Failed("systemd did not start: " + text[-2000:])
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as f:
            children = f.read().split()
        if not children:
            return False
        self.one = children[0]
        return self.run("systemctl", "is-active", "basic.target").stdout.strip() == "active"

    def run(self, *command, timeout=300):
        return subprocess.run(["nsenter", "-t", self.one, "-m", "-p", "-u", "-i", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout)

    def ok(self, *command):
        r = self.run(*command)
        pepsi.check(r.returncode == 0, "%s: exit %d: %s\n%s" % (" ".join(command), r.returncode, r.stdout, self.said()[-3000:]))
        return r.stdout

    def said(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, errors="replace") as f:
            return f.read()

    def sql(self, text):
        return self.ok("psql", "-qXAt", "-h", "/var/lib/pepsi/run", "-U", "postgres", "-d", "pepsi", "-c", text).strip()

    def restrict(self, unit, text):
        """More than is shipped, until it is lifted: text None."""
        d = os.path.join("/proc", self.one, "root/run/units", unit + ".d")
        os.makedirs(d, exist_ok=True)
        if text:
            with open(os.path.join(d, "narrow.conf"), "w") as f:
                f.write("[Service]\n" + text + "\n")
        else:
            shutil.rmtree(d)
        self.ok("systemctl", "daemon-reload")


def units(t):
    ca = certs.Authority(t)
    web, posts = mta_sts.Web(t, ca), tls_reports.Web(t, ca.issue("reports.far.test", "DNS:reports.far.test"))
    sts_zone = {"far.test": {"MX": ["10 mx.far.test"]}, "mx.far.test": {"A": ["127.9.3.1"]}, "reports.far.test": {"A": ["127.0.0.1"]},
                "_smtp._tls.far.test": {"TXT": ["v=TLSRPTv1; rua=mailto:tls@far.test,https://reports.far.test/tls"]}}
    mta_sts.record(sts_zone, "sts.test")
    web.add("sts.test")
    dns = dnslab.Lab(sts_zone)
    t.cleanup(dns.close)
    port, smtp = pepsi.free_port(), pepsi.free_port()
    sink = pepsi.Sink(t, port=port, address="127.9.3.1")
    with open(ca.cert) as f:
        authority = f.read()
    m = Machine(t, "[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test\nRELAY_NETWORKS = 127.0.0.0/8\n[pepsi-dns]\nSERVERS = %s\nTIMEOUT = 2 s\n"
                   "[listener-mx]\nBIND = 127.0.0.1:%d\nPROTOCOL = smtp\n[pepsi-httpd]\nBIND = 127.0.0.1:%d\n"
                   "[pepsi-mta-sts]\nFETCH = yes\nCA_FILE = /etc/pepsi/ca.pem\nPORT = %d\nALLOW_NETWORKS = 127.0.0.0/8\n"
                   "[pepsi-tlsrpt]\nREPORTS = YES\nFROM = tls@example.test\nORG_NAME = Example\nALLOW_NETWORKS = 127.0.0.0/8\nCA_FILE = /etc/pepsi/ca.pem\n"
                   "HTTPS_PORT = %d\nHTTPS_TIMEOUT = 10 s\n[pepsi-dmarc]\nREPORTS = YES\nFROM = dmarc@example.test\nORG_NAME = Example\n[pepsi-failure-bouncer]\nBOUNCE_STAGE = bounce\n"
                   "[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nTLS_CA_FILE = /etc/pepsi/ca.pem\nBOUNCE_STAGE = bounce\n%s"
                   "[stage-sign]\nPROGRAM = pepsi-stage-dkim-sign\nKEY_DIR = /var/lib/pepsi/dkim\nNEXT_STAGE = init\nBOUNCE_STAGE = bounce\n"
                   % (dns.server, smtp, pepsi.free_port(), web.port, posts.port, port, pepsi.bounce()), {"ca.pem": authority})
    m.ok("systemctl", "start", "pepsi.service")
    pepsi.wait_for("the fetching child is there", lambda: "event=fetch-ready" in m.said() or "built without" in m.said(), 60)
    if "built without libcurl" in m.said():
        raise pepsi.Skip("built without libcurl")
    pepsi.check("event=fetch-own-addresses" not in m.said(), "the fetching child cannot list the machine's addresses")
    # a policy by the fetching child, and again by the timer's service
    out = m.ok("pepsi", "-c", "/etc/pepsi/pepsi.conf", "sts", "fetch", "sts.test")
    pepsi.check(web.count("sts.test") == 1 and "enforce" in out, out)
    m.sql("UPDATE pepsi.sts_policy SET due_at = now() - interval '1 hour', fetched_at = fetched_at - interval '2 days'")
    m.ok("systemctl", "start", "pepsi-sts.service")
    pepsi.check(web.count("sts.test") == 2 and "1 policy renewed" in m.said(), m.said()[-2000:])
    # mail through it, and the report of its TLS
    s = pepsi.Smtp(smtp)
    s.send("me@example.test", ["x@far.test"], pepsi.message("units", sender="me@example.test"))
    s.close()
    pepsi.wait_for("the message is there", lambda: "units" in sink.tokens(), 30)
    pepsi.wait_for("it is counted", lambda: m.sql("SELECT count(*) FROM pepsi.tlsrpt_report") == "1", 60, 0.5)
    m.sql("UPDATE pepsi.tlsrpt_report SET day = day - 1")
    m.restrict("pepsi-tlsrpt.service", "RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_NETLINK")
    m.run("systemctl", "start", "pepsi-tlsrpt.service")
    pepsi.check(not posts.posts, "a report was posted where no socket of the Internet may be made: nothing is restricted here")
    m.restrict("pepsi-tlsrpt.service", None)
    m.sql("UPDATE pepsi.tlsrpt_report SET next_at = '-infinity' WHERE outcome IS NULL")
    m.ok("systemctl", "start", "pepsi-tlsrpt.service")
    pepsi.check(len(posts.posts) == 1 and posts.posts[0][0] == "/tls", "%s\n%s" % (posts.posts, m.said()[-2000:]))
    pepsi.wait_for("the report by mail", lambda: len(sink.messages) == 2, 60)
    # the others
    units = sorted(os.path.basename(f) for f in glob.glob(os.path.join("/proc", m.one, "root/run/units/pepsi-*.service")))
    pepsi.check(len(units) == 5, units)
    m.ok("install", "-d", "-m", "700", "-o", "pepsi", "-g", "pepsi", "/var/lib/pepsi/dkim")
    for u in units:
        m.ok("systemctl", "start", u)
    m.ok("systemctl", "reload", "pepsi.service")
    m.ok("systemctl", "stop", "pepsi.service")
    bad = [f for f in os.listdir(os.path.dirname(m.log)) if f.startswith("asan")]
    for f in bad:
        pepsi.say(open(os.path.join(os.path.dirname(m.log), f), errors="replace").read()[:4000])
    pepsi.check(not bad, "sanitizer reports")


if __name__ == "__main__":
    pepsi.own_mounts(__file__)
    pepsi.main(__file__, [units])
