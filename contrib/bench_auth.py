"""What authentication of mail from outside costs (contrib/bench --auth; see there): one pepsid, one nsd, the same signed mail of 4 KiB
put in by smtp-source at a listener that looks at nothing and at one that does SPF, DKIM, ARC and DMARC, in turns; with all answers in
the cache, and with records of TTL 0, so that every message asks anew. Rates, processor time of the reactor per message, and what of
it the evaluation itself took. Stops by pid only what it started; contacts 127.0.0.1 only."""
import argparse
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "test", "e2e"))
import authority  # noqa: E402
import pepsi  # noqa: E402
import signer  # noqa: E402

WANTED = 0.60  # of the rate without
DOMAINS = {"cached": 300, "fresh": 0}


def message(domain, size):
    head = ("From: Ann <ann@%s.test>\r\nTo: bob@example.test\r\nSubject: bench\r\nDate: Mon, 30 Nov 2026 12:00:00 +0000\r\nMessage-ID: <1@%s.test>\r\n\r\n"
            % (domain, domain)).encode()
    line = b"all work and no play makes mail a dull thing to look at, line for line\r\n"
    return head + line * ((size - len(head)) // len(line))


def cpu_of(pid):
    """Seconds of processor time so far."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def put_in(a, d, port, path, domain):
    """(messages a second, microseconds of the reactor per message)"""
    pid = d.reactor_pid()
    before, begun = cpu_of(pid), time.monotonic()
    subprocess.run([pepsi.need("smtp-source"), "-d", "-s", str(a.conc), "-m", str(a.n), "-M", "client.test", "-f", "ann@%s.test" % domain,
                    "-t", "bob@example.test", "-F", path, "127.0.0.1:%d" % port], check=True, timeout=600)
    took = time.monotonic() - begun
    return a.n / took, (cpu_of(pid) - before) / a.n * 1e6


def bench(a, t):
    keys = authority.strings(signer.record(t, a.key))
    server = authority.start(t, {"test": 'client IN TXT "v=spf1 ip4:127.0.0.1 -all"\n' + "".join(
        '$TTL %d\n%s IN TXT "v=spf1 ip4:198.51.100.0/24 ip4:127.0.0.0/8 -all"\n_dmarc.%s IN TXT "v=DMARC1; p=reject"\ns._domainkey.%s IN TXT %s\n'
        % (ttl, d, d, d, keys) for d, ttl in DOMAINS.items())})
    paths = {}
    for domain in DOMAINS:
        signed = signer.sign(t, message(domain, a.size), [("dkim", domain + ".test", "s", a.key)])
        paths[domain] = os.path.join(t.dir, domain)
        with open(paths[domain], "wb") as f:
            f.write(signed.replace(b"\r\n", b"\n"))
    off = pepsi.free_port()
    limits = ("MAX_CONNECTIONS_PER_ADDRESS = 1000\nMAX_CONNECTIONS_PER_NETWORK = 0\nMESSAGES_PER_MINUTE = 0\nMESSAGES_PER_HOUR = 0\nRECIPIENTS_PER_MINUTE = 0\n"
              "RECIPIENTS_PER_HOUR = 0\nCONNECTIONS_PER_MINUTE = 0\nAUTHENTICATION_QUERIES_PER_MINUTE = 0\n")
    d = pepsi.Pepsid(t, "[stage-init]\nPROGRAM = pepsi-stage-discard\nPARALLELISM = 1\n", pepsi="RELAY_NETWORKS = 192.0.2.0/24\n",
                     listener=limits + "SPF = enforce\nDKIM = enforce\nDMARC = enforce\nARC = enforce\n",
                     more="[pepsi-dns]\nSERVERS = %s\n[listener-off]\nBIND = 127.0.0.1:%d\nSPF = off\nDKIM = off\nDMARC = off\nARC = off\n%s" % (server, off, limits))
    for domain in DOMAINS:
        put_in(argparse.Namespace(conc=5, n=200), d, d.port, paths[domain], domain)
    bad = False
    for domain in DOMAINS:
        rounds = []
        for i in range(a.rounds):
            without = put_in(a, d, off, paths[domain], domain)
            before = d.metrics()
            with_it = put_in(a, d, d.port, paths[domain], domain)
            after = d.metrics()
            delta = {k: after[k] - before[k] for k in after if "authentication" in k}
            pepsi.check(delta['pepsi_authentication_total{method="dkim",result="pass"}'] == a.n
                        and delta['pepsi_authentication_total{method="dmarc",result="pass"}'] == a.n, "not all passed: %s" % delta)
            busy, queries = delta["pepsi_authentication_busy_seconds_total"] / a.n * 1e6, delta["pepsi_authentication_queries_total"] / a.n
            rounds.append((with_it[0] / without[0], without, with_it, busy, queries))
            print("%-6s round %d: without %6.0f/s, %4.0f us CPU a message; with %6.0f/s, %4.0f us (evaluation %3.0f us, %.1f queries): %3.0f %%"
                  % (domain, i + 1, without[0], without[1], with_it[0], with_it[1], busy, queries, 100 * rounds[-1][0]), flush=True)
        ratio = statistics.median(r[0] for r in rounds)
        bad |= ratio < WANTED
        print("%-6s median: %3.0f %% of the rate (wanted: %.0f %%); CPU a message %.0f us without, %.0f us with"
              % (domain, 100 * ratio, 100 * WANTED, statistics.median(r[1][1] for r in rounds), statistics.median(r[2][1] for r in rounds)), flush=True)
    d.stop()
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--n", type=int, default=5000)
    p.add_argument("--conc", type=int, default=20)
    p.add_argument("--size", type=int, default=4096)
    p.add_argument("--key", default="rsa2048", choices=("rsa1024", "rsa2048", "rsa4096", "ed25519"))
    p.add_argument("--strict", action="store_true")
    a = p.parse_args()
    outcome = []
    def run(t):
        outcome.append(bench(a, t))
    run.__name__ = "bench_auth"
    sys.argv[1:] = []
    try:
        pepsi.main(__file__, [run])
    finally:
        if a.strict and outcome != [False]:
            sys.exit(1)


if __name__ == "__main__":
    main()
