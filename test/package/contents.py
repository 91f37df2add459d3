#!/usr/bin/env python3
"""What a Debian admin would look at before installing: makes the packages from the build tree (nothing is compiled) and
checks files, permissions, control fields, maintainer scripts, manual pages, units, and lintian's verdict where lintian is.

    contents.py SOURCE_DIR BUILD_DIR"""
import fnmatch
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

VERSION = "0.9~test1-1"
failures = []

MAIN = """
/etc/pam.d/pepsi /etc/pepsi/pepsi.conf /etc/pepsi/conf.d /etc/pepsi/secrets.d /etc/pepsi/dsn
/usr/share/pepsi/dsn/en.dsn /usr/share/pepsi/dsn/de.dsn /usr/share/pepsi/dsn/es.dsn /usr/share/pepsi/dsn/fr.dsn
/usr/share/man/man7/pepsi-stage-bounce.7.gz /usr/share/doc/pepsi/notifications.md
/lib/systemd/system/pepsi.target /lib/systemd/system/pepsi.service /lib/systemd/system/pepsi.target.d/failure-bouncer.conf
/lib/systemd/system/pepsi-dmarc.service /lib/systemd/system/pepsi-dmarc.timer /usr/bin/pepsi-dmarc /usr/lib/pepsi/modules/pepsi-stage-dmarc-report.so
/lib/systemd/system/pepsi-sts.service /lib/systemd/system/pepsi-sts.timer /lib/systemd/system/pepsi-tlsrpt.service /lib/systemd/system/pepsi-tlsrpt.timer /usr/bin/pepsi-tlsrpt /usr/lib/pepsi/modules/pepsi-stage-tlsrpt-report.so
/lib/systemd/system/pepsi-failure-bouncer.service /lib/systemd/system/pepsi-failure-bouncer.timer
/usr/lib/sysusers.d/pepsi.conf /usr/lib/tmpfiles.d/pepsi.conf /usr/lib/pepsi/accounts
/usr/bin/pepsi /usr/bin/pepsi-queue /usr/bin/pepsi-status /usr/bin/pepsi-stage /usr/sbin/pepsid
/usr/lib/*libpepsi-proto.so.0
/usr/lib/pepsi/modules/pepsi-stage-route.so /usr/lib/pepsi/modules/pepsi-stage-relay-to-maildir.so
/usr/lib/pepsi/modules/pepsi-stage-relay-to-lmtp.so /usr/lib/pepsi/modules/pepsi-stage-relay-to-smarthost.so
/usr/lib/pepsi/modules/pepsi-stage-relay-to-internet.so
/usr/libexec/pepsi/pepsi-helper-token-refresh /usr/bin/pepsi-token /usr/share/doc/pepsi/provider.md /usr/share/doc/pepsi/examples/provider.conf
/usr/lib/pepsi/modules/pepsi-stage-dkim-sign.so /usr/lib/pepsi/modules/pepsi-stage-arc.so /usr/lib/pepsi/modules/pepsi-stage-srs.so /usr/bin/pepsi-keys /usr/lib/pepsi/modules/pepsi-stage-bounce.so /usr/lib/pepsi/modules/pepsi-stage-pipe.so
/usr/share/pepsi/db/pepsi-0001.sql /usr/share/pepsi/db/procedures.sql /usr/share/pepsi/db/README.md
/usr/share/doc/pepsi/copyright /usr/share/doc/pepsi/changelog.gz /usr/share/doc/pepsi/changelog.Debian.gz
/usr/share/doc/pepsi/README.Debian /usr/share/doc/pepsi/installing.md /usr/share/doc/pepsi/coming-from.md /usr/share/doc/pepsi/examples/submission.conf /usr/share/doc/pepsi/examples/pepsi.conf
/usr/share/man/man5/pepsi.conf.5.gz /usr/share/man/man8/pepsid.8.gz /usr/share/man/man7/pepsi.state.7.gz
/usr/share/man/man7/pepsi-stage-srs.7.gz /usr/share/doc/pepsi/forwarding.md /usr/share/doc/pepsi/examples/forwarding.conf
""".split()
DEV = """
/usr/include/pepsi/stage.h /usr/include/pepsi-proto/base/str.h /usr/include/pepsi-proto/proto/smtp/address.h
/usr/lib/*libpepsi-proto.so /usr/lib/*pkgconfig/pepsi-stage.pc /usr/lib/*pkgconfig/pepsi-proto.pc
/usr/lib/*cmake/pepsi-stage/pepsi-stage-config.cmake /usr/share/pepsi/pepsi-stage.map /usr/share/man/man7/pepsi-stage.7.gz
/usr/share/doc/pepsi-dev/writing-a-stage.md /usr/share/doc/pepsi-dev/abi-history.md /usr/share/doc/pepsi-dev/copyright
/usr/share/doc/pepsi-dev/examples/example-stage/header-filter.c
/usr/share/doc/pepsi-dev/examples/example-stage-cpp/recipient-cap.cpp
/usr/share/doc/pepsi-dev/examples/example-stage-rust/src/lib.rs
""".split()
# where a package may put things at all
FOLDERS = ("/etc/pepsi/", "/etc/pam.d/pepsi", "/lib/systemd/system/", "/usr/bin/", "/usr/sbin/", "/usr/include/pepsi/", "/usr/include/pepsi-proto/",
    "/usr/lib/", "/usr/libexec/pepsi/", "/usr/share/doc/", "/usr/share/man/", "/usr/share/pepsi/", "/usr/share/lintian/overrides/")


def check(good, what):
    if not good:
        failures.append(what)
        print("FAIL", what)


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, **more)


class Package:
    """One .deb: control fields, control files, and members of its data archive."""

    def __init__(self, path):
        self.fields = {}
        for line in run("dpkg-deb", "-f", path).stdout.splitlines():
            if line[:1] != " ":
                name, _, value = line.partition(": ")
                self.fields[name] = value
        self.control = {}
        with tempfile.NamedTemporaryFile() as f:
            subprocess.run(["dpkg-deb", "--ctrl-tarfile", path], stdout=f, check=True, timeout=60)
            with tarfile.open(f.name) as t:
                self.control = {m.name.lstrip("./"): t.extractfile(m).read() for m in t if m.isfile()}
        with tempfile.NamedTemporaryFile() as f:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", path], stdout=f, check=True, timeout=60)
            with tarfile.open(f.name) as t:
                self.members = {m.name.lstrip("."): m for m in t}
                self.data = {n: t.extractfile(m).read() for n, m in self.members.items() if m.isfile()}


def contents(package, wanted):
    name = package.fields["Package"]
    for pattern in wanted:
        check(any(fnmatch.fnmatchcase(m, pattern) for m in package.members), f"{name} has no {pattern}")
    for path, m in package.members.items():
        if not m.isdir():
            check(path.startswith(FOLDERS), f"{name}: {path} is in a place of somebody else")
        check((m.uid, m.gid) == (0, 0), f"{name}: {path} belongs to {m.uid}:{m.gid}")
        check(not m.mode & 0o6000 or m.issym(), f"{name}: {path} is set-uid or set-gid")
        check(not m.mode & 0o022 or m.issym(), f"{name}: others may write to {path}")
        check(not path.startswith("/usr/local") and "\n" not in path, f"{name}: {path}")
        if m.issym():
            to = os.path.normpath(os.path.join(os.path.dirname(path), m.linkname))
            check(not m.linkname.startswith("/") and (to in package.members or "libpepsi-proto" in to), f"{name}: {path} leads nowhere")
        if m.isfile() and path.startswith(("/usr/bin/", "/usr/sbin/")):
            check(m.mode & 0o111 == 0o111, f"{name}: {path} cannot be run")
        if path.endswith(".so") and m.isfile():
            check(m.mode & 0o111 == 0, f"{name}: {path} is executable")
    sums = dict(reversed(line.split("  ", 1)) for line in package.control["md5sums"].decode().splitlines())
    files = {n.lstrip("/") for n in package.data}
    check(set(sums) == files, f"{name}: md5sums do not name the files there are: {set(sums) ^ files}")


def manuals(main, dev):
    """A page for each program, and no page that refers to one that is nowhere."""
    pages = {}
    for p in (main, dev):
        for path, data in p.data.items():
            if path.startswith("/usr/share/man/"):
                pages[os.path.basename(path)[:-3]] = gzip.decompress(data).decode()
    for path, m in main.members.items():
        if not m.isdir() and path.startswith(("/usr/bin/", "/usr/sbin/")):
            section = "1" if path.startswith("/usr/bin/") else "8"
            page = f"{os.path.basename(path)}.{section}"
            check(page in pages, f"{path} has no manual page: write doc/{page} and name it in doc/CMakeLists.txt")
    for name, text in pages.items():
        for title, section in re.findall(r"^\.BR (pepsi[\w.\\-]*) \((\d)\)", text, re.M):
            title = title.replace("\\", "")
            check(f"{title}.{section}" in pages or title.startswith("pepsi-stage-"), f"{name} refers to {title}({section}), which does not exist")


def control(main, dev, arch):
    for p in (main, dev):
        name = p.fields["Package"]
        check(p.fields["Version"] == VERSION, f"{name}: version {p.fields['Version']}")
        check(p.fields["Architecture"] == arch, f"{name}: architecture {p.fields['Architecture']}")
        check(re.fullmatch(r".+ <\S+@\S+>", p.fields["Maintainer"]), f"{name}: maintainer {p.fields['Maintainer']}")
        check(int(p.fields["Installed-Size"]) > 50, f"{name}: installed size {p.fields['Installed-Size']}")
        check("Conflicts" not in p.fields and "Provides" not in p.fields, f"{name} is in the way of others")
    depends = main.fields["Depends"]
    for needed in ("libc6 (>= ", "libpq5", "libssl3", "libevent", "libjson-c5", "libidn2-0", "libexpat1", "zlib1g", "postgresql"):
        check(needed in depends, f"pepsi does not depend on {needed}: {depends}")
    check("@" not in depends and "pepsi" not in depends, f"Depends: {depends}")
    check(dev.fields["Depends"] == f"pepsi (= {VERSION})", f"pepsi-dev depends on {dev.fields['Depends']}")
    # texts of reports are none: an operator's file names single texts over those of /usr/share (README.Debian)
    check(not [f for f in main.data if f.startswith("/etc/") and f.endswith(".dsn")], "texts of reports below /etc")
    check(main.control["conffiles"] == b"/etc/pam.d/pepsi\n/etc/pepsi/pepsi.conf\n", f"conffiles {main.control['conffiles']}")
    check(main.control["shlibs"] == f"libpepsi-proto 0 pepsi (= {VERSION})\n".encode(), f"shlibs {main.control['shlibs']}")
    check(set(dev.control) == {"control", "md5sums"}, f"pepsi-dev has {set(dev.control)}")
    for script in ("postinst", "prerm", "postrm"):
        r = run("sh", "-n", "/dev/stdin", input=main.control[script].decode())
        check(r.returncode == 0, f"{script}: {r.stdout}")


def configuration(main, build, folder):
    """The shipped configuration has no fault, and listens on loopback alone."""
    conf = pathlib.Path(folder, "pepsi.conf")
    conf.write_bytes(main.data["/etc/pepsi/pepsi.conf"])
    r = run(f"{build}/bin/pepsi", "-c", str(conf), "config", "check")
    check(r.returncode == 0 and "0 errors, 0 warnings" in r.stdout, f"config check of the first configuration: {r.stdout}")
    binds = re.findall(r"^BIND = (.*)$", conf.read_text(), re.M)
    check(len(binds) == 2 and all(b.startswith("127.0.0.1:") for b in binds), f"the first configuration listens on {binds}")


def accounts(main):
    """contrib/accounts and sysusers.d make the same ones."""
    script = re.search(r"^for name in (.*); do$", main.data["/usr/lib/pepsi/accounts"].decode(), re.M).group(1).split()
    users = re.findall(r"^u\s+(\S+)", main.data["/usr/lib/sysusers.d/pepsi.conf"].decode(), re.M)
    check(script and script == users, f"accounts make {script}, sysusers.d {users}")


def units(main, folder):
    """systemd-analyze finds nothing to say, each unit's programs are in the package, and the times are those promised."""
    base = "/lib/systemd/system/"
    names = [n[len(base):] for n in main.data if n.startswith(base) and "/" not in n[len(base):]]
    for n in names:
        for program in re.findall(r"^Exec\w+=(\S+)", main.data[base + n].decode(), re.M):
            check(program in main.members, f"{n} starts {program}, which is not in the package")
    timer = main.data[base + "pepsi-failure-bouncer.timer"].decode()
    check("OnBootSec=10min" in timer and "OnUnitActiveSec=10min" in timer, "the timer's times")
    service = main.data[base + "pepsi.service"].decode()
    for line in ("Type=notify", "ExecReload=", "WantedBy=pepsi.target"):
        check(line in service, f"pepsi.service has no {line}")
    if not shutil.which("systemd-analyze"):
        print("no systemd-analyze: units not verified")
        return
    # a copy that names /bin/true, since the programs are not installed here
    copy = pathlib.Path(folder, "units")
    copy.mkdir()
    for n in names:
        copy.joinpath(n).write_text(re.sub(r"^(Exec\w+)=\S+", r"\1=/bin/true", main.data[base + n].decode(), flags=re.M))
    r = run("systemd-analyze", "verify", "--man=no", *[str(copy / n) for n in names], env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
    ours = [line for line in r.stdout.splitlines() if "pepsi" in line]
    check(not ours, f"systemd-analyze verify: {ours}")
    print(f"{len(names)} units verified")


def lintian(debs):
    if not shutil.which("lintian"):
        print("no lintian: its verdict is not asked for")
        return
    r = run("lintian", "--allow-root", "--fail-on", "error", *debs)
    check(r.returncode == 0, f"lintian:\n{r.stdout}")
    print("lintian:", "no errors" + (f", {len(r.stdout.splitlines())} lines:\n{r.stdout}" if r.stdout else ""))


def main():
    source, build = sys.argv[1:]
    for tool in ("dpkg-deb", "dpkg-shlibdeps", "objcopy"):
        if not shutil.which(tool):
            print(f"skipped: no {tool} (packages dpkg-dev, binutils)")
            return 77
    with tempfile.TemporaryDirectory(prefix="pepsi-package.") as folder:
        r = run("sh", f"{source}/contrib/package", "--build", build, "--output", folder, "--version", VERSION, "--no-debug",
            env={**os.environ, "PEPSI_DEB_COMPRESSION": "gzip", "SOURCE_DATE_EPOCH": "1700000000"})
        debs = sorted(str(p) for p in pathlib.Path(folder).glob("*.deb"))
        if r.returncode or len(debs) != 2:
            print(f"FAIL contrib/package: exit status {r.returncode}, {debs}\n{r.stdout}")
            return 1
        arch = run("dpkg", "--print-architecture").stdout.strip()
        by_name = {p.fields["Package"]: p for p in map(Package, debs)}
        pepsi, dev = by_name["pepsi"], by_name["pepsi-dev"]
        contents(pepsi, MAIN)
        contents(dev, DEV)
        check(not {n for n, m in pepsi.members.items() if not m.isdir()} & set(dev.data), "both packages have the same files")
        newest = max(m.mtime for p in (pepsi, dev) for m in p.members.values())
        check(newest <= 1700000000, f"files are younger than SOURCE_DATE_EPOCH: {newest}")
        manuals(pepsi, dev)
        control(pepsi, dev, arch)
        configuration(pepsi, build, folder)
        accounts(pepsi)
        units(pepsi, folder)
        lintian(debs)
        bad = run("sh", f"{source}/contrib/package", "--build", build, "--version", "no version")
        check(bad.returncode == 1 and "is no Debian version" in bad.stdout, f"a bad version: {bad.returncode} {bad.stdout}")
        print(f"{len(pepsi.data)} and {len(dev.data)} files, {len(failures)} failures")
    return 1 if failures else 0


sys.exit(main())
