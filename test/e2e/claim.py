"""The database dies in mid-claim: the claim is committed, its answer is on the way, and the server is gone, by `immediate` stop or by
kill -9 of all its processes; and again when the rows were handed to a worker that has not begun. Round after round everything
arrives once, nothing is left running, and the books are even. PEPSI_CLAIM_ROUNDS: how many rounds (3)."""
import os
import signal

import pepsi
from postgres import Cluster, Proxy

ROUNDS = int(os.environ.get("PEPSI_CLAIM_ROUNDS") or 3)
EACH = 12


def inject(cluster, tokens):
    """Pending rows, as somebody beside the daemon makes them; the function notifies."""
    values = ", ".join("('%s')" % x for x in tokens)
    cluster.sql("SELECT pepsi.workqueue_inject('init', 'sender@example.test', '{rcpt@far.test}', convert_to('X-Token: ' || t || E'\\r\\n', 'UTF8'), 'body')"
                " FROM (VALUES %s) v(t)" % values)


def running(cluster, tokens):
    return int(cluster.sql("SELECT count(*) FROM pepsi.workqueue WHERE status = 'running' AND headers IN (%s)"
                           % ", ".join("convert_to(E'X-Token: %s\\r\\n', 'UTF8')" % x for x in tokens)))


def quiet_worker(cluster, d, sink, rounds, token):
    """The one worker of the stage, and nothing else is about to happen: that the connection that is notified came back retires all
    workers (what is laid over the configuration may have changed meanwhile), and one that is on its way out takes nothing more."""
    def listens():
        with open(d.log, errors="replace") as f:
            return sum("event=database-up connection=listen" in line for line in f) > rounds
    pepsi.wait_for("the notifications", listens, 30)
    inject(cluster, [token])
    pepsi.wait_for("the message that makes a worker", lambda: token in sink.tokens(), 20)

    def only():
        stage = [g for g in d.status()["stages"] if g["name"] == "init"][0]
        return stage["pids"] if stage["workers"] == 1 and not stage["leaving"] and not stage["starting"] and not stage["in_flight"] else None
    return pepsi.wait_for("one worker", only, 30)


def claimed(cluster, tokens):
    """False: the dispatcher was in the midst of another question, whose answer is held, and asks no further."""
    try:
        return pepsi.wait_for("claimed", lambda: running(cluster, tokens) == EACH, 4, 0.02)
    except pepsi.Failed:
        return False


def die(cluster, n):
    if n % 2:
        cluster.kill()
    else:
        cluster.stop(signal.SIGQUIT)


def play(t, first):
    cluster = Cluster(t)
    proxy, sink = Proxy(t, cluster.port), pepsi.Sink(t)
    d = pepsi.Pepsid(t, pepsi.smarthost("init", sink.port, "PARALLELISM = 1\nQUEUE_LIMIT = 100\n") + pepsi.bounce(),
                     more="[pepsi-postgres]\nCONFIG = postgres://postgres@127.0.0.1:%d/pepsi\nDURABLE_COMPLETION = %s\n"
                     % (proxy.port, "YES" if first == "claim" else "NO"))
    d.accept("sender@example.test", "rcpt@far.test", pepsi.message("first"))
    pepsi.wait_for("the first message", lambda: "first" in sink.tokens(), 20)
    reactor = d.reactor_pid()
    sent = ["first"]
    n = tries = 0
    while n < ROUNDS:
        tries += 1
        pepsi.check(tries < 4 * ROUNDS, "no claim can be caught")
        tokens = ["%s%d.%d" % (first, tries, i) for i in range(EACH)]
        sent += tokens
        stopped = []
        if first == "claim":
            proxy.held.add("pepsi dispatch")
        else:  # the claim comes through, and what the worker wants of the database does not
            warm = "%s%d.warm" % (first, tries)
            sent.append(warm)
            stopped = quiet_worker(cluster, d, sink, n, warm)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        try:
            inject(cluster, tokens)
            caught = claimed(cluster, tokens)
            if caught:
                pepsi.check(not set(tokens) & set(sink.tokens()), "round %d: the claim's answer got through" % n)
                die(cluster, n)
                proxy.cut()
        finally:
            proxy.held.clear()
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        if caught:
            cluster.start()
            n += 1
        pepsi.wait_for("round %d: all arrive" % n, lambda: not set(tokens) - set(sink.tokens()), 60, 0.1)
    d.wait_empty(60)
    got = sink.tokens()
    twice = [x for x in set(got) if got.count(x) > 1]
    pepsi.check(not twice and set(got) == set(sent), "%d sent, %d arrived, twice: %s" % (len(sent), len(set(got)), twice))
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] == len(sent) and not s["bounced"] and not s["discarded"], "the books: %s" % {k: s[k] for k in (
        "accepted", "delivered", "bounced", "discarded")})
    pepsi.check(d.reactor_pid() == reactor and not any(g["crashes"] for g in s["stages"]), "something else died: %s" % s["stages"])
    released = sum(int(line.split("rows=")[1]) for line in open(d.log, errors="replace") if "event=orphans-released" in line)
    # not durable, the claim is mostly forgotten by the crash, and the rows are pending by themselves
    pepsi.check(released > 0 or first != "claim", "no claim was lost: nothing was tried")
    pepsi.say("      %d rounds, %d messages, each once; %d claims' rows were found running and nobody's" % (ROUNDS, len(sent), released))
    d.stop()


def before_its_answer(t):
    play(t, "claim")


def before_the_worker_begins(t):
    play(t, "hand")


pepsi.main(__file__, [before_its_answer, before_the_worker_begins])
