"""Delivery status notifications as people and programs get them: in their language, in the operator's words, for internationalized addresses, of hostile
replies; returned by an operator; several recipients in one; shown by a mail program; and of each outcome exactly one, whoever is killed."""
import email
import email.policy
import os
import shlex
import shutil
import signal
import subprocess

import hops
import pepsi

UTF8 = email.policy.SMTPUTF8


def setup(t, sink, bounce="", hop="", more=""):
    d = pepsi.Pepsid(t, "", start=False)
    os.makedirs(os.path.join(d.dir, "texts"))
    d.write_config(pepsi.route("init", [("home.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail) + pepsi.smarthost("relay", sink.port, hop)
                   + pepsi.bounce(more=bounce.replace("DIR", os.path.join(d.dir, "texts"))), pepsi="LOCAL_DOMAINS = home.test\n", more=more)
    return d


def text_file(d, name, text):
    path = os.path.join(d.dir, "texts", name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return path


def refusing(t, reply="550 5.1.1 nobody of that name"):
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda l: reply if "gone" in l else "450 4.2.0 come back later" if "late" in l else None}
    return sink


def parse(octets):
    """(message, text for people, fields of the message, fields of each recipient, the part that came back)"""
    for line in octets.split(b"\r\n"):
        pepsi.check(len(line) <= 998 and b"\n" not in line and b"\r" not in line and b"\0" not in line, "a line that cannot be sent: %r" % line[:200])
    m = email.message_from_bytes(octets, policy=UTF8)
    parts = list(m.iter_parts())
    kind = m.get_param("report-type")
    pepsi.check(m.get_content_type() == "multipart/report" and len(parts) == 3, "no report: %s, %d parts" % (m["Content-Type"], len(parts)))
    pepsi.check(not m.defects and not any(p.defects for p in parts), "defects: %s %s" % (m.defects, [p.defects for p in parts]))
    pepsi.check(parts[0].get_content_type() == "text/plain", "first part: %s" % parts[0]["Content-Type"])
    pepsi.check(parts[1].get_content_type() == {"delivery-status": "message/delivery-status", "global-delivery-status": "message/global-delivery-status"}[kind],
                "second part: %s" % parts[1]["Content-Type"])
    head, boundary = octets.split(b"\r\n\r\n", 1)[1], m.get_boundary().encode()
    raw = head.split(b"--" + boundary + b"\r\n")[2].split(b"\r\n\r\n", 1)[1].decode("utf-8")  # Python does not know the global- form
    blocks = []
    for group in raw.strip().split("\r\n\r\n"):
        fields = email.message_from_string(group + "\r\n\r\n", policy=UTF8)
        blocks.append({k.lower(): str(v) for k, v in fields.items()})
    return m, parts[0].get_content(), blocks[0], blocks[1:], parts[2]


def one_report(d, who, n=1):
    mail = pepsi.wait_for("the report to %s" % who, lambda: len(d.maildir(who)) >= n and d.maildir(who), 20)
    pepsi.check(len(mail) == n, "%d reports to %s" % (len(mail), who))
    return parse(mail[-1])


def languages(t):
    sink = refusing(t)
    d = setup(t, sink, "LANGUAGE = de\nSENDER_LANGUAGE_1 = *@fr.home.test ana@home.test es\nTEMPLATES = DIR\nPOSTMASTER = hilfe@home.test\n".replace("*@fr.home.test ", ""))
    broken = text_file(d, "de.dsn", "# ours\n[footer]\nFragen? {postmaster}, Zeichen {id}\n\n[hello]\nHier ist {hsot}.\n")
    code, out, err = d.cli("config", "check")
    pepsi.check(code == 1 and "%s:6: unknown placeholder {hsot}" % broken in out + err, "config check: exit %d\n%s%s" % (code, out, err))
    text_file(d, "de.dsn", "# ours\n[footer]\nFragen? {postmaster}, Zeichen {id}\n\n[hello]\nHier ist {host}, für Sie da.\n")
    code, out, err = d.cli("config", "check")
    pepsi.check(code == 0, "config check: exit %d\n%s%s" % (code, out, err))
    d.start()
    for who, more, subject, words in (
            ("uwe@home.test", b"", "Unzustellbar: Ihre Nachricht kommt zurück", ("Hier ist mx.example.test, für Sie da.", "Die Adresse gibt es dort nicht.", "Fragen? hilfe@home.test, Zeichen ")),
            ("eve@home.test", b"Accept-Language: nl, fr;q=0.8, en;q=0.2\r\n", "Non remis : votre message vous est retourné", ("n'a malheureusement pas pu être remis",)),
            ("tom@home.test", b"Content-Language: en-GB\r\n", "Undelivered Mail Returned to Sender", ("I am sorry to tell you",)),
            ("ana@home.test", b"Accept-Language: fr\r\n", "No entregado: le devolvemos su mensaje", ("Lamentamos decirle",))):
        d.accept(who, "gone@far.test", more + pepsi.message("l", sender=who))
        m, text, message, rcpts, back = one_report(d, who)
        pepsi.check(m["Subject"] == subject, "Subject: %s" % m["Subject"])
        pepsi.check(all(w in text for w in words), "%s: not all of %s in\n%s" % (who, words, text))
        pepsi.check("MAILER-DAEMON@home.test" in m["From"], "From: %s" % m["From"])
        pepsi.check("550 nobody of that name" in text, "the server's words are not there:\n%s" % text)
        pepsi.check(m["Content-Transfer-Encoding"] == "7bit", "a report that needs 8BITMIME for nothing")
    d.stop()


def returned_by_hand(t):
    """`pepsi queue set-stage bounce`: plain words, nothing of our insides; what the server said last."""
    sink = refusing(t)
    d = setup(t, sink)
    d.start()
    ident = d.accept("ann@home.test", "late@far.test", pepsi.message("op", sender="ann@home.test"))
    pepsi.wait_for("an attempt", lambda: [r for r in d.queue() if r.get("last_error") and r["status"] == "paused"], 20)
    code, out, err = d.cli("queue", "set-stage", "bounce", ident)
    pepsi.check(code == 0, "set-stage: %s%s" % (out, err))
    m, text, message, rcpts, back = one_report(d, "ann@home.test")
    flat = " ".join(text.split())
    for words in ("The postmaster of this system returned the message", "write to postmaster@home.test", "said: 450 come back later"):
        pepsi.check(words in flat, "not said: %s\n%s" % (words, text))
    pepsi.check("stage" not in flat and "Reason: 450" not in flat, "insides are shown:\n%s" % text)
    pepsi.check(rcpts[0]["action"] == "failed" and rcpts[0]["status"] == "5.3.0" and rcpts[0]["diagnostic-code"] == "smtp; 450 come back later", "fields: %s" % rcpts)
    d.wait_empty(10)
    d.stop()


def internationalized(t):
    sink = refusing(t)
    d = setup(t, sink)
    d.start()
    who = "jürgen@home.test"
    data = ("From: <%s>\r\nTo: <gone+ü@far.test>\r\nSubject: Grüße\r\nMessage-ID: <i@home.test>\r\n\r\nhallo\r\n" % who).encode()
    s = pepsi.Smtp(d.port)
    code, text = s.send(who, ["gone+ü@far.test"], data, "SMTPUTF8 BODY=8BITMIME", "ORCPT=utf-8;gone\\x{2B}\\x{FC}@far.test")
    pepsi.check(code == 250, "not taken: %d %s" % (code, text))
    m, text, message, rcpts, back = one_report(d, who)
    pepsi.check(m.get_param("report-type") == "global-delivery-status" and back.get_content_type() == "message/global", "types: %s, %s" % (m["Content-Type"], back["Content-Type"]))
    pepsi.check("<gone+ü@far.test>" in text and "Grüße" in str(d.maildir(who)[0], "utf-8"), "text:\n%s" % text)
    pepsi.check(rcpts[0]["final-recipient"] == "utf-8; gone\\x{2B}ü@far.test" and rcpts[0]["original-recipient"] == "utf-8; gone\\x{2B}ü@far.test", "fields: %s" % rcpts)
    # an ASCII sender of an ASCII message: nothing internationalized, whoever the others were
    d.accept("ann@home.test", "gone@far.test", pepsi.message("a", sender="ann@home.test"), params="SMTPUTF8")
    m, text, message, rcpts, back = one_report(d, "ann@home.test")
    pepsi.check(m.get_param("report-type") == "delivery-status" and rcpts[0]["final-recipient"] == "rfc822; gone@far.test", "types: %s %s" % (m["Content-Type"], rcpts))
    s.close()
    d.stop()


HOSTILE = ["550 5.1.1 \x1b[31mred\x1b[0m \x07 tab\there", "550 5.7.1 \u202etxt.exe\u2066 zero\u200bwidth", "550 {host} {postmaster} %s %n ${IFS} `id`",
           "550 5.1.1 --=_dsn_0000000000000000", "550 " + "x" * 480, "550-5.1.1 Final-Recipient: rfc822; victim@far.test\r\n550 5.1.1 Action: delivered",
           "550 5.1.1 <b>html</b> & =?utf-8?q?encoded?= word", "550 9.9.9 =3D=0D=0AX-Injected: yes"]


def where_aliases_lead(t):
    """A stranger reads that the alias he wrote to failed, is late or was served, and nowhere in the report where it leads; our own users read it all."""
    sink = pepsi.Sink(t, extensions=["PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"])  # no DSN: what it took is ours to report
    sink.script = {"rcpt": lambda l: "550 5.1.1 <gone@secret.test> is nobody at mx.secret.test" if "gone" in l else "450 4.2.0 secret.test is busy" if "late" in l else None}
    d = pepsi.Pepsid(t, "", start=False)
    aliases = os.path.join(d.dir, "aliases")
    with open(aliases, "w") as f:
        f.write("sales: gone@secret.test\npair: gone@secret.test, gone.too@secret.test\nmixed: ok@secret.test, gone@secret.test\nslow: late@secret.test\nfine: ok@secret.test\n")
    os.chmod(aliases, 0o644)
    stages = "[stage-init]\nPROGRAM = pepsi-stage-aliases\nFILE = %s\nNEXT_STAGE = route\nBOUNCE_STAGE = bounce\n" % aliases
    d.write_config(stages + pepsi.route("route", [("home.test", "maildir")], "relay") + pepsi.maildir("maildir", d.mail) +
                   pepsi.smarthost("relay", sink.port, "DELAY_WARNING = 1 s\n") + pepsi.bounce(), pepsi="LOCAL_DOMAINS = home.test\nRELAY_NETWORKS = 127.0.0.2/32\n")
    d.start()
    with open(d.config) as f:
        config = f.read()
    who = iter("w%d@home.test" % i for i in range(20))

    def report(to, source="127.0.0.9", params=""):
        sender = next(who)
        s = pepsi.Smtp(d.port, source=source)
        code, text = s.send(sender, [to + "@home.test"], pepsi.message("f", sender=sender), "", params)
        s.close()
        pepsi.check(code == 250, "not taken: %d %s" % (code, text))
        return one_report(d, sender) + (d.maildir(sender)[0],)

    def hidden(to, action, status, **kw):
        m, text, message, rcpts, back, octets = report(to, **kw)
        pepsi.check(b"secret" not in octets and b"gone" not in octets, "%s: where it leads is told:\n%s" % (to, octets.decode("utf-8", "replace")))
        pepsi.check([(r["final-recipient"], r["action"], r["status"]) for r in rcpts] == [("rfc822; %s@home.test" % to, action, status)], "%s: %s" % (to, rcpts))
        pepsi.check("<%s@home.test>" % to in text and "remote-mta" not in rcpts[0], "%s: %s\n%s" % (to, rcpts, text))
        return text, rcpts[0]
    text, fields = hidden("sales", "failed", "5.1.1")
    pepsi.check("Its answer is not shown" in " ".join(text.split()) and fields["diagnostic-code"] == "smtp; 550 5.1.1 (not shown)", "%s\n%s" % (fields, text))
    hidden("pair", "failed", "5.1.1")
    hidden("mixed", "failed", "5.1.1")
    hidden("slow", "delayed", "4.2.0")
    hidden("fine", "relayed", "2.0.0", params="NOTIFY=SUCCESS")
    hidden("sales", "failed", "5.1.1", params="ORCPT=rfc822;sales@home.test NOTIFY=FAILURE")

    def shown(**kw):
        m, text, message, rcpts, back, octets = report("sales", **kw)
        pepsi.check(rcpts[0]["final-recipient"] == "rfc822; gone@secret.test" and "is nobody at mx.secret.test" in " ".join(text.split()) and rcpts[0]["original-recipient"] == "rfc822; sales@home.test",
                    "%s\n%s" % (rcpts, text))
    shown(source="127.0.0.2")
    for value, ours, strangers in (("always", hidden, hidden), ("never", shown, shown)):
        with open(d.config, "w") as f:
            f.write(config.replace("PROGRAM = pepsi-stage-bounce\n", "PROGRAM = pepsi-stage-bounce\nHIDE_FORWARDING = %s\n" % value))
        code, out, err = d.cli("reload")
        pepsi.check(code == 0, "reload: %s%s" % (out, err))
        pepsi.wait_for("the new configuration", lambda value=value: "HIDE_FORWARDING = %s" % value in d.cli("config", "show")[1], 20)
        for source, what in (("127.0.0.2", ours), ("127.0.0.9", strangers)):
            what(source=source) if what is shown else what("sales", "failed", "5.1.1", source=source)
    with open(d.log, errors="replace") as f:
        log = f.read()
    pepsi.check("gone@secret.test" in log and "hidden=1" in log and "hidden=2" in log, "the log does not tell the operator")
    d.stop()


def late_for_all(t):
    """A domain takes nothing, and most of what waits for it is put off without an attempt of its own: each sender hears of the delay all the same, once. What an operator holds
    back is not late: nobody hears of it."""
    way = hops.Internet(t)
    way.add("busy", way.sink())
    way.lab.zone.update(way.zone, **{"none.test": {"MX": ["10 mx.none.test"]}, "mx.none.test": {"A": ["127.30.98.98"]}})
    # few messages are taken at a time, so that most are pending when the first ones find nobody
    stage = ("[stage-init]\nPROGRAM = pepsi-stage-relay-to-internet\nPORT = %d\nALLOW_LOOPBACK = YES\nPARALLELISM = 1\nQUEUE_LIMIT = 10\nRETRY_MIN = 1 s\nRETRY_MAX = 2 s\nMTA_STS = NO\n"
             "SHAPE_1 = * initial=2 backoff=2s..4s\nBOUNCE_STAGE = bounce\nDELAY_WARNING = 3 s\n" % way.port)
    d = pepsi.Pepsid(t, stage + pepsi.bounce(), more="[pepsi-dns]\nSERVERS = %s\n" % way.lab.server)
    for domain in ("busy.test", "none.test"):
        code, out, err = d.cli("queue", "hold", "add", "--destination", domain, "--reason", "let it wait")
        pepsi.check(code == 0, "hold: %s%s" % (out, err))
    count = 60
    s = pepsi.Smtp(d.port)
    for i in range(count):
        code, text = s.send("from%d@back.test" % i, ["x@none.test"], pepsi.message("l%d" % i, sender="from%d@back.test" % i))
        pepsi.check(code == 250, "not taken: %d %s" % (code, text))
    code, text = s.send("held@back.test", ["x@busy.test"], pepsi.message("held", sender="held@back.test"))
    s.close()

    # all of them are due at one moment
    for rule in d.json("queue", "hold", "list"):
        if "none.test" in str(rule):
            code, out, err = d.cli("queue", "hold", "remove", str(rule["id"]))
            pepsi.check(code == 0, "remove: %s%s" % (out, err))

    def told():
        return sorted(r[0] for m in list(way.back.messages) if b"Action: delayed" in m.data for r in m.rcpts)
    wanted = sorted("from%d@back.test" % i for i in range(count))
    pepsi.wait_for("a report to each", lambda: set(told()) >= set(wanted), 120, .5)
    put_off = sum(v for k, v in d.metrics().items() if k.startswith("pepsi_worker_put_off_total"))
    rows = d.queue()
    pepsi.say("      %d senders told, %d times put off" % (len(set(told())), put_off))
    pepsi.check(told() == wanted, "not once each: %s" % told())
    pepsi.check(put_off, "nothing was put off: the test shows nothing")
    pepsi.check(len(rows) == count + 1 and "held@back.test" not in told(), "%d rows" % len(rows))
    d.stop()


def hostile(t):
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda l: HOSTILE[int(l.split("<h")[1].split("{")[0])]}
    d = setup(t, sink, "LANGUAGE = de\n")
    d.start()
    for i in range(len(HOSTILE)):
        who, to = "h%d@home.test" % i, "h%d{text}%%s@far.test" % i
        d.accept(who, to, pepsi.message("h%d" % i, sender=who))
        m, text, message, rcpts, back = one_report(d, who)
        octets = d.maildir(who)[0]
        pepsi.check(len(rcpts) == 1 and rcpts[0]["action"] == "failed" and rcpts[0]["final-recipient"] == "rfc822; " + to, "%d: %s" % (i, rcpts))
        pepsi.check("<%s>:" % to in text, "%d: the address is not as it was:\n%s" % (i, text))
        pepsi.check(not [c for c in text if (ord(c) < 32 and c not in "\r\n\t") or c in "\u202e\u2066\u200b"], "%d: hidden characters:\n%r" % (i, text))
        pepsi.check(not m["X-Injected"] and octets.count(b"multipart/report") == 1, "%d: injected:\n%s" % (i, octets))
        pepsi.check(rcpts[0]["status"][0] == "5" and rcpts[0]["status"] != "9.9.9", "%d: Status: %s" % (i, rcpts[0]["status"]))
    d.stop()


def spoken_for(t):
    """Addresses that would like to speak for the log: each stands in quotes, and a line has one id, one kind, one status."""
    d = setup(t, refusing(t))
    d.start()
    d.accept('"a> kind=success status=2.0.0 id=1 to=<b"@home.test', '"gone> id=4711 kind=success event=delivered to=<c"@far.test', pepsi.message("one"))

    def lines():
        with open(d.log, errors="replace") as f:
            return [line for line in f if " report to=" in line]
    words = shlex.split(pepsi.wait_for("the line about the report", lines, 20)[0])
    for name, want in (("kind", "kind=failed"), ("id", "id=1"), ("status", "status=5.1.1"), ("event", None)):
        found = [w for w in words if w.startswith(name + "=")]
        pepsi.check(found == ([want] if want else []), "%s: %s" % (name, words))
    d.wait_empty(20)
    d.stop()


def several(t):
    """All of one message that failed at once are in one report, each with its own reason; who asked not to hear is left out."""
    sink = pepsi.Sink(t)
    sink.script = {"rcpt": lambda l: "550 5.1.1 unknown" if "gone1" in l else "550 5.2.2 full" if "gone2" in l else "550 5.7.1 no" if "never" in l else None}
    d = setup(t, sink)
    d.start()
    s = pepsi.Smtp(d.port)
    for line in ("MAIL FROM:<ann@home.test> RET=HDRS", "RCPT TO:<gone1@far.test>", "RCPT TO:<gone2@far.test> NOTIFY=FAILURE", "RCPT TO:<never@far.test> NOTIFY=NEVER",
                 "RCPT TO:<fine@far.test> NOTIFY=SUCCESS"):
        code, text = s.cmd(line)
        pepsi.check(code == 250, "%s: %d %s" % (line, code, text))
    code, text = s.cmd("DATA")
    s.raw(pepsi.message("several", sender="ann@home.test") + b".\r\n")
    pepsi.check(s.reply()[0] == 250, "not taken")
    s.close()
    m, text, message, rcpts, back = one_report(d, "ann@home.test")
    pepsi.check([(r["final-recipient"], r["status"]) for r in rcpts] == [("rfc822; gone1@far.test", "5.1.1"), ("rfc822; gone2@far.test", "5.2.2")], "recipients: %s" % rcpts)
    pepsi.check("The mailbox is full" in text and "does not exist there" in text and "never@" not in text, text)
    pepsi.check(back.get_content_type() == "text/rfc822-headers", "RET=HDRS: %s" % back["Content-Type"])
    d.wait_empty(10)
    # the smart host offers DSN, so "fine" is its to report
    pepsi.check(len(d.maildir("ann@home.test")) == 1, "more reports than one")
    d.accept("ann@home.test", "never@far.test", pepsi.message("m", sender="ann@home.test"), rcpt_params="NOTIFY=NEVER")
    d.accept("", "gone1@far.test", pepsi.message("n"))
    wanted = ['pepsi_module_notifications_total{stage="bounce",kind="failed"} 1', 'pepsi_module_no_notifications_total{stage="bounce",why="muted"} 1',
              'pepsi_module_no_notifications_total{stage="bounce",why="null_sender"} 1']
    pepsi.wait_for("the counters", lambda: all(w in text_of(d.http_get("/metrics")) for w in wanted), 20, 0.5)
    d.stop()


def text_of(answer):
    body = answer[1]
    return body if isinstance(body, str) else body.decode()


def mail_program(t):
    """s-nail shows the report: its words, decoded, and its parts by their names."""
    if not shutil.which("s-nail"):
        raise pepsi.Skip("s-nail is not installed")
    sink = refusing(t)
    d = setup(t, sink, "LANGUAGE = de\n")
    d.start()
    d.accept("uwe@home.test", "gone@far.test", pepsi.message("s", sender="uwe@home.test"))
    one_report(d, "uwe@home.test")
    box = os.path.join(d.dir, "mbox")
    with open(box, "wb") as f:
        f.write(b"From MAILER-DAEMON Mon Nov 30 12:00:00 2026\n" + d.maildir("uwe@home.test")[0].replace(b"\r\n", b"\n") + b"\n")
    env = dict(os.environ, LC_ALL="C.UTF-8", HOME=d.dir, TERM="dumb", MAILRC="/dev/null")
    r = subprocess.run(["s-nail", "-n", "-#", "-R", "-S", "quiet", "-Y", "headers", "-Y", "type 1", "-Y", "xit", "-f", box], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=60, env=env)
    out = r.stdout.decode("utf-8", "replace")
    for words in ("Unzustellbar: Ihre Nachricht kommt", "Ihre Nachricht konnte dem folgenden Empfänger leider nicht zugestellt", "message/delivery-status", "Zustellbericht", "Mailzustellung"):
        pepsi.check(words in out, "s-nail does not show \"%s\":\n%s" % (words, out))
    d.stop()


def exactly_once(t):
    """Workers of every stage and the whole daemon are killed while failures and successes are reported: of each outcome there is one report. A Maildir
    may get a second copy of it (its file is there before the commit); that has the same Message-ID."""
    rounds, each = int(os.environ.get("PEPSI_KILL_ROUNDS") or 4), 12
    sink = pepsi.Sink(t, extensions=("PIPELINING", "8BITMIME", "ENHANCEDSTATUSCODES"))
    sink.script = {"rcpt": lambda l: "550 5.1.1 unknown" if "gone" in l else None}
    d = setup(t, sink)
    d.start()
    n = 0
    for i in range(rounds):
        s = pepsi.Smtp(d.port)
        for _ in range(each):
            who = "k%d@home.test" % n
            code, text = s.send(who, ["gone%d@far.test" % n, "fine%d@far.test" % n], pepsi.message("k%d" % n, sender=who), "ENVID=k%d" % n, "NOTIFY=SUCCESS,FAILURE")
            pepsi.check(code == 250, "%d %s" % (code, text))
            n += 1
            if n % 4 == 0:  # a worker that is at it, if one is
                for pid in (d.worker_pids("bounce") + d.worker_pids("relay"))[:2]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
        s.close()
        tree = pepsi.proc_tree(d.process.pid)
        d.process.send_signal(signal.SIGKILL)  # the spawner; all others go with it
        d.process.wait()
        pepsi.wait_for("its children gone", lambda: not [p for p in tree if pepsi.alive(p)], 20)
        d.start()
    d.wait_empty(60)
    for i in range(n):
        seen = {}
        for octets in d.maildir("k%d@home.test" % i):
            m, text, message, rcpts, back = parse(octets)
            pepsi.check(message["original-envelope-id"] == "k%d" % i, "somebody else's: %s" % message)
            for r in rcpts:
                seen.setdefault((r["final-recipient"], r["action"]), set()).add(m["Message-ID"])
        want = {("rfc822; gone%d@far.test" % i, "failed"), ("rfc822; fine%d@far.test" % i, "relayed")}
        pepsi.check(set(seen) == want and all(len(ids) == 1 for ids in seen.values()), "message %d: %s" % (i, seen))
    s = d.status()
    pepsi.check(s["accepted"] == s["delivered"] + s["bounced"] + s["discarded"], "the books: %s" % s)
    d.stop()


pepsi.main(__file__, [languages, returned_by_hand, internationalized, hostile, spoken_for, several, where_aliases_lead, late_for_all, mail_program, exactly_once])
