"""The relay under load: Postfix's smtp-source sends 10,000 messages over 50 sessions through Pepsi to Postfix's
smtp-sink. All arrive, none twice, the queue is empty afterwards and the books agree."""
import collections
import glob
import os
import re
import subprocess
import time

import pepsi

N = int(os.environ.get("PEPSI_LOAD_N") or (1500 if pepsi.SANITIZED else 10000))


def ten_thousand(t):
    source, sink = pepsi.need("smtp-source", "smtp-sink")
    port = pepsi.free_port()
    dump = os.path.join(t.dir, "dump")
    os.mkdir(dump)
    os.chmod(dump, 0o777)
    account = ["-u", "nobody"] if pepsi.ROOT else []
    t.popen([sink, *account, "-4", "-D", os.path.join(dump, "%M."), "inet:127.0.0.1:%d" % port, "1000"], os.path.join(t.dir, "sink.log"))
    d = pepsi.Pepsid(t, pepsi.smarthost("init", port, "PARALLELISM = 4\nQUEUE_LIMIT = 64\n") + pepsi.bounce())
    began = time.monotonic()
    r = subprocess.run([source, "-4", "-s", "50", "-m", str(N), "-l", "2048", "-f", "sender@example.test", "-t", "rcpt@far.test", "inet:127.0.0.1:%d" % d.port],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=150)
    accepted_in = time.monotonic() - began
    pepsi.check(r.returncode == 0 and not r.stdout.strip(), "smtp-source: exit %d %s" % (r.returncode, r.stdout.decode(errors="replace")))
    d.wait_empty(60)
    done_in = time.monotonic() - began
    ids = collections.Counter()
    for f in glob.glob(os.path.join(dump, "*")):
        with open(f, "rb") as h:
            ids.update(re.findall(rb"(?m)^Message-Id: <([^>]+)>", h.read()))
    twice = sum(1 for c in ids.values() if c > 1)
    pepsi.check(len(ids) == N, "%d of %d arrived" % (len(ids), N))
    pepsi.check(twice == 0, "%d arrived more than once" % twice)
    s = d.status()
    pepsi.check(s["accepted"] == N and s["delivered"] == N and s["bounced"] == 0 and s["discarded"] == 0,
                "the books: %s" % {k: s[k] for k in ("accepted", "delivered", "bounced", "discarded")})
    pepsi.say("      %d messages: accepted at %.0f/s, all through at %.0f/s (status polled every 0.1 s)" % (N, N / accepted_in, N / done_in))
    d.stop()


pepsi.main(__file__, [ten_thousand])
