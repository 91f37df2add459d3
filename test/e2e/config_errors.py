"""A configuration with every kind of mistake: `pepsi config check` and pepsid report all of them in one run, each with
file and line, unknown names with the nearest known one."""
import os
import subprocess

import pepsi

BROKEN = """\
stray = before any section
[pepsi]
HOSTNAM = mx.example.test
ALLOW_FUSION = PERHAPS
RELAY_NETWORKS = 127.0.0.0/8 300.1.2.3/8
[pepsi-dispach]
POLL_INTERVAL = 3 s
[pepsi-dispatch]
MAX_RUNTIME = five minutes
FAIR_FIFO_PERCENT = 200
[pepsi-httpd]
BIND = 127.0.0.1:99999
[listener-mx]
PROTOCOL = smpt
MESSAGE_SIZE_LIMIT = 50 Mib of mail
[stage-init]
PROGRAM = pepsi-stage-rout
NEXT_STAGE = delivery
[stage-relay]
PROGRAM = pepsi-stage-relay-to-smarthost
HOST = 127.0.0.1
PORT = 70000
PROT = 25
BOUNCE_STAGE = bouncer
[stage-deliver]
NEXT_STAGE = relay
this is no option
[stage-bounce]
PROGRAM = pepsi-stage-bounce
NEXT_STAGE = relay
@inline@ missing.conf
[unterminated
"""
# line of the mistake, words its message must contain (without case); several: any of them
EXPECTED = [
    (1, ["section"]), (3, ["HOSTNAME"]), (4, ["YES"]), (5, ["300.1.2.3"]), (6, ["pepsi-dispatch"]), (9, ["five minutes"]),
    (10, ["FAIR_FIFO_PERCENT"]), (12, ["99999"]), (14, ["smtp"]), (15, ["MESSAGE_SIZE_LIMIT"]), (17, ["pepsi-stage-route"]),
    (18, ["deliver"]), (22, ["70000"]), (23, ["PORT"]), (24, ["bounce"]), (27, ["="]), (31, ["missing.conf"]), (32, ["]"]),
]
# mistakes of a whole section: the section's name and a word
WHOLE = [("listener-mx", "BIND"), ("stage-deliver", "PROGRAM")]


def all_at_once(t):
    path = os.path.join(t.dir, "broken.conf")
    with open(path, "w") as f:
        f.write(BROKEN)
    os.chmod(path, 0o644)
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", path, "config", "check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=dict(os.environ, **t.environment), timeout=60)
    text = r.stdout.decode(errors="replace")
    pepsi.check(r.returncode == 1, "exit code %d" % r.returncode)
    problems = []
    for line, words in EXPECTED:
        said = [l for l in text.splitlines() if "broken.conf:%d:" % line in l]
        if not said:
            problems.append("line %d is not reported: %s" % (line, BROKEN.splitlines()[line - 1]))
        elif not any(w.lower() in l.lower().split("broken.conf:%d:" % line)[1] for w in words for l in said):
            problems.append("line %d: none of %s in: %s" % (line, words, said))
    for section, word in WHOLE:
        if not any(section in l and word in l for l in text.splitlines()):
            problems.append("[%s] without %s is not reported" % (section, word))
    pepsi.check(not problems, "%s\n---- it said:\n%s" % ("\n".join(problems), text))
    pepsi.say("      %d mistakes, %d lines of findings" % (len(EXPECTED) + len(WHOLE), len(text.splitlines())))


def daemon_refuses(t):
    """pepsid prints the same findings and does not start; nothing is made in the state folder's place."""
    path = os.path.join(t.dir, "broken.conf")
    state = os.path.join(t.dir, "nothing")
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsid"), "-c", path, "--state", state], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env=dict(os.environ, **t.environment), timeout=60)
    text = r.stdout.decode(errors="replace")
    pepsi.check(r.returncode != 0, "it started")
    for line in (3, 14, 23, 32):
        pepsi.check("broken.conf:%d:" % line in text, "line %d is not reported:\n%s" % (line, text))
    pepsi.check(not os.path.exists(os.path.join(state, "postgres")), "a cluster was made for a broken configuration")


def machine_output(t):
    """`--json config check`: one object per finding with file, line and text; a good file: none and exit 0."""
    import json
    path = os.path.join(t.dir, "broken.conf")
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", path, "--json", "config", "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env=dict(os.environ, **t.environment), timeout=60)
    pepsi.check(r.returncode == 1, "exit code %d" % r.returncode)
    found = json.loads(r.stdout)
    found = found if isinstance(found, list) else next(v for v in found.values() if isinstance(v, list))
    lines = {f["line"] for f in found}
    missing = [line for line, _ in EXPECTED if line not in lines]
    pepsi.check(not missing, "lines missing in JSON: %s" % missing)
    pepsi.check(all(f["file"].endswith("broken.conf") or "missing" in f["file"] or not f["file"] for f in found), "files: %s" % found)
    good = os.path.join(t.dir, "good.conf")
    with open(good, "w") as f:
        f.write("[pepsi]\nHOSTNAME = mx.example.test\nLOCAL_DOMAINS = example.test\n[listener-mx]\nBIND = 127.0.0.1:2525\nPROTOCOL = smtp\n"
                + pepsi.smarthost("init", 2526) + pepsi.bounce())
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", good, "config", "check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                       env=dict(os.environ, **t.environment))
    pepsi.check(r.returncode == 0, "a good file: %d %s" % (r.returncode, r.stdout.decode()))


pepsi.main(__file__, [all_at_once, daemon_refuses, machine_output])
