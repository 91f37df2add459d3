"""Recipients that a server called unknown are remembered, and mail to them is returned at once; what is policy, temporary or said of a
whole message teaches nothing; an operator's word goes before; exempt senders reach everybody."""
import pepsi
from pepsi import Pepsid, Sink, check, message, smarthost, wait_for


def site(t, more=""):
    """init (looks up) → out → learn → bounce → home"""
    far, home = Sink(t), Sink(t)
    stages = "[stage-init]\nPROGRAM = pepsi-stage-if\nCONDITION_1 = recipient-domain home.test\nTHEN = home\nNEXT_STAGE = listed\n\n"
    stages += "[stage-listed]\nPROGRAM = pepsi-stage-suppression\nNEXT_STAGE = out\nBOUNCE_STAGE = bounce\nEXEMPT = *.vip.test\n%s\n\n" % more
    stages += smarthost("out", far.port, bounce="learn") + smarthost("home", home.port)
    stages += "[stage-learn]\nPROGRAM = pepsi-stage-suppression\nNEXT_STAGE = bounce\nBOUNCE_STAGE = bounce\nKEEP = 2 d\n\n" + pepsi.bounce()
    return Pepsid(t, stages), far, home


def said(home, n):
    return wait_for("%d reports" % n, lambda: len(home.messages) >= n and [" ".join(m.data.decode(errors="replace").split()) for m in home.messages])


def ok(d, *args):
    code, out, err = d.cli(*args)
    check(code == 0, "%s: %d %s%s" % (" ".join(args), code, out, err))
    return out


def learnt(t):
    """one hard bounce, then none of the next mail leaves; others of the same message do"""
    d, far, home = site(t)
    replies = {"gone": "550 5.1.1 no such user here", "old": "550 user unknown", "policy": "550 5.7.1 not from you", "lies": "550 5.7.1 user unknown"}
    far.script["rcpt"] = lambda line: next((r for k, r in replies.items() if "<%s@" % k in line.lower()), None)
    for who in ("Gone", "old", "policy", "lies"):
        d.accept("ann@home.test", ["%s@far.test" % who], message("first-" + who))
    said(home, 4)
    rows = {r["recipient"]: r for r in d.json("suppression", "list")}
    check(sorted(rows) == ["gone@far.test", "old@far.test"], "learnt: %s" % sorted(rows))
    r = rows["gone@far.test"]
    check(r["class"] == "hard" and r["status"] == "5.1.1" and "no such user" in r["reply"] and r["expires_at"] and r["hits"] == 0, str(r))
    before = far.connections
    d.accept("ann@home.test", ["gone@FAR.test"], message("again"))
    report = said(home, 5)[-1]
    check("mail to this address has been stopped since" in report and "5.1.1" in report and "no such user here" in report, report)
    check(far.connections == before, "it was sent on")
    d.accept("ann@home.test", ["old@far.test", "bob@far.test", "gone@far.test"], message("mixed"))
    wait_for("the one who is there", lambda: [m for m in far.messages if m.token == "mixed"])
    check([x[0] for m in far.messages for x in m.rcpts] == ["bob@far.test"], "who got it")
    report = said(home, 6)[-1]
    check("old@far.test" in report and "gone@far.test" in report, report)
    check(d.json("suppression", "show", "gone@far.test")[0]["hits"] == 2, "hits")
    d.accept("news@a.vip.test", ["gone@far.test"], message("vip"))
    wait_for("an exempt sender's to be tried", lambda: far.connections > before)
    wait_for("an empty queue", lambda: not d.queue(), 60)
    d.counts(3, "suppressed_total", "listed", **{"class": "hard"})
    d.counts(2, "suppression_learnt_total", "learn")
    check(d.module("suppression_unasked_total", "listed") == 0, "the list was away")


def by_hand(t):
    """add, complaint, allow, remove, export; allow is stronger than what is learnt"""
    d, far, home = site(t)
    check(ok(d, "suppression", "list") == "nobody\n", "an empty list")
    ok(d, "suppression", "add", "Bob@far.test", "eve@far.test", "--reason", "asked by phone", "--for", "10 d")
    ok(d, "suppression", "complaint", "eve@far.test")
    ok(d, "suppression", "allow", "ann@far.test")
    rows = d.json("suppression", "list")
    check([(r["recipient"], r["class"]) for r in rows] == [("ann@far.test", "allow"), ("bob@far.test", "manual"), ("eve@far.test", "complaint")], str(rows))
    check(len(d.json("suppression", "list", "--recipient", "@far.test", "--limit", "2")) == 2, "--limit")
    d.accept("ann@home.test", ["bob@far.test"], message("bob"))
    report = said(home, 1)[0]
    check("asked by phone" in report and "5.1.0" in report, report)
    far.script["rcpt"] = "550 5.1.1 unknown"
    d.accept("ann@home.test", ["ann@far.test"], message("ann"))
    said(home, 2)
    check(d.json("suppression", "show", "ann@far.test")[0]["class"] == "allow", "what was allowed was learnt")
    far.script.clear()
    check(ok(d, "suppression", "remove", "bob@far.test") == "1 removed\n", "remove")
    d.accept("ann@home.test", ["bob@far.test", "ann@far.test"], message("free"))
    wait_for("both", lambda: "free" in far.tokens())
    code, out, err = d.cli("suppression", "remove", "bob@far.test")
    check(code == 1 and "were not on the list" in err, out + err)
    code, out, err = d.cli("suppression", "add", "far.test")
    check(code == 2 and "no address" in err, out + err)
    check("not on the list" in d.cli("suppression", "show", "nobody@far.test")[2] or d.cli("suppression", "show", "nobody@far.test")[0] == 1, "show")


pepsi.main(__file__, [learnt, by_hand])
