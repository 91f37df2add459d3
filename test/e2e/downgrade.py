"""Mail for next hops that take less than it needs: hops that offer or do not offer 8BITMIME, SMTPUTF8, BINARYMIME and CHUNKING, over each relay stage, and
a real Postfix without 8BITMIME and SMTPUTF8. What needs no change arrives octet for octet; what is converted is fit for the hop and reads the same to
Python; what cannot be converted comes back with a report that says why; DOWNGRADE decides about signatures; and memory does not grow with it."""
import email
import os
import re
import sys

import hops
import peers
import pepsi
import sink

sys.path.append(os.path.join(pepsi.SOURCE, "test", "vectors"))
import downgrade_property  # noqa: E402

HOPS = {"all": ["PIPELINING", "8BITMIME", "SMTPUTF8", "CHUNKING", "BINARYMIME"], "text": ["PIPELINING", "8BITMIME", "SMTPUTF8", "CHUNKING"], "noutf": ["PIPELINING", "8BITMIME"],
        "seven": ["PIPELINING"]}
SAME, CONVERTED = "same", "converted"
UTF8 = {"params": "SMTPUTF8 BODY=8BITMIME"}


def message(token, head, body):
    return ("From: Jane <%s>\r\nTo: someone@far.test\r\nDate: Tue, 1 Dec 2026 10:00:00 +0000\r\nMessage-ID: <%s@back.test>\r\nX-Token: %s\r\n%s\r\n" % (hops.SENDER, token, token, head)).encode() + body


def part(head, body):
    return b"--b\r\n" + head.encode() + b"\r\n" + body + b"\r\n"


TEXT = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n"
MIXED = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n"
DKIM = "DKIM-Signature: v=1; a=rsa-sha256; d=stranger.test; s=s; h=from:subject; bh=AAAA; b=AAAA\r\n"
GREETING = "Grüße,\r\n.\r\n..\r\nFrom here \t\r\nüber alles\r\n\r\n".encode()
PGP = (b"--s\r\nContent-Type: text/plain; charset=utf-8\r\n%s\r\n%s\r\n--s\r\nContent-Type: application/pgp-signature\r\n\r\n-----BEGIN PGP SIGNATURE-----\r\n--s--\r\n")
SIGNED_PART = "Content-Type: multipart/signed; boundary=s; protocol=\"application/pgp-signature\"\r\n"
# token: (head, body, how it is submitted, {hop: what becomes of it}); a hop that is not named takes it as it is
MESSAGES = {
    "ascii": ("Subject: plain\r\n", b"text\r\n.\r\nmore\r\n", {}, {}),
    "eight": ("Subject: eight\r\n" + TEXT, GREETING, {}, {"seven": CONVERTED}),
    "bare": ("Subject: no MIME at all\r\n", GREETING, {}, {"seven": CONVERTED}),
    "japanese": ("Subject: much\r\n" + TEXT, "日本語の本文です。\r\n".encode() * 50, {}, {"seven": CONVERTED}),
    "parts": ("Subject: parts\r\n" + MIXED, b"".join([part("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n", GREETING),
                                                      part("Content-Type: text/plain\r\n", b"untouched \r\n"), part(SIGNED_PART, PGP % (b"", b"plain text ")),
                                                      part("Content-Type: message/rfc822\r\n", ("Subject: inner\r\n" + TEXT + "\r\n").encode() + GREETING), b"--b--\r\n"]), {}, {"seven": CONVERTED}),
    "signed": ("Subject: signed\r\nMIME-Version: 1.0\r\n" + SIGNED_PART, PGP % (b"Content-Transfer-Encoding: 8bit\r\n", GREETING), {}, {"seven": "5.6.3 .*signed or encrypted"}),
    "status": ("Subject: status\r\n" + MIXED, part("Content-Type: message/delivery-status\r\n", "Reporting-MTA: dns; x\r\n\r\nDiagnostic-Code: smtp; 550 größer\r\n".encode()) + b"--b--\r\n", {},
               {"seven": "5.6.3 .*message/delivery-status"}),
    "utf8": ("Subject: Grüße 日本語\r\nCc: \"Jörg, Ü\" <joe@bücher.test> (kömmentar), plain@far.test\r\nComments: a =?utf-8?q?b?= ü =?utf-8?q?c?=\r\n" + MIXED,
             part("Content-Type: text/plain; charset=utf-8\r\n", b"text\r\n") + part("Content-Type: application/octet-stream; name=\"größe.bin\"\r\nContent-Disposition: attachment; filename=\"größe und "
                  "noch viel länger als eine Zeile es erlaubt.bin\"\r\nContent-Transfer-Encoding: base64\r\n", b"QUJD") + b"--b--\r\n", UTF8, {"seven": CONVERTED, "noutf": CONVERTED}),
    "address": ("Subject: x\r\nCc: <jörg@far.test>\r\n", b"text\r\n", UTF8, {"seven": "5.6.7 .*jörg@far.test.* Cc ", "noutf": "5.6.7 .*jörg@far.test.* Cc "}),
    "binary": ("Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n", bytes(range(256)) * 20 + b"\n.\r\r\n", {"binary": True},
               {"text": CONVERTED, "noutf": CONVERTED, "seven": CONVERTED}),
}


def report_matches(back, token, pattern):
    for m in list(back.messages):
        texts = [m.data] + [p.get_payload(decode=True) or b"" for p in email.message_from_bytes(m.data).walk() if not p.is_multipart()]
        text = re.sub(r"\s+", " ", b" ".join(texts).decode("utf-8", "replace"))
        if token + "@back.test" in text and re.search(pattern, text):
            return True
    return False


def arrived(where, token):
    return [m for m in list(where.messages) if m.token == token]


def log_lines(d, queue_id, what):
    with open(d.log, errors="replace") as f:
        return [x for x in f if "id=%s " % queue_id in x and what in x]


def examine(name, token, m, sent, want, offer, ours=True):
    """What is wrong, or None."""
    if want == SAME:
        return pepsi.below_trace(m.data, sent)
    head = m.data.partition(b"\r\n\r\n")[0]
    if "8BITMIME" not in offer and not m.data.isascii() or "SMTPUTF8" not in offer and not head.isascii():
        return "octets above 127 went out"
    if max(map(len, m.data.split(b"\r\n"))) > 998 or b"\0" in m.data or re.search(rb"\r(?!\n)|(?<!\r)\n", m.data):
        return "lines that are none went out"
    if ours and ("BINARYMIME" in m.mail_params or "8BITMIME" in m.mail_params and m.data.isascii() or "SMTPUTF8" in m.mail_params and "SMTPUTF8" not in offer):
        return "declared as %s" % m.mail_params
    if token == "parts" and PGP % (b"", b"plain text ") not in m.data:
        return "the signed part was touched"
    return downgrade_property.differences(sent, m.data)


def over(t, make):
    way = make(t)
    there = {name: way.sink(extensions=offer) for name, offer in HOPS.items()}
    for name, s in there.items():
        way.add(name, s)
    d = way.start()
    sent, ids, converted = {}, {}, 0
    for token, (head, body, kw, _) in MESSAGES.items():
        for name in HOPS:
            key = "%s-%s" % (token, name)
            sent[key] = message(key, head, body)
            ids[key] = d.accept(hops.SENDER, [way.rcpt(name)], sent[key], **kw)
    for token, (head, body, kw, wanted) in MESSAGES.items():
        for name, offer in HOPS.items():
            key, want = "%s-%s" % (token, name), wanted.get(name, SAME)
            if want not in (SAME, CONVERTED):
                pepsi.wait_for("the report of %s: %s" % (key, want), lambda: report_matches(way.back, key, want), 60)
                pepsi.check(not arrived(there[name], key), "%s was returned, and came" % key)
                continue
            m = pepsi.wait_for(key, lambda: arrived(there[name], key), 60)[0]
            problem = examine(name, token, m, sent[key], want, offer)
            pepsi.check(problem is None, "%s: %s: %r" % (key, problem, m.data[:3000]))
            lines = log_lines(d, ids[key], "event=downgraded")
            pepsi.check(len(lines) == (want == CONVERTED), "%s: log: %s" % (key, lines))
            converted += want == CONVERTED
            if lines:
                pepsi.check("signature=none" in lines[0] and ("BINARYMIME" in lines[0].split("parts=")[0]) == (token == "binary"), lines[0])
    d.wait_empty(30)
    numbers = d.metrics()

    def counted(result):
        return sum(v for k, v in d.metrics().items() if k.startswith("pepsi_module_downgrades_total{") and "result=\"%s\"" % result in k)
    pepsi.wait_for("the counters", lambda: counted("converted") == converted and counted("refused") == 4, 15)
    pepsi.check(counted("signature_broken") == 0, numbers)
    status = d.status()
    pepsi.check(status["accepted"] == status["delivered"] + status["bounced"] + status["discarded"], "the books: %s" % status)
    pepsi.say("      %d messages, %d of them converted, 4 returned" % (len(sent), converted))
    d.stop()


def over_smarthost(t):
    over(t, hops.Smarthosts)


def over_lmtp(t):
    over(t, hops.Lmtps)


def over_internet(t):
    over(t, hops.Internet)


def other_exchanger(t):
    """The first exchanger lacks what a message needs and the second offers it: mail that needs it goes there as it is, all other mail to the first. Where the second is no
    help (it lacks it as well, is dead, says not now), the first gets it converted, as if it were alone."""
    way = hops.Internet(t)
    offers = {"plain": HOPS["seven"], "full": HOPS["all"], "plain2": HOPS["noutf"], "busy": HOPS["all"]}
    there = {name: way.sink(extensions=offer) for name, offer in offers.items()}
    there["busy"].script["rcpt"] = lambda argument: "450 4.2.0 not now"
    for name, s in there.items():
        way.add(name, s)
    for domain, hosts in {"one": ("plain", "full"), "two": ("plain", "plain2"), "dead": ("plain", "none"), "later": ("plain", "busy"), "three": ("plain", "none", "full")}.items():
        way.zone[domain + ".test"] = {"MX": ["%d mx.%s.test" % (10 * (i + 1), h) for i, h in enumerate(hosts)]}
    way.zone["mx.none.test"] = {"A": ["127.30.99.99"]}
    d = way.start()
    # what is sent to which domain: where it arrives, and whether as it is
    cases = [("utf8", "one", "full", SAME), ("eight", "one", "full", SAME), ("address", "one", "full", SAME), ("ascii", "one", "plain", SAME), ("signed", "one", "full", SAME),
             ("utf8", "three", "full", SAME), ("utf8", "two", "plain", CONVERTED), ("eight", "two", "plain2", SAME), ("utf8", "dead", "plain", CONVERTED),
             ("utf8", "later", "plain", CONVERTED), ("ascii", "later", "plain", SAME)]
    ids = {}
    for token, domain, where, want in cases:
        key = "%s-%s" % (token, domain)
        head, body, kw, _ = MESSAGES[token]
        ids[key] = d.accept(hops.SENDER, ["someone@%s.test" % domain], message(key, head, body), **kw)
        m = pepsi.wait_for(key, lambda: next(([m, n] for n in there for m in arrived(there[n], key)), None), 60)
        pepsi.check(m[1] == where, "%s arrived at %s, not %s" % (key, m[1], where))
        problem = examine(where, token, m[0], message(key, head, body), want, offers[where])
        pepsi.check(problem is None, "%s: %s: %r" % (key, problem, m[0].data[:2000]))
        pepsi.check(bool(log_lines(d, ids[key], "event=lacks")) == (token != "ascii"), "%s: log: %s" % (key, log_lines(d, ids[key], "event=")))
    # an address that has no ASCII form: at the one that knows it, and returned where none does
    d.accept(hops.SENDER, ["jörg@one.test"], message("joerg", "Subject: x\r\n", b"x\r\n"), **UTF8)
    pepsi.wait_for("jörg", lambda: arrived(there["full"], "joerg"), 60)
    d.accept(hops.SENDER, ["jörg@two.test"], message("nobody", "Subject: x\r\n", b"x\r\n"), **UTF8)
    pepsi.wait_for("the report of nobody", lambda: report_matches(way.back, "nobody", "5.6.7"), 60)
    # the first one answers as ever: over a session that is kept, too
    for i in range(3):
        for token, where in (("ascii", "plain"), ("utf8", "full")):
            head, body, kw, _ = MESSAGES[token]
            key = "%s-again%d" % (token, i)
            d.accept(hops.SENDER, ["someone@one.test"], message(key, head, body), **kw)
            pepsi.wait_for(key, lambda: arrived(there[where], key), 60)
    d.wait_empty(30)
    pepsi.wait_for("twelve that another host took", lambda: sum(
        v for k, v in d.metrics().items() if k.startswith("pepsi_module_downgrades_total{") and "result=\"other_host\"" in k) >= 12, 20, 0.5)
    status = d.status()
    pepsi.check(status["accepted"] == status["delivered"] + status["bounced"] + status["discarded"], "the books: %s" % status)
    d.stop()


def envelope(t):
    """Addresses: the domain has another form, a local part has none."""
    far, plain = sink.Scripted(t), sink.Scripted(t, extensions=["PIPELINING", "8BITMIME", "DSN"])
    back = sink.Scripted(t)
    d = pepsi.Pepsid(t, pepsi.route("init", [("wide.test", "wide"), ("bücher.test", "plain"), ("plain.test", "plain")], "back") + pepsi.smarthost("wide", far.port) +
                     pepsi.smarthost("plain", plain.port) + pepsi.smarthost("back", back.port, bounce=None) + pepsi.bounce())
    sender = "sender@käse.test"
    one = d.accept(sender, ["someone@bücher.test"], message("one", "Subject: x\r\n", b"x\r\n"), params="SMTPUTF8")
    m = pepsi.wait_for("a message with A-labels", lambda: arrived(plain, "one"), 30)[0]
    pepsi.check(m.mail_from == "sender@xn--kse-qla.test" and m.rcpts[0][0] == "someone@xn--bcher-kva.test" and "SMTPUTF8" not in m.mail_params, "%s %s" % (m.mail_from, m.rcpts))
    pepsi.wait_for("its line", lambda: any("addresses=yes" in x for x in log_lines(d, one, "event=downgraded")))
    d.accept(sender, ["someone@wide.test"], message("two", "Subject: x\r\n", b"x\r\n"), params="SMTPUTF8")
    m = pepsi.wait_for("a message as it is", lambda: arrived(far, "two"), 30)[0]
    pepsi.check(m.mail_from == sender and "SMTPUTF8" in m.mail_params, "%s %s" % (m.mail_from, m.mail_params))
    # one recipient has no ASCII form, the other is served
    d.accept(sender, ["jörg@plain.test", "joe@plain.test"], message("three", "Subject: x\r\n", b"x\r\n"), params="SMTPUTF8")
    m = pepsi.wait_for("the other recipient", lambda: arrived(plain, "three"), 30)[0]
    pepsi.check([r[0] for r in m.rcpts] == ["joe@plain.test"], m.rcpts)
    pepsi.wait_for("the report of the one", lambda: report_matches(back, "three", r"5\.6\.7"), 30)
    d.stop()


def policies(t):
    """DOWNGRADE: a signature is broken, or the message comes back."""
    seven, back = sink.Scripted(t, extensions=["PIPELINING"]), sink.Scripted(t)
    stages = "".join(pepsi.smarthost(p, seven.port, "DOWNGRADE = %s\n" % p) for p in ("always", "unsigned", "never"))
    d = pepsi.Pepsid(t, pepsi.route("init", [(p + ".test", p) for p in ("always", "unsigned", "never")], "back") + stages + pepsi.smarthost("back", back.port, bounce=None) + pepsi.bounce())
    cases = {("always", ""): CONVERTED, ("always", DKIM): CONVERTED, ("unsigned", ""): CONVERTED, ("unsigned", DKIM): r"5\.6\.3.*signature", ("never", ""): r"5\.6\.3", ("never", DKIM): r"5\.6\.3"}
    for (policy, dkim), want in cases.items():
        token = policy + ("-dkim" if dkim else "")
        data = message(token, dkim + "Subject: x\r\n" + TEXT, GREETING)
        i = d.accept(hops.SENDER, ["x@%s.test" % policy], data)
        if want == CONVERTED:
            m = pepsi.wait_for(token, lambda: arrived(seven, token), 30)[0]
            problem = examine("seven", token, m, data, want, ["PIPELINING"])
            pepsi.check(problem is None, "%s: %s" % (token, problem))
            pepsi.wait_for("its line", lambda: any("signature=" + ("broken" if dkim else "none") in x for x in log_lines(d, i, "event=downgraded")))
        else:
            pepsi.wait_for("the report of " + token, lambda: report_matches(back, token, want), 30)
            pepsi.check(not arrived(seven, token), "%s went out" % token)
    # what needs nothing goes as it is, whatever it bears and whatever the policy
    for policy in ("always", "unsigned", "never"):
        data = message("plain-" + policy, DKIM + "Subject: x\r\n", b"text\r\n")
        d.accept(hops.SENDER, ["x@%s.test" % policy], data)
        m = pepsi.wait_for("plain-" + policy, lambda: arrived(seven, "plain-" + policy), 30)[0]
        pepsi.check(pepsi.below_trace(m.data, data) is None, "changed: %r" % m.data[:600])
    d.stop()


def to_postfix(t):
    """A Postfix without 8BITMIME and SMTPUTF8 takes what it is given, and hands on what a sink reads like the original."""
    end, back = sink.Scripted(t), sink.Scripted(t)
    postfix = peers.Postfix(t, "relay_domains = test\nrelayhost = [127.0.0.1]:%d\nsmtputf8_enable = no\nstrict_7bit_headers = yes\nstrict_8bitmime_body = yes\n"
                            "smtpd_discard_ehlo_keywords = 8bitmime, smtputf8, chunking\n" % end.port)
    d = pepsi.Pepsid(t, pepsi.route("init", [("far.test", "out")], "back") + pepsi.smarthost("out", postfix.port) + pepsi.smarthost("back", back.port, bounce=None) + pepsi.bounce())
    for token, (head, body, kw, wanted) in MESSAGES.items():
        data, want = message(token, head, body), wanted.get("seven", SAME)
        d.accept(hops.SENDER, ["x@far.test"], data, **kw)
        if want in (SAME, CONVERTED):
            m = pepsi.wait_for("%s; Postfix says %s" % (token, ""), lambda: arrived(end, token), 60)[0]
            problem = examine("seven", token, m, data, want, ["PIPELINING"], False) if want == CONVERTED else downgrade_property.differences(data, m.data)
            pepsi.check(problem is None, "%s: %s: %r" % (token, problem, m.data[:2000]))
        else:
            pepsi.wait_for("the report of " + token, lambda: report_matches(back, token, want), 30)
    d.wait_empty(30)
    pepsi.check("reject" not in postfix.texts(), postfix.texts()[-2000:])
    d.stop()


def peak(pid):
    with open("/proc/%d/status" % pid) as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1))


def memory(t):
    """Content is encoded while it leaves: a worker needs no second copy, whatever the size. The message itself it holds as the database hands it over."""
    size = 20_000_000 if pepsi.SANITIZED else 49_000_000  # MESSAGE_SIZE_LIMIT is 50 MiB by default
    line = "Grüße und eine lange Zeile Text mit Umlauten: äöüß ÄÖÜ, bis sie voll ist.\r\n".encode()
    body = line * (size // len(line))
    there = {name: sink.Scripted(t, extensions=HOPS[name]) for name in ("all", "seven")}
    d = pepsi.Pepsid(t, pepsi.route("init", [(n + ".test", n) for n in there], "all") + "".join(pepsi.smarthost(n, s.port, "ALLOW_FUSION = NO\nPARALLELISM = 1\n") for n, s in there.items()) +
                     pepsi.bounce())
    begin, need = {}, {}

    def worker(name):
        group = [g for g in d.status()["stages"] if g["name"] == name][0]
        return max(peak(p) for p in group["pids"])
    for name, s in there.items():
        d.accept(hops.SENDER, ["x@%s.test" % name], message(name + "-small", "Subject: small\r\n" + TEXT, line))
        pepsi.wait_for(name, lambda: arrived(s, name + "-small"), 60)
        begin[name] = worker(name)
        data = message(name, "Subject: large\r\n" + TEXT, body)
        d.accept(hops.SENDER, ["x@%s.test" % name], data)
        m = pepsi.wait_for(name, lambda: arrived(s, name), 240)[0]
        pepsi.check(downgrade_property.differences(data, m.data) is None and m.data.isascii() == (name == "seven"), "%s: not the same text" % name)
        need[name] = worker(name)
    pepsi.say("      %d octets: %.1f MiB as they are, %.1f MiB when converted, %.1f MiB before" % (len(body), need["all"] / 1024, need["seven"] / 1024, begin["seven"] / 1024))
    pepsi.check(need["seven"] < need["all"] + (8 << 10), "memory: %s KiB" % need)
    # three times the message while it is read from the database (its client library's two copies, and ours); sanitizers keep more
    pepsi.check(pepsi.SANITIZED or need["seven"] - begin["seven"] < 3.5 * len(body) / 1024, "memory: %s KiB, %s before" % (need, begin))
    d.stop()


if __name__ == "__main__":
    pepsi.main(__file__, [over_smarthost, over_lmtp, over_internet, other_exchanger, envelope, policies, to_postfix, memory])
