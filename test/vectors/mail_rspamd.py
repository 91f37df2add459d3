"""rspamd as a peer of tests: a daemon on a loopback port, in a folder of its own, that asks one DNS server. Its modules spf, dkim, dmarc, arc and
dkim_signing, nothing else. Test code, standard library only."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import pepsi  # noqa: E402: ports no other test has, and children that do not outlive us

RSPAMD = """
lua = "$RULESDIR/rspamd.lua";
options {
	pidfile = "%(dir)s/pid"; filters = "dkim"; tempdir = "%(dir)s"; url_tld = "%(dir)s/tld"; cache_file = "%(dir)s/cache"; history_file = "%(dir)s/history";
	dynamic_conf = "%(dir)s/dynamic"; stats_file = "%(dir)s/stats"; hs_cache_dir = "%(dir)s/"; control_socket = "%(dir)s/sock mode=0600";
	dns { timeout = 5s; retransmits = 2; nameserver = ["127.0.0.1:%(dns)d:1"]; }
	local_addrs = "%(dir)s/none"; explicit_modules = []; allow_raw_input = true; dns_max_requests = 500; task_timeout = 30s;
}
logging { type = "file"; filename = "%(dir)s/log"; level = "%(level)s"; }
worker "normal" { bind_socket = "127.0.0.1:%(port)d"; count = 1; mime = true; task_timeout = 30s; }
modules { path = "$PLUGINSDIR/spf.lua"; path = "$PLUGINSDIR/dmarc.lua"; path = "$PLUGINSDIR/arc.lua"; path = "$PLUGINSDIR/dkim_signing.lua"; }
dkim { trusted_only = false; skip_multi = false; max_sigs = 20; check_local = true; check_authed = true; dkim_cache_size = 10k; }
spf { check_local = true; check_authed = true; spf_cache_size = 1; disable_ipv6 = false; }
dmarc { check_local = true; check_authed = true; }
arc { check_local = true; check_authed = true; sign_inbound = false; sign_local = false; }
dkim_signing { enabled = true; sign_networks = ["203.0.113.200"]; sign_authenticated = false; sign_local = false; allow_envfrom_empty = true;
	allow_hdrfrom_mismatch = true; allow_username_mismatch = true; use_domain = "header"; use_esld = true; try_fallback = true;
	path = "%(key)s"; selector = "rspamd"; }
actions { reject = 10000; }
"""


class Rspamd:
    def __init__(self, folder, dns, key):
        self.dir, self.port = os.path.join(folder, "rspamd"), pepsi.free_port()
        os.mkdir(self.dir)
        for name, text in (("tld", "test\n"), ("none", "")):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(text)
        conf = os.path.join(self.dir, "rspamd.conf")
        with open(conf, "w") as f:
            f.write(RSPAMD % {"dir": self.dir, "dns": dns, "port": self.port, "key": key, "level": os.environ.get("PEPSI_RSPAMD_LOG", "warning")})
        with open(os.path.join(self.dir, "out"), "w") as out:
            self.p = subprocess.Popen([self.program(), "-f", "-i", "-c", conf], stdout=out, stderr=subprocess.STDOUT, preexec_fn=pepsi.die_with_me)
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                if self.p.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("rspamd does not start:\n" + "".join(open(os.path.join(self.dir, n)).read()[-2000:] for n in ("out", "log")
                                                                        if os.path.exists(os.path.join(self.dir, n))))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.p.wait(.1)

    @staticmethod
    def program():
        return shutil.which("rspamd")

    def ask(self, message, ip, helo, sender, **more):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {"IP": ip, "Helo": helo, "From": sender or "<>", "Rcpt": "bob@mx.test"}
        head.update(more)
        c.request("POST", "/checkv2", message, head)
        out = json.loads(c.getresponse().read())
        c.close()
        return out

    def __call__(self, message, domain, selector, key, canon, names):
        """A signature by its module dkim_signing, as a signer of mail_corpus.make(); it takes the author's organization and a selector of its own. None: it
        would not sign."""
        got = self.ask(message, "203.0.113.200", "mx.test", "").get("dkim-signature")
        got = got[0] if isinstance(got, list) else got
        return b"DKIM-Signature: " + got.replace("\r\n", "\n").replace("\n", "\r\n").encode() + b"\r\n" if got else None

    def close(self):
        self.p.terminate()
        self.p.wait(30)
