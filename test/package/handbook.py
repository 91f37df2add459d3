#!/usr/bin/env python3
"""The handbook against the programs: what it says can be typed is understood, what it says can be configured is known, what it links to is there, and
what it names (manual pages, metrics, lines of the log) exists. No daemon and no network: a command is understood when its exit status is not 2, wrong usage.

    handbook.py SOURCE_DIR BUILD_DIR"""
import glob
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SOURCE, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
PEPSI = os.path.join(BUILD, "bin", "pepsi")
failures = []

# What stands for something in a command, and what it is here.
STANDS_FOR = {"ID": "17", "N": "1", "STAGE": "init", "ADDRESS": "ann@example.org", "NAME": "example.org", "TYPE": "MX", "SECS": "1", "DOMAIN": "example.org",
              "HOST": "mx.example.org", "FILE": "mail.eml", "PATTERN": "*", "RULE": "1"}
# Every stage that the handbook speaks of, so that names in commands are names of something.
CONFIG = """[pepsi]
HOSTNAME = mx.example.org
LOCAL_DOMAINS = example.org srs.example.org
RELAY_NETWORKS = 127.0.0.0/8
STATE_DIR = %(dir)s/state
[pepsi-postgres]
CONFIG = host=%(dir)s/nobody dbname=pepsi connect_timeout=1
[listener-mx]
BIND = 127.0.0.1:2525
PROTOCOL = smtp
[token-office]
PROVIDER = microsoft
TENANT = example.org
CLIENT_ID = us
[stage-init]
PROGRAM = pepsi-stage-route
DEFAULT = srs
BOUNCE_STAGE = bounce
[stage-srs]
PROGRAM = pepsi-stage-srs
DOMAIN = srs.example.org
KEY_DIR = %(dir)s/state/srs
NEXT_STAGE = sign
BOUNCE_STAGE = bounce
[domain-srs.example.org]
RECIPIENTS = stage:srs
[stage-sign]
PROGRAM = pepsi-stage-dkim-sign
KEY_DIR = %(dir)s/state/dkim
NEXT_STAGE = internet
BOUNCE_STAGE = bounce
[stage-internet]
PROGRAM = pepsi-stage-relay-to-internet
BOUNCE_STAGE = bounce
[stage-bounce]
PROGRAM = pepsi-stage-bounce
NEXT_STAGE = init
"""


def fail(what):
    failures.append(what)
    print("FAIL", what)


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return f.read()


def names(*patterns):
    return [os.path.relpath(p, SOURCE) for pattern in patterns for p in sorted(glob.glob(os.path.join(SOURCE, pattern)))]


GUIDES = names("README.md", "CONTRIBUTING.md", "doc/*.md")
PAGES = names("doc/*.[1578]", "doc/*.in")


def plain(page):
    """The text of a manual page, good enough for looking at words."""
    return re.sub(r"(?m)^\.(?:BR|B|I|IR|BI|RB) +", "", page).replace("\\-", "-").replace("\\fR", "").replace("\\fB", "").replace("\\fI", "").replace("\\(aq", "'")


# ---- what is linked to, named, installed

def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def links():
    anchors = {g: {slug(m.group(1)) for m in re.finditer(r"(?m)^#+ (.*)$", read(g))} for g in GUIDES}
    n = 0
    for g in GUIDES:
        for m in re.finditer(r"\]\(([^)\s]+)\)", read(g)):
            if "://" in m.group(1):
                continue
            n += 1
            path, _, anchor = m.group(1).partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(g), path)) if path else g
            if not os.path.exists(os.path.join(SOURCE, to)):
                fail("%s links to %s, which is not there" % (g, m.group(1)))
            elif anchor and to in anchors and anchor not in anchors[to]:
                fail("%s links to %s: %s has no such heading" % (g, m.group(1), to))
    return n


def pages():
    there = {re.sub(r"\.in$", "", os.path.basename(p)) for p in PAGES}
    n = 0
    for f in GUIDES + PAGES + names("conf/*.conf", "contrib/debian/pepsi.conf"):
        text = re.sub(r"(pepsi[\w.-]*) \((\d)\)", r"\1(\2)", plain(read(f))).replace("`(", "(")
        for name, section in re.findall(r"\b(pepsi[a-z.-]*)`?\((\d)\)", text):
            n += 1
            if "%s.%s" % (name, section) not in there:
                fail("%s speaks of %s(%s): there is no such page" % (f, name, section))
    return n


def installed():
    lists = set(re.split(r"[\s()]+", read("doc/CMakeLists.txt")))
    files = names("doc/*.md", "doc/*.[1578]", "conf/*.conf")
    for f in files:
        if os.path.basename(f) not in lists:
            fail("%s is not installed: doc/CMakeLists.txt does not name it" % f)
    for f in names("doc/*.md"):
        if os.path.basename(f) != "abi-history.md" and "doc/" + os.path.basename(f) not in read("README.md"):
            fail("README.md does not lead to %s" % f)
    return len(files)


def facts():
    """Metrics, and lines of the log, are somewhere in the source. Names are made of parts there: the longest part that must stand as it is, is looked for."""
    code = []
    for folder in ("core", "modules", "proto", "db", "contrib"):
        for here, _, files in os.walk(os.path.join(SOURCE, folder)):
            for f in files:
                if f.endswith((".c", ".h", ".sql", ".inc", ".sh")):
                    with open(os.path.join(here, f), encoding="utf-8", errors="replace") as source:
                        code.append(source.read())
    code = "\n".join(code)
    n = 0
    for f in GUIDES + PAGES:
        text = plain(read(f))
        for event in set(re.findall(r"event=([a-z]+(?:-[a-z]+)*)", text)):
            n += 1
            parts = event.split("-")
            # event=%s-run, event=sts-policy-%s: one part may be filled in
            forms = [event] + ["-".join(parts[:i] + ["%s"] + parts[i + 1:]) for i in range(len(parts))]
            if not any("event=" + form in code for form in forms):
                fail("%s: nothing writes event=%s" % (f, event))
        for metric in set(re.findall(r"\bpepsi_[a-z_]+[a-z]\b(?!\()", text)):
            n += 1
            words = re.sub(r"^pepsi_(module_)?", "", re.sub(r"_(total|seconds|bytes)$", "", metric)).split("_")
            if not any("_".join(words[i:]) in code for i in range(min(3, len(words)))):
                fail("%s: nothing counts %s" % (f, metric))
    return n


# ---- what can be typed

def commands():
    """(file, line, command, whether all of it is there) of each command of ours that the handbook tells to type."""
    for f in GUIDES + PAGES:
        page = f in PAGES
        for number, line in enumerate((plain(read(f)) if page else read(f)).split("\n"), 1):
            said, whole = [], False
            if page:
                said = [line] if re.match(r"pepsi(-[a-z]+)? [a-z-]", line) and not re.search(r"[\[\]{}<]|\\f| - ", line) else []
            elif line.startswith("    "):
                said, whole = re.findall(r"^\s+(?:\$ )?(?:[a-z]+ .*\| )?(pepsi[ -].*)", line), True
            else:
                said = re.findall(r"`(pepsi [^`]*|pepsi-[a-z]+ [^`]+)`", line)
            for c in said:
                yield f, number, c, whole


def words_of(command):
    """The words of the first program, as a shell would give them; None: nothing that can be typed as it stands."""
    command = re.split(r"\\\||&&|;| \| ", command)[0]
    command = re.sub(r"\s#.*$", "", command)
    if re.search(r"…|\$\(|^pepsi-stage-|\.\.\.", command):
        return None
    try:
        words = shlex.split(command.replace(" > ", " >"))
    except ValueError:
        return None
    words = [STANDS_FOR.get(w, w) for w in words if not w.startswith((">", "<"))]
    words = [w if i == 0 or words[i - 1] != "--wait" else "0" for i, w in enumerate(words)]  # nobody comes
    return words if len(words) > 1 and os.path.exists(os.path.join(BUILD, "bin", words[0])) else None


def understood(folder, words, whole):
    """What is wrong with a command; None: nothing. One that is only spoken of ("see pepsi queue show") may lack its operands."""
    env = dict(os.environ, PEPSI_CONFIG=os.path.join(folder, "pepsi.conf"))
    try:
        r = subprocess.run([os.path.join(BUILD, "bin", words[0])] + words[1:], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=60)
    except subprocess.TimeoutExpired:
        return "it does not come back"
    usage = 64 if words[0] == "pepsi-sendmail" else 2
    text = r.stdout.decode(errors="replace")
    if r.returncode == 2 and not whole and re.search(r" needs |what to do\?|to which stage\?|Name ids or filters", text):
        return None
    return "exit status %d: %s" % (r.returncode, text.strip()[:300]) if r.returncode == usage or r.returncode < 0 else None


def typed(folder):
    seen = {}
    for f, number, command, whole in commands():
        words = words_of(command)
        if words and (whole or tuple(words) not in seen):
            seen[tuple(words)] = (f, number, whole)
    with ThreadPoolExecutor(4) as pool:
        for (words, (f, number, _)), wrong in zip(seen.items(), pool.map(lambda w: understood(folder, list(w), seen[w][2]), seen)):
            if wrong:
                fail("%s:%d: %s: %s" % (f, number, " ".join(words), wrong))
    return len(seen)


# ---- what can be configured

def check(path):
    r = subprocess.run([PEPSI, "--json", "-c", path, "config", "check"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    return json.loads(r.stdout)


def fragments(folder):
    """Options and sections in the guides' pieces of configuration are known. What a piece leaves out is no fault of it."""
    pieces = []
    for g in GUIDES:
        for m in re.finditer(r"(?m)(?:^ {4}.*\n|^ *\n(?= {4}))+", read(g)):
            text = "\n".join(line[4:] for line in m.group(0).split("\n"))
            if re.search(r"(?m)^#?\[(?:pepsi|stage|listener|domain|token)[\w.-]*\]$", text) and "PROGRAM = pepsi-stage-my" not in text:
                pieces.append((g, read(g)[:m.start()].count("\n") + 1, text))

    def one(i):
        g, line, text = pieces[i]
        path = os.path.join(folder, "piece%d.conf" % i)
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join("" if re.search(r"…|^\.\.\.|^@inline|\.so\b", x) else x for x in text.split("\n")))
        return [(g, line + max(w.get("line") or 1, 1) - 1, w["text"]) for w in check(path)
                if re.search(r"unknown (option|section)|no effect|(?<!there )is (no|not a)\b|not one of|no module", w["text"])]
    with ThreadPoolExecutor(2) as pool:
        for wrong in pool.map(one, range(len(pieces))):
            for g, line, text in wrong:
                fail("%s:%d: %s" % (g, line, text))
    return len(pieces)


def examples():
    """conf/*.conf are without a fault, but for files of the site's own; and what they have in common they have alike."""
    files = names("conf/*.conf")
    for f in files:
        text = read(f)
        whole = "[stage-init]" in text
        for w in check(os.path.join(SOURCE, f)) if whole else []:
            if not re.search(r"No such file or directory", w["text"]):
                fail("%s:%s: %s" % (f, w.get("line"), w["text"]))
        # the account of the stages may make folders there and nowhere else below /var/mail
        for where in re.findall(r"(?m)^MAILDIR = (.*)", text):
            if not where.startswith("/var/mail/pepsi/"):
                fail("%s: the stages' account cannot make %s" % (f, where))
        # without it the timer of the package fails every ten minutes
        if whole and not re.search(r"(?ms)^\[pepsi-failure-bouncer\]$.*?^BOUNCE_STAGE = ", text):
            fail("%s has no BOUNCE_STAGE for pepsi-failure-bouncer" % f)
        # an attempt at a slow host takes longer than the default (pepsi-stage-relay-to-internet(7))
        for section in re.findall(r"(?ms)^PROGRAM = pepsi-stage-relay-to-internet$(.*?)(?=^\[|\Z)", text):
            if not re.search(r"(?m)^MAX_RUNTIME = 40 min$", section) or not re.search(r"(?m)^QUEUE_LIMIT = ", section):
                fail("%s: a stage that delivers to the Internet without MAX_RUNTIME and QUEUE_LIMIT" % f)
    return len(files)


def main():
    with tempfile.TemporaryDirectory(prefix="pepsi-handbook-") as folder:
        os.chmod(folder, 0o755)
        os.mkdir(os.path.join(folder, "state"))
        with open(os.path.join(folder, "pepsi.conf"), "w") as f:
            f.write(CONFIG % {"dir": folder})
        with open(os.path.join(folder, "mail.eml"), "w") as f:
            f.write("Return-Path: <bob@example.net>\nReceived: from mail.example.net (mail.example.net [192.0.2.1])\n\tby mx.example.org with ESMTP id 1 for <ann@example.org>;\n"
                    "\tTue, 1 Dec 2026 03:00:00 +0000\nFrom: ann@example.org\nSubject: x\n\nx\n")
        faults = [w for w in check(os.path.join(folder, "pepsi.conf")) if w["severity"] == "error"]
        if faults:
            fail("the configuration of this test: %s" % faults)
        for what, n, least in (("links", links(), 50), ("manual pages named", pages(), 100), ("files installed", installed(), 60), ("metrics and events", facts(), 100),
                               ("commands typed", typed(folder), 80), ("pieces of configuration", fragments(folder), 20), ("examples", examples(), 12)):
            print("%d %s" % (n, what))
            if n < least:
                fail("only %d %s: this test does not see them any more" % (n, what))
    sys.exit(1 if failures else 0)


main()
