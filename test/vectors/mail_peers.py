"""The others that mail_differential.py asks: dkimpy and pyspf in this process, Mail::DKIM as a coprocess, rspamd as a daemon with nsd for its
DNS, both on loopback ports and in a folder of their own. Each gives verdicts in its own words. Test code."""
import base64
import contextlib
import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import dkim
import spf

import mail_corpus
from mail_rspamd import Rspamd  # noqa: F401: one of the others

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "e2e"))
import pepsi  # noqa: E402: ports no other test has, and children that do not outlive us


def served(name):
    name = name.lower().rstrip(".")
    return any(name == a or name.endswith("." + a) for a in mail_corpus.APEX)


# -- in this process

class Python:
    def __init__(self, world):
        self.zone = world.zone
        spf.DNSLookup = self.lookup

    def txt(self, name, timeout=5):
        name = name.decode().rstrip(".").lower()
        if not served(name):
            raise dkim.DnsTimeoutError("no such zone")
        values = self.zone.get(name, {}).get("TXT", [])
        return "".join(values[0]).encode() if values else None

    def lookup(self, name, kind, *_):
        name = name.lower().rstrip(".")
        if not served(name):
            if "." not in name or name.startswith("["):  # a name that the root would not have
                return []
            raise spf.TempError("no such zone")
        out = []
        for v in self.zone.get(name, {}).get(kind, []):
            out.append(((name, kind), tuple(s.encode() for s in v) if kind == "TXT" else tuple(v) if kind == "MX" else v))
        return out

    def dkim(self, message):
        """"pass", or what it raised or said, for each signature, from the top."""
        try:
            n = sum(1 for name, _ in dkim.DKIM(message).headers if name.lower() == b"dkim-signature")
        except Exception as e:
            return [repr(e)]
        out = []
        for i in range(n):
            try:
                out.append("pass" if dkim.DKIM(message).verify(idx=i, dnsfunc=self.txt) else "fail")
            except Exception as e:  # whatever it raises, it is no pass
                out.append(repr(e))
        return out

    def arc(self, message):
        """("none", "pass" or "fail", why)"""
        try:
            cv, _, why = dkim.ARC(message).verify(dnsfunc=self.txt)
            return [(cv or b"fail").decode(), str(why)]
        except Exception as e:
            return ["fail", repr(e)]

    def spf(self, case):
        q = spf.query(i=case["ip"], s=case["from"], h=case["helo"], receiver="mx.test", strict=True)
        result = q.check()[0]
        return [result, q.void_lookups, q.lookups]


# -- Mail::DKIM

class Perl:
    def __init__(self):
        self.p = subprocess.Popen(["perl", os.path.join(HERE, "mail_dkim.pl")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  preexec_fn=pepsi.die_with_me)

    @staticmethod
    def there():
        return shutil.which("perl") and subprocess.run(["perl", "-MMail::DKIM::Verifier", "-MJSON::PP", "-MNet::DNS", "-e", "1"], capture_output=True).returncode == 0

    def ask(self, **question):
        self.p.stdin.write(json.dumps(question) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit("Mail::DKIM's process ended")
        return json.loads(line)

    def sign(self, message, domain, selector, key, canon, names):
        out = self.ask(op="sign", message=base64.b64encode(message).decode(), d=domain, s=selector, key=key.path, c="/".join(canon), h=":".join(names))
        if "field" not in out:
            raise SystemExit("Mail::DKIM did not sign: %s" % out.get("error"))
        return out["field"].encode() + b"\r\n"

    def close(self):
        self.p.stdin.close()
        self.p.wait(10)


# -- nsd, for rspamd

def quoted(text):
    return '"' + "".join(c if c not in '"\\' and " " <= c <= "~" else "\\%03d" % b for c in text for b in c.encode("utf-8")[:1]) + '"'


def owner(name):
    return "".join(c if c.isalnum() or c in "-_." else "\\%03d" % ord(c) for c in name)


def write_zones(zone, folder):
    texts = {a: ["$ORIGIN .", "$TTL 60", "%s. IN SOA ns.test. root.test. 1 3600 600 86400 30" % a, "%s. IN NS ns.test." % a] for a in mail_corpus.APEX}
    texts["test"].append("ns.test. IN A 127.0.0.1")
    for name, node in sorted(zone.items()):
        apex = next((a for a in mail_corpus.APEX if name.endswith("." + a)), None)
        if not apex:  # names that cannot be looked up
            continue
        for kind, values in sorted(node.items()):
            for v in values:
                data = " ".join(quoted(s[i:i + 255]) for s in v for i in range(0, max(len(s), 1), 255)) if kind == "TXT" else \
                    "%d %s." % (v[0], owner(v[1])) if kind == "MX" else owner(v) + "." if kind in ("PTR", "CNAME") else v
                texts[apex].append("%s. IN %s %s" % (owner(name), kind, data))
    for apex, lines in texts.items():
        with open(os.path.join(folder, apex), "w") as f:
            f.write("\n".join(lines) + "\n")


class Nsd:
    def __init__(self, zone, folder):
        self.port, self.folder = pepsi.free_port(), folder
        write_zones(zone, folder)
        with open(os.path.join(folder, "nsd.conf"), "w") as f:
            f.write('server:\n ip-address: 127.0.0.1@%d\n username: ""\n chroot: ""\n zonesdir: "%s"\n database: ""\n pidfile: "%s/nsd.pid"\n xfrdfile: "%s/xfrd"\n'
                    ' zonelistfile: "%s/zonelist"\n xfrdir: "%s"\n server-count: 1\nremote-control:\n control-enable: no\n' % ((self.port,) + (folder,) * 5))
            for a in mail_corpus.APEX:
                f.write('zone:\n name: "%s"\n zonefile: "%s"\n' % (a, a))
        self.log = os.path.join(folder, "nsd.log")
        self.start()

    def start(self):
        with open(self.log, "w") as log:
            self.p = subprocess.Popen([self.there(), "-d", "-c", os.path.join(self.folder, "nsd.conf")], stdout=subprocess.DEVNULL, stderr=log, preexec_fn=pepsi.die_with_me)
        query = b"\x12\x34" + b"\0\0\0\1" + b"\0" * 6 + b"\4test\0\0\6\0\1"
        deadline = time.monotonic() + 60
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(.2)
            s.connect(("127.0.0.1", self.port))
            while True:
                try:
                    s.send(query)
                    if s.recv(512)[3] & 15 == 0:
                        return
                except OSError:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self.p.wait(.1)
                if self.p.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("nsd does not start:\n" + open(self.log).read()[-2000:])

    def reload(self, zone):
        self.close()
        write_zones(zone, self.folder)
        self.start()

    @staticmethod
    def there():
        return shutil.which("nsd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

    def close(self):
        self.p.terminate()
        self.p.wait(20)
