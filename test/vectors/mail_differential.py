#!/usr/bin/env python3
"""Our verdicts on generated mail against those of rspamd, dkimpy, pyspf and Mail::DKIM: SPF, DKIM signature by signature, ARC and DMARC, each
message judged whole (pepsi-vectors mail, which is proto/auth/verify.h). The others are asked what they are asked in life: rspamd by HTTP, with
nsd for its DNS; the rest as libraries.

Where one of them and we part, CLASSES below must say why that is right, by what was found, never by the name of a case; anything else
fails the test. Usage: mail_differential.py PEPSI-VECTORS [COUNT]; PEPSI_SEED other mail; PEPSI_KEEP=FILE the corpus with all verdicts as
JSON. Without dkimpy and pyspf it skips (77); without rspamd (or nsd) or Mail::DKIM it says so and goes on with the others."""
import base64
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

try:
    import authres  # noqa: F401: dkimpy seals with it
    import dkim
    import nacl.signing  # noqa: F401
    import spf  # noqa: F401
except ImportError as e:
    print(f"skipped: no {e.name} for this python (packages python3-dkim, python3-spf, python3-nacl, python3-authres)")
    sys.exit(77)

import mail_corpus
import mail_peers
import mail_sign
import opendkim

RSPAMD = {
    "spf": {"R_SPF_ALLOW": "pass", "R_SPF_FAIL": "fail", "R_SPF_SOFTFAIL": "softfail", "R_SPF_NEUTRAL": "neutral", "R_SPF_DNSFAIL": "temperror", "R_SPF_PERMFAIL": "permerror",
            "R_SPF_NA": "none", "R_SPF_PLUSALL": "pass"},
    "dkim": {"R_DKIM_ALLOW": "pass", "R_DKIM_REJECT": "fail", "R_DKIM_TEMPFAIL": "temperror", "R_DKIM_PERMFAIL": "permerror"},
    "arc": {"ARC_ALLOW": "pass", "ARC_REJECT": "fail", "ARC_INVALID": "fail", "ARC_NA": "none", "ARC_DNSFAIL": "fail"},
    "dmarc": {"DMARC_POLICY_ALLOW": "pass", "DMARC_POLICY_REJECT": "fail reject", "DMARC_POLICY_QUARANTINE": "fail quarantine", "DMARC_POLICY_SOFTFAIL": "fail none",
              "DMARC_NA": "none", "DMARC_BAD_POLICY": "permerror", "DMARC_DNSFAIL": "temperror"},
}


class Pair:
    """One verdict of ours and one of theirs. sig: our signature, field: its field with names of tags folded; both for DKIM only."""

    def __init__(self, who, method, case, got, ours, reason, theirs, note="", sig=None, field=b"", raw=""):
        self.who, self.method, self.case, self.got, self.ours, self.reason, self.theirs, self.note = who, method, case, got, ours, reason, theirs, note
        self.sig, self.field, self.raw = sig, field, raw
        self.body = case["message"].partition(b"\r\n\r\n")[2]

    def author(self):
        return self.got["auth"]["dmarc"].get("domain", "")

    def tag(self, name):
        m = re.search(rb"[;:\s]" + name.encode() + rb"\s*=\s*([^;]*)", self.field)
        return m.group(1).strip().decode("latin-1") if m else None

    def canon(self):
        """Of the body."""
        return (self.tag("c") or "simple/simple").partition("/")[2] or "simple"

    def spf_text(self):
        """All records that can be met from this sender on."""
        seen, todo = {}, [self.case["from"].rpartition("@")[2].lower() or self.case["helo"].lower()]
        while todo:
            d = todo.pop()
            if d in seen:
                continue
            seen[d] = " ".join("".join(t) for t in self.case["zone"].get(d, {}).get("TXT", []) if "".join(t).lower().startswith("v=spf1"))
            todo += [m.rstrip(".").lower() for m in re.findall(r"(?i)(?:include:|redirect=)(\S+)", seen[d])]
        return " ".join(seen.values())


def spf_agreed(p):
    """pyspf says what we say: it is the other reading of RFC 7208 here."""
    return p.case["pyspf"][0] == p.ours


def dkim_agreed(p):
    """dkimpy says what we say of the signature."""
    return (p.case["dkimpy"][p.got["auth"]["dkim"].index(p.sig)] == "pass") == (p.ours == "pass")


def reason(text):
    return lambda p: p.reason.startswith(text)


# (who, method, why we are right, does it apply?): the first that applies counts.
CLASSES = [
    # -- SPF
    ("rspamd", "spf", "RFC 7208 4.3: what is no multi-label domain name has none, nobody is asked", lambda p: p.theirs == "temperror" and p.ours == "none" and
     re.search("literal|multi-label", p.reason)),
    ("rspamd", "spf", "RFC 7208 4.6: a syntax error anywhere is a permerror; it goes by the terms it can read", lambda p: p.ours == "permerror" and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5: a look-up that fails is a temperror; it goes on", lambda p: p.ours == "temperror" and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 4.7: a record in which nothing matches is neutral; it takes one of which it keeps nothing for empty", lambda p: "empty SPF" in p.note and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.6: a short prefix, even of no bits, is one; it leaves such terms out", lambda p: re.search(r"/[0-7]\b", p.spf_text()) and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.6: behind // is the prefix of IPv6, that of IPv4 stays 32; it takes another", lambda p: "//" in p.spf_text() and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.3, 5.6: one prefix is that of IPv4, for IPv6 it is 128 unless given; it takes others",
     lambda p: ":" in p.case["ip"] and re.search(r"(?i)[ +?~-](a|mx)\b", p.spf_text()) and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.5: a name of PTR counts only if it has the client's address; it takes others", lambda p: re.search(r"(?i)[ +?~-]ptr\b", p.spf_text()) and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 7.1: %{d2} are the last labels of the domain; it comes to another name", lambda p: "%{d2}" in p.spf_text() and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.2: what an include comes to, unless it is pass, is no match; it takes the term within", lambda p: "include:" in p.spf_text() and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 4.6.2: the first term that matches decides; it goes by another of the same record",
     lambda p: p.note.lstrip("+").lower() in p.spf_text().lower().split() and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 5.1: all matches, and passes without a qualifier; it leaves that out", lambda p: re.search(r"(?i) \+?all\b", p.spf_text()) and spf_agreed(p)),
    ("rspamd", "spf", "RFC 7208 6.1: redirect is for when nothing matched; it goes there first", lambda p: "redirect=" in p.spf_text() and spf_agreed(p)),
    # -- DKIM
    ("*", "dkim", "RFC 6376 8.2: behind l= anyone may write; policy, the arithmetic says pass", lambda p: p.ours == "policy" and p.raw == "pass" and "l= leaves" in p.reason),
    ("*", "dkim", "RFC 8301 3.1: rsa-sha1 MUST NOT be used for verifying", reason("rsa-sha1 is no longer")),
    ("*", "dkim", "RFC 8301 3.2: keys of less than 1024 bits MUST NOT be taken", reason("the key is too short")),
    ("*", "dkim", "RFC 6376 5.4: From MUST be signed", reason("From is not signed")),
    ("*", "dkim", "RFC 6376 3.6.1 h=: the key is not for this hash", reason("the key is not for this hash")),
    ("*", "dkim", "RFC 6376 3.6.1 v=: MUST be first and DKIM1 where it stands", reason("the key record is of another version")),
    ("*", "dkim", "RFC 6376 3.6.1 t=s: i= MUST be d=", reason("the key is for d= itself")),
    ("*", "dkim", "RFC 6376 3.6.1 s=: the key is not for mail", reason("the key is not for mail")),
    ("*", "dkim", "RFC 6376 3.6.1 k=: the key is of another type", reason("the key is of another type")),
    ("*", "dkim", "RFC 6376 3.5 q=: a signature with no way to the key that is known is ignored", reason("q= names no way")),
    ("*", "dkim", "RFC 6376 3.5 x=: MUST be greater than t=", reason("x= is not later than t=")),
    ("perl", "dkim", "RFC 6376 3.5 t=: digits, and not in the future; it does not look", reason("t= is")),
    ("rspamd", "dkim", "RFC 6376 3.5 i=: an address in d= or below; it does not look", reason("i= is")),
    ("perl", "dkim", "RFC 6376 3.2: values are case-sensitive, so RSA-SHA256 is no algorithm", lambda p: p.tag("a") == "RSA-SHA256" and dkim_agreed(p)),
    ("dkimpy", "dkim", "RFC 6376 3.5 q=: a list; what is not known in it is left out", lambda p: ":" in (p.tag("q") or "") and p.ours == "pass"),
    ("perl", "dkim", "RFC 8463: Mail::DKIM has no Ed25519", lambda p: (p.tag("a") or "") == "ed25519-sha256" and "unsupported" in p.note),
    ("perl", "dkim", "RFC 6376 C.2: g= is no more", lambda p: p.note.find("granularity") >= 0),
    ("perl", "dkim", "RFC 8601 2.7.1: Mail::DKIM does not count a field that it cannot read", lambda p: p.theirs == "absent" and p.ours in ("neutral", "permerror")),
    ("perl", "dkim", "RFC 6376 3.4.3: a body that does not end with CRLF is hashed as if it did", lambda p: not p.body.endswith(b"\r\n") and p.canon() == "simple"),
    ("rspamd", "dkim", "RFC 6376 3.4.4: of a body of blanks and empty lines nothing is left", lambda p: p.canon() == "relaxed" and not p.body.strip() and dkim_agreed(p)),
    ("rspamd", "dkim", "RFC 6376 3.5 l=: counts octets of the canonical body; it counts others of a relaxed one",
     lambda p: p.canon() == "relaxed" and p.tag("l") is not None and dkim_agreed(p)),
    # -- ARC
    ("rspamd", "arc", "RFC 6376 3.4.4: of a body of blanks and empty lines nothing is left", lambda p: not p.body.strip() and p.case["dkimpy-arc"][0] == p.ours),
    ("rspamd", "arc", "RFC 8617 5.2 step 3: sets that lack a field are a chain that failed", lambda p: p.ours == "fail" and p.theirs == "none" and "no sets" in p.reason),
    ("perl", "arc", "RFC 6376 8.15: a From that is not signed beside one that is; it does not look", lambda p: "a From field is not signed" in p.reason and p.case["dkimpy-arc"][0] == p.ours),
    # -- DMARC
    ("rspamd", "dmarc", "RFC 9989 4.7: a record without a policy of any use and nowhere to report to is none", reason("the DMARC record has no valid policy")),
    ("rspamd", "dmarc", "RFC 9989 4.10 step 2: several records are none", lambda p: p.ours == "none" and "Multiple policies" in p.note),
    ("rspamd", "dmarc", "RFC 9989 4.8: blanks may stand around the = of a tag", lambda p: "spaced.test" in p.note),
    ("rspamd", "dmarc", "RFC 9989 4.7 np=: the policy for names that do not exist; it knows none", lambda p: re.search(r"(^|\.)(gone|such)\.nps?\.test$", p.author()) and
     p.ours.startswith("fail") and p.theirs.startswith("fail")),
    ("rspamd", "dmarc", "RFC 9989 4.10.2 psd=y: an organization is one label below; it asks a list of suffixes", lambda p: p.author().endswith("psd.test")),
    ("rspamd", "dmarc", "RFC 9989 5.3.1: a From that is not one author cannot pass; it does not look", lambda p: p.theirs == "none" and ("several From" in p.reason or "no list of" in p.reason or
                                                                                                                                    "Duplicate From" in p.note)),
]


def classify(p):
    for i, (who, method, _, applies) in enumerate(CLASSES):
        if who in ("*", p.who) and method == p.method and applies(p):
            return i
    return None


def ours(program, world, cases, folder):
    path = os.path.join(folder, "mail.json")
    with open(path, "w") as f:
        json.dump({"now": int(time.time()), "apex": mail_corpus.APEX, "zone": world.names(),
                   "cases": [{"id": str(i), "hex": c["message"].hex(), "ip": c["ip"], "helo": c["helo"], "from": c["from"]} for i, c in enumerate(cases)]}, f)
    p = subprocess.run([program, "mail", path], stdout=subprocess.PIPE, text=True)
    lines = p.stdout.splitlines()
    if p.returncode or len(lines) != len(cases) + 1:
        raise SystemExit("pepsi-vectors mail: %s" % p.stdout[-2000:])
    return [json.loads(line.split(" ", 1)[1]) for line in lines[:-1]]


def signature_fields(message):
    fields = mail_sign.fields_of(message.partition(b"\r\n\r\n")[0])
    return [re.sub(rb"\r\n", b"", f.partition(b":")[2].join([b":", b""])) for f in fields if f.lower().startswith(b"dkim-signature:")]


def rspamd_word(case, method):
    """(verdict, what it adds)"""
    symbols = case["rspamd"]["symbols"]
    found = [(v, symbols[k].get("options") or [""]) for k, v in RSPAMD[method].items() if k in symbols]
    return ("+".join(v for v, _ in found) or "absent", " ".join(str(o) for _, options in found for o in options))


def pairs(case, got):
    """Every verdict beside ours."""
    a, fields = got["auth"], signature_fields(case["message"])
    sigs = a["dkim"] if got["raw"] else []
    whole = lambda method, one: (one["result"] + (" " + one["policy"] if method == "dmarc" and one["result"] == "fail" else ""), one.get("reason", ""))
    spf_, arc, dmarc = whole("spf", a["spf"][0]), whole("arc", a["arc"]), whole("dmarc", a["dmarc"])
    yield Pair("pyspf", "spf", case, got, *spf_, case["pyspf"][0], str(case["pyspf"][1:]))
    yield Pair("dkimpy", "arc", case, got, *arc, *case["dkimpy-arc"])
    if len(sigs) != len(case["dkimpy"]):
        yield Pair("dkimpy", "number of signatures", case, got, str(len(sigs)), "", str(len(case["dkimpy"])), str(case["dkimpy"]))
    perl, rspamd = {}, {}
    if "perl" in case:
        yield Pair("perl", "arc", case, got, *arc, case["perl"]["arc"] or "fail", str(case["perl"]["arc_detail"]))
        for d, s, result, detail in case["perl"]["dkim"]:
            perl.setdefault((d.lower(), s.lower()), []).append((result, detail))
    if "rspamd" in case:
        for method, one in (("spf", spf_), ("arc", arc), ("dmarc", dmarc)):
            yield Pair("rspamd", method, case, got, *one, *rspamd_word(case, method))
        for symbol, verdict in RSPAMD["dkim"].items():
            for o in case["rspamd"]["symbols"].get(symbol, {}).get("options") or []:
                rspamd.setdefault(o.lower(), verdict)
    for sig, raw, field, theirs in zip(sigs, got["raw"], fields, case["dkimpy"]):
        more = {"sig": sig, "field": field, "raw": raw}
        mine = (sig["result"], sig.get("reason", ""))
        yield Pair("dkimpy", "dkim", case, got, *mine, "pass" if theirs == "pass" else "fail", theirs, **more)
        d, s = sig.get("domain", ""), sig.get("selector", "")
        if "perl" in case:
            result, note = perl.get((d, s), [("absent", "")])[0]
            yield Pair("perl", "dkim", case, got, *mine, result, note, **more)
        if "rspamd" in case:
            yield Pair("rspamd", "dkim", case, got, *mine, rspamd.get("%s:s=%s" % (d, s), "absent"), **more)


def same(p):
    """DKIM: only pass is compared, each has words of its own for what is none."""
    return (p.ours == "pass") == (p.theirs == "pass") if p.method == "dkim" else p.ours == p.theirs


def judge(cases, got):
    """Prints what was compared; the number of differences nobody explains."""
    compared, agreed, used, bad = collections.Counter(), collections.Counter(), collections.Counter(), []
    for case, g in zip(cases, got):
        followed = False
        for p in sorted(pairs(case, g), key=lambda p: p.method == "dmarc"):
            compared[p.who, p.method] += 1
            if same(p):
                agreed[p.who, p.method] += 1
                continue
            c = classify(p)
            if p.who == "rspamd" and p.method in ("dkim", "spf") and c is not None and "pass" in (p.ours, p.theirs):
                followed = True
            if c is not None:
                used[c] += 1
            elif p.method == "dmarc" and followed:
                used["rspamd's DMARC, from what it says of SPF or DKIM"] += 1
            else:
                bad.append(p)
    for key in sorted(compared):
        print("%-22s %5d verdicts, %5d equal" % (" ".join(key), compared[key], agreed[key]))
    for c, n in sorted(used.items(), key=str):
        print("%5d %s" % (n, "%s, %s: %s" % (CLASSES[c][0].replace("*", "all"), CLASSES[c][1], CLASSES[c][2]) if isinstance(c, int) else c))
    for p in bad:
        print("FAIL %s: %s by %s: we say %s (%s), it says %s (%s)" % (p.case["id"], p.method, p.who, p.ours, p.reason, p.theirs, p.note))
    return len(bad)


def shown(cases, got):
    """Does the corpus show every result of every method? What it lacks."""
    seen = collections.Counter()
    for g in got:
        seen["spf", g["auth"]["spf"][0]["result"]] += 1
        seen["arc", g["auth"]["arc"]["result"]] += 1
        seen["dmarc", g["auth"]["dmarc"]["result"]] += 1
        for s in g["auth"]["dkim"]:
            seen["dkim", s["result"]] += 1
    print("we say: " + ", ".join("%s=%s %d" % (m, r, n) for (m, r), n in sorted(seen.items())))
    print("made by: " + ", ".join("%s %d" % x for x in sorted(collections.Counter(re.split("[:+]", m)[0] for c in cases for m in c["made"]).items())))
    want = [("spf", r) for r in ("none", "neutral", "pass", "fail", "softfail", "temperror", "permerror")] + [("arc", r) for r in ("none", "pass", "fail")] + \
        [("dmarc", r) for r in ("none", "pass", "fail", "temperror")] + [("dkim", r) for r in ("none", "pass", "fail", "policy", "neutral", "temperror", "permerror")]
    return [w for w in want if not seen[w]]


def ask_everyone(world, cases, perl, rspamd, folder):
    dkim.time = time
    python = mail_peers.Python(world)
    for c in cases:
        c["zone"] = world.zone
        c["dkimpy"], c["dkimpy-arc"], c["pyspf"] = python.dkim(c["message"]), python.arc(c["message"]), python.spf(c)
    if perl:
        perl.ask(zone=world.names(), apex=mail_corpus.APEX)
        for c in cases:
            c["perl"] = perl.ask(op="verify", message=base64.b64encode(c["message"]).decode())
            if "error" in c["perl"]:
                del c["perl"]
    if rspamd:
        for c in cases:
            c["rspamd"] = rspamd.ask(c["message"], c["ip"], c["helo"], c["from"])


def run(program, count, folder, close):
    r = random.Random(int(os.environ.get("PEPSI_SEED", "8601")))
    world = mail_corpus.World(r, folder, count > 1000)
    signers, perl, nsd, rspamd = {}, None, None, None
    library = opendkim.OpenDkim({}, folder, mail_corpus.THEN)
    if library.lib:
        signers["opendkim"] = lambda message, d, s, key, c, names: library.sign(message, d, s, key.pem, c)
    if mail_peers.Perl.there():
        perl = mail_peers.Perl()
        close.append(perl)
        signers["perl"] = perl.sign
    if mail_peers.Nsd.there() and mail_peers.Rspamd.program():
        nsd = mail_peers.Nsd(world.zone, folder)
        close.append(nsd)
        rspamd = mail_peers.Rspamd(folder, nsd.port, world.keys["rsa1024"].path)
        close.append(rspamd)
        signers["rspamd"] = rspamd
    for name, there in (("libopendkim", library.lib), ("Mail::DKIM (libmail-dkim-perl)", perl), ("rspamd with nsd", rspamd)):
        if not there:
            print("not here, left out: %s" % name)
    cases = [mail_corpus.make(world, signers, i) for i in range(count)]
    if nsd:
        nsd.reload(world.zone)
    got = ours(program, world, cases, folder)
    ask_everyone(world, cases, perl, rspamd, folder)
    return world, cases, got


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    count, started, close = int(sys.argv[2]) if len(sys.argv) > 2 else 200, time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            world, cases, got = run(sys.argv[1], count, folder, close)
        finally:
            for peer in reversed(close):
                peer.close()
    if os.environ.get("PEPSI_KEEP"):
        with open(os.environ["PEPSI_KEEP"], "w") as f:
            json.dump({"zone": world.names(), "cases": [dict(mail_corpus.json_of(c), zone=None, ours=g) for c, g in zip(cases, got)]}, f)
    missing = shown(cases, got) if count >= 200 else []
    bad = judge(cases, got)
    print("%d messages, %d differences without a reason, %.0f s" % (count, bad, time.monotonic() - started))
    if missing:
        print("the corpus does not show %s" % missing)
    return 1 if bad or missing else 0


if __name__ == "__main__":
    sys.exit(main())
