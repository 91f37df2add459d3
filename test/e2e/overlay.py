"""`pepsi config set`: values laid over the file's. Workers take them at once and `config show` says where they come from; what a table, a
module or the rules of safety refuse is refused by the tool, and by the worker where somebody wrote it into the database by hand."""
import os
import subprocess

import pepsi


def sql(d, statement):
    r = subprocess.run([pepsi.need("psql"), "-qXAt", "-v", "ON_ERROR_STOP=1", "-h", os.path.join(d.state, "run"), "-U", "postgres", "-d", "pepsi", "-c", statement],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    pepsi.check(r.returncode == 0, "%s: %s" % (statement, r.stdout.decode()))


def log(d):
    with open(d.log, errors="replace") as f:
        return f.read()


def option(d, section, name):
    for s in d.json("config", "show")["sections"]:
        if s["name"] == section:
            return next((o for o in s["options"] if o["name"] == name), None)
    return None


def daemon(t, one, two, fusion="YES"):
    return pepsi.Pepsid(t, pepsi.route("init", [("far.test", "a")], "bounce") + pepsi.lmtp("a", one.port) + pepsi.lmtp("b", two.port) + pepsi.bounce(),
                        pepsi="ALLOW_FUSION = %s\n" % fusion)


def goes(d, sink, token):
    """Until a message of its own arrives there: workers are replaced when they have done what they hold."""
    n = [0]

    def look():
        n[0] += 1
        name = "%s%d" % (token, n[0])
        d.accept("sender@example.test", "x@far.test", pepsi.message(name))
        pepsi.wait_for("somebody has %s" % name, lambda: any(name in s.tokens() for s in sinks), 20)
        return name in sink.tokens()
    pepsi.wait_for("mail for %s" % token, look, 20, 0.2)


def takes_effect(t):
    """A module's option, by an own worker and in a fused pass; back again; after a restart it still holds."""
    global sinks
    for fusion in ("YES", "NO"):
        sinks = one, two = pepsi.Sink(t, lmtp=True), pepsi.Sink(t, lmtp=True)
        d = daemon(t, one, two, fusion)
        goes(d, one, "before")
        code, out, err = d.cli("config", "set", "a", "port", str(two.port))
        pepsi.check(code == 0, "set: %s%s" % (out, err))
        goes(d, two, "set")
        got = option(d, "stage-a", "PORT")
        pepsi.check((got["value"], got["source"]) == (str(two.port), "overlay"), "config show: %s" % got)
        pepsi.check("# overlay" in d.cli("config", "show")[1], "config show as text")
        line = next((x for x in log(d).splitlines() if "event=overlay-set" in x), "")
        pepsi.check("[stage-a] PORT" in line and str(two.port) in line and "uid=%d" % os.geteuid() in line, "the log says who did it: %r" % line)
        if fusion == "YES":
            d.stop()
            d.start()
            goes(d, two, "restarted")
        code, out, err = d.cli("config", "unset", "a", "PORT")
        pepsi.check(code == 0, "unset: %s%s" % (out, err))
        goes(d, one, "unset")
        got = option(d, "stage-a", "PORT")
        pepsi.check((got["value"], got["source"]) == (str(one.port), "file"), "config show: %s" % got)
        code, out, err = d.cli("config", "unset", "a", "PORT")
        pepsi.check(code == 1 and "not set" in err, "unset again: %d %s" % (code, err))
        d.stop()


def refused(t):
    """By the tool, with a reason, and nothing is written."""
    global sinks
    sinks = one, two = pepsi.Sink(t, lmtp=True), pepsi.Sink(t, lmtp=True)
    d = daemon(t, one, two)
    for args, word in ((("a", "PORT", "none"), "number"), (("a", "PORT", "70000"), "65535"), (("a", "PROT", "25"), "PORT"), (("c", "PORT", "25"), "section"),
                       (("a", "USER", "root"), "file"), (("a", "PROGRAM", "pepsi-stage-pipe"), "file"), (("a", "TLS", "none"), "file"),
                       (("a", "TLS_CA_FILE", "/tmp/x"), "file"), (("listener-mx", "BIND", "*:25"), "section"), (("a", "NEXT_STAGE", "nowhere"), "nowhere"),
                       (("bounce", "NEXT_STAGE", "bounce"), "loop"), (("a", "RETRY_MIN", "2 h"), "RETRY_M"), (("a", "HOST", "a\nb"), "line")):
        code, out, err = d.cli("config", "set", *args)
        pepsi.check(code == 1 and word in err, "config set %s: %d %s%s" % (" ".join(args), code, out, err))
    pepsi.check("overlay-set" not in log(d), "something was written")
    pepsi.check(d.cli("config", "set", "a", "PORT")[0] == 2, "wrong usage")
    goes(d, one, "still")
    d.stop()
    code, out, err = d.cli("config", "set", "a", "PORT", "25")
    pepsi.check(code == 1 and "pepsid" in err, "without a daemon: %d %s" % (code, err))
    pepsi.check(d.cli("config", "show")[0] == 0, "config show without a daemon")


def by_hand(t):
    """Rows that the tool would not write: each is told with its key and value, the file's value stands, and mail flows."""
    global sinks
    sinks = one, two = pepsi.Sink(t, lmtp=True), pepsi.Sink(t, lmtp=True)
    d = daemon(t, one, two, "NO")
    goes(d, one, "before")
    sql(d, "INSERT INTO pepsi.config_override VALUES ('global', 'stage-a', 'PORT', 'twenty'), ('global', 'stage-a', 'USER', 'root'),"
           " ('global', 'stage-a', 'NOSUCH', '1'), ('global', 'stage-a', 'HELO', 'laid.example.test'), ('global', 'stage-gone', 'PORT', '1')")
    pepsi.wait_for("workers are replaced", lambda: "event=config-changed" in log(d), 10)
    goes(d, one, "after")
    told = pepsi.wait_for("the faults are told", lambda: [x for x in log(d).splitlines() if "event=overlay-fault" in x], 10)
    for key, value in (("PORT", "twenty"), ("USER", "root"), ("NOSUCH", "1")):
        pepsi.check(any("option=%s" % key in x.replace('"', "") and value in x for x in told), "nothing of %s: %s" % (key, told))
    pepsi.check(option(d, "stage-a", "HELO")["source"] == "overlay" and option(d, "stage-a", "PORT")["source"] == "file", "config show")
    pepsi.check("stage-gone" in d.cli("config", "show")[2], "config show is silent of a row without a section")
    d.stop()


pepsi.main(__file__, [takes_effect, refused, by_hand])
