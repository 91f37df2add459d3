"""Generated mail for mail_differential.py: a world of domains with SPF, DKIM and DMARC records, and messages in it, signed by several
tools, changed on the way, forwarded by sealers, some of them broken from the start. The same seed gives the same messages, except where
a tool writes its own clock into a signature. Test code: no network, nothing outside .test.

    world = World(random.Random(seed), folder, big_keys)   .zone: {name: {type: [value, …]}} for everyone who looks things up
    make(world, signers, number) -> {"id", "message" (octets), "ip", "helo", "from", "made"}"""
import base64
import ipaddress
import json
import types

import dkim

import mail_sign
import spf_differential

UNSERVED = "mail.unserved.invalid"  # no server answers for it
APEX = ["test", "in-addr.arpa", "ip6.arpa"]
THEN = 1609459200      # signatures are of 1 January 2021
CLOCK = types.SimpleNamespace(time=lambda: THEN)  # dkimpy's, when it signs
LONG_AGO, FAR = 1262304000, 4102444800
GOOD, BAD_IP = "198.18.200.1", "198.18.201.1"
CANONS = [(a, b) for a in ("simple", "relaxed") for b in ("simple", "relaxed")]
WORDS = "a quick brown fox jumps over the lazy dog  two\tblanks \t end.  x=y; (comment) \"quoted\" gr\u00fc\u00dfe \u4f60\u597d".split(" ")
UNIVERSES = 40

# Authors' organizations: the DMARC record, and what SPF says at their names.
ORGS = {
    "none": "v=DMARC1; p=none; rua=mailto:d@none.test",
    "quar": "v=DMARC1; p=quarantine",
    "rej": "v=DMARC1;p=reject;sp=reject; ruf=mailto:f@rej.test",
    "strict": "v=DMARC1; p=reject; adkim=s; aspf=s",
    "mixed": "v=DMARC1; p=reject; adkim=s; aspf=r; fo=1:d:s",
    "sub": "v=DMARC1; p=none; sp=quarantine;",
    "spaced": "v=DMARC1 ;  p = reject ; aspf = r ",
    "odd": "v=DMARC1; p=quarantine; zz=1; rf=afrf; ri=3600",
    "plain": None,
    "bad": "v=DMARC1; p=nonsense",
    "nop": "v=DMARC1; adkim=s",
    "case": "v=dmarc1; p=reject",
    "two": ["v=DMARC1; p=reject", "v=DMARC1; p=none"],
    "noise": ["google-site-verification=xyz", "v=DMARC1; p=reject"],
    # what RFC 9989 adds
    "np": "v=DMARC1; p=none; np=reject",
    "nps": "v=DMARC1; p=reject; sp=quarantine; np=none",
    "try": "v=DMARC1; p=reject; t=y",
    "psd": "v=DMARC1; p=reject; psd=y",
    "psdn": "v=DMARC1; p=quarantine; psd=n",
}
NOBODY = ["gone", "no.such"]  # names below that do not exist
SUBS = ["mail", "a.b", "deep.x.y"]

# SPF as people write it; %(n)s is the name itself.
ORDINARY = ["v=spf1 ip4:198.18.200.0/24 -all", "v=spf1 a mx -all", "v=spf1 mx ~all", "v=spf1 a:mail.%(n)s include:_spf.relay.test ~all", "v=spf1 redirect=_spf.relay.test",
            "v=spf1 exists:%%{i}._ip.%(n)s -all", "v=spf1 ip6:2001:db8:aa::/48 ip4:198.18.203.0/25 ~all", "v=spf1 ptr:mx.test -all", "v=spf1 a/28 ?all", "v=spf1 -all", "v=spf1 ~all", "v=spf1 ?all",
            "v=spf1 include:o0.test include:o1.test include:o6.test -all", "v=spf1 include:o12.test -include:o8.test ~all", "v=spf1 +mx/24 +a/24 -ip4:198.18.202.1 ?all",
            "v=spf1 include:_missing.%(n)s -all", "v=spf1 exists:%%{l}.%%{d}._who.test ~all", "v=spf1 include:loop.%(n)s -all", "v=spf1 ip4:198.18.201.1 ip4:198.18.202.1 exp=why.%(n)s -all",
            "v=spf1 a:unserved.invalid -all", None]
CLIENTS = [GOOD, BAD_IP, "198.18.202.1", "198.18.203.77", "2001:db8:aa::1", "2001:db8:bb::1"]

# Key records: what a record is made of, given the public part. The key it belongs to comes first.
RECORDS = {
    "rsa1024": ("rsa1024", "v=DKIM1; k=rsa; p=%s"), "rsa2048": ("rsa2048", "v=DKIM1; k=rsa; p=%s"), "rsa4096": ("rsa4096", "v=DKIM1; p=%s"),
    "ed": ("ed", "v=DKIM1; k=ed25519; p=%s"), "rsa512": ("rsa512", "v=DKIM1; k=rsa; p=%s"),
    "bare": ("rsa1024", "p=%s"), "sha256": ("rsa1024", "v=DKIM1; h=sha256; p=%s"), "sha1": ("rsa1024", "v=DKIM1; h=sha1; p=%s"),
    "both": ("rsa1024", "v=DKIM1; h=sha1:sha256; k=rsa; p=%s;"), "email": ("rsa1024", "v=DKIM1; s=email; p=%s"),
    "star": ("rsa1024", "v=DKIM1; s=*; p=%s"), "other": ("rsa1024", "v=DKIM1; s=other; p=%s"), "ty": ("rsa1024", "v=DKIM1; t=y; p=%s"),
    "ts": ("rsa1024", "v=DKIM1; t=s; p=%s"), "tys": ("rsa1024", "v=DKIM1; t=y:s; p=%s"), "notes": ("rsa1024", "v=DKIM1; n=for=20you; p=%s; zz=1"),
    "g": ("rsa1024", "v=DKIM1; g=someone; p=%s"), "revoked": ("rsa1024", "v=DKIM1; k=rsa; p="), "v2": ("rsa1024", "v=DKIM2; p=%s"),
    "vlast": ("rsa1024", "p=%s; v=DKIM1"), "dsa": ("rsa1024", "v=DKIM1; k=dsa; p=%s"), "junk": ("rsa1024", "v=DKIM1; p=!!!!"),
    "cut": ("rsa1024", "v=DKIM1; p=MIGfMA0GCSqGSIb3DQEB"), "nop": ("rsa1024", "v=DKIM1; k=rsa"), "cross": ("rsa1024", "v=DKIM1; k=ed25519; p=%s"),
    "space": ("rsa1024", " v = DKIM1 ;\tk = rsa ; p = %s ; "), "empty": ("rsa1024", ""), "wrongkey": ("rsa1024", None),
}


class World:
    def __init__(self, r, folder, big_keys):
        self.r, self.zone, self.cases, self.used = r, {}, [], set()
        self.keys = {"rsa512": mail_sign.Rsa(r, 512), "rsa1024": mail_sign.Rsa(r, 1024, folder), "rsa2048": mail_sign.Rsa(r, 2048, folder),
                     "ed": mail_sign.Ed25519(r), "stranger": mail_sign.Rsa(r, 1024)}
        if big_keys:
            self.keys["rsa4096"] = mail_sign.Rsa(r, 4096, folder)
        self.kinds = [k for k in RECORDS if RECORDS[k][0] in self.keys]
        for org, record in ORGS.items():
            for text in record if isinstance(record, list) else [record] if record else []:
                self.add("_dmarc.%s.test" % org, "TXT", [text])
            self.host("%s.test" % org, "v=spf1 ip4:198.18.200.0/24 -all")
            for s in SUBS:
                self.host("%s.%s.test" % (s, org), "v=spf1 include:%s.test ~all" % org)
            self.add("rspamd._domainkey.%s.test" % org, "TXT", ["v=DKIM1; k=rsa; p=" + self.keys["rsa1024"].public])
        self.add("_dmarc.a.b.rej.test", "TXT", ["v=DMARC1; p=none"])
        self.add("_dmarc.mail.none.test", "TXT", ["v=DMARC1; p=reject; aspf=s"])
        self.host("relay.test", "v=spf1 a mx ?all")
        self.host("list.test", None)
        self.host("mx.test", "v=spf1 a -all")
        for i, text in enumerate(ORDINARY):
            n = "o%d.test" % i
            self.host(n, text and text % {"n": n})
            self.add("mail." + n, "A", "198.18.202.1")
            self.add("198.18.202.1._ip." + n, "A", "127.0.0.2")
            self.add("joe.%s._who.test" % n, "A", "127.0.0.2")
            self.add("why." + n, "TXT", ["no mail from %{i}"])
            self.add("loop." + n, "TXT", ["v=spf1 include:loop.%s -all" % n])
        self.add("_spf.relay.test", "TXT", ["v=spf1 ip4:198.18.200.0/25 ip6:2001:db8:aa::/64 ?all"])
        self.add("mx.test", "AAAA", "2001:db8:aa::1")
        self.universes = [self.universe(i) for i in range(UNIVERSES)]
        # as another server would have it: names of the mail hosts behind addresses, both ways
        self.add(ipaddress.ip_address(GOOD).reverse_pointer, "PTR", "mx.test")

    def add(self, name, kind, value):
        self.zone.setdefault(name.lower().rstrip("."), {}).setdefault(kind, []).append(value)

    def names(self):
        """The zone with the names that exist because others below them do."""
        out = dict(self.zone)
        for name in self.zone:
            while "." in name:
                name = name.split(".", 1)[1]
                out.setdefault(name, {})
        return out

    def host(self, name, spf):
        if not any(name.endswith(s) and name != s for s in self.zone):
            self.add(name, "A", GOOD)
        else:
            self.add(name, "A", "198.18.202.1")
        self.add(name, "MX", [10, "mx.test"])
        if spf:
            self.add(name, "TXT", [spf])

    def universe(self, i):
        """Records, senders and clients of spf_differential.py, moved below uI.test and into addresses of their own."""
        case, _ = spf_differential.generate(self.r, i)
        text = json.dumps(case)
        for a, b in (("example.org", "u%d.test" % i), ("Example.org", "U%d.Test" % i), ("example.net", "net.test"), ("x.org", "x.test"),
                     ("192.0.2.", "198.19.%d." % i), ("2001:db8::", "2001:db8:%x::" % (i + 1)), ("198.51.100.", "203.0.113.")):
            text = text.replace(a, b)
        case = json.loads(text)
        for row in case["zone"]:
            kind, name = row["type"], row["name"]
            if kind in ("TIMEOUT", "PTR"):
                continue
            value = row["strings"] if kind == "TXT" else [row.get("preference", 0), row["value"]] if kind == "MX" else row["value"]
            if value not in self.zone.get(name.lower(), {}).get(kind, []):
                self.add(name, kind, value)
        ips = sorted({v for row in case["zone"] if row["type"] in ("A", "AAAA") for v in [row["value"]] if not v.startswith("127.")})
        for ip in ips:
            name = ipaddress.ip_address(ip).reverse_pointer
            if name not in self.zone:
                self.add(name, "PTR", self.r.choice(["h%d.u%d.test" % (self.r.randrange(6), i), "d0.u%d.test" % i]))
        return {"ips": ips + ["203.0.113.7"], "domains": ["d%d.u%d.test" % (k, i) for k in range(6)]}

    def selector(self, kind, domain):
        """A selector of that kind with its record, new to the message it is for."""
        n = 0
        while (domain, "%s-%d" % (kind, n)) in self.used:
            n += 1
        self.used.add((domain, "%s-%d" % (kind, n)))
        name = "%s-%d._domainkey.%s" % (kind, n, domain)
        if kind not in RECORDS or name in self.zone:
            return "%s-%d" % (kind, n)
        key, form = RECORDS[kind]
        text = form if form is None or "%s" not in form else form % self.keys[key].public
        if text is None:
            text = "v=DKIM1; p=" + self.keys["stranger"].public
        if kind == "space":
            text = text.replace("IDAQAB", "ID AQAB")
        cut = self.r.choice([0, 255, 100, 17])
        self.add(name, "TXT", [text[i:i + cut] for i in range(0, len(text), cut)] if cut and text else [text[i:i + 255] for i in range(0, len(text), 255)] or [""])
        return "%s-%d" % (kind, n)


def line(r):
    return " ".join(r.choice(WORDS) for _ in range(r.randrange(0, 12))) + r.choice(["", "", " ", "\t", "  \t"])


def body(r):
    kind = r.randrange(20)
    if kind == 0:
        return b""
    if kind == 1:
        return b"\r\n" * r.randrange(1, 4)
    if kind == 2:
        return b" \t\r\n \r\n"
    if kind == 3:
        return b"x" * r.choice([998, 999, 5000]) + b"\r\n"
    lines = [line(r) for _ in range(r.randrange(0, 12))] + [""] * r.randrange(0, 4)
    if kind == 4:
        lines.insert(0, "")
    if kind == 5:
        lines.append(". dot")
    text = "\r\n".join(lines).encode("utf-8" if r.random() < .7 else "latin-1", "replace")
    if r.random() < .15:
        return text.rstrip(b"\r\n \t")
    return text.rstrip(b" \t") + r.choice([b"\r\n", b"\r\n\r\n"])


def compose(r, author):
    subject = r.choice([" ", "  ", ""]) + line(r).strip() + r.choice(["", "\r\n  folded", "\r\n\tfolded  twice\r\n again"])
    fields = [r.choice(["From: Ann  Example <%s>", "From: %s", "from:\t<%s>", "From: \"Ann, Example\"\r\n <%s>"]) % author,
              "To: bob@mx.test,\r\n\tcarol@mx.test ", "Date: Fri, 1 Jan 2021 00:00:00 +0000", "Subject:" + subject,
              "Message-ID: <%d@id.test>" % r.randrange(10 ** 9), "MIME-Version: 1.0"]
    fields += ["Received: from a%d by b; Fri, 1 Jan 2021 10:00:0%d +0000" % (i, i) for i in range(r.randrange(0, 4))]
    if r.random() < .3:
        fields.append("X-Odd:\t" + line(r) + "x")
    if r.random() < .1:
        fields.append("X-Long: " + " ".join("word%d" % i for i in range(200)))
    if r.random() < .1:
        fields.append("X-Empty:")
    r.shuffle(fields)
    return "\r\n".join(fields).encode() + b"\r\n\r\n" + body(r)


def names(r):
    out = ["from", "to", "subject", "date", "message-id"]
    out += r.choice([[], ["mime-version"], ["x-odd", "x-odd"], ["x-odd"], ["from", "subject", "date", "to"], ["not-there"], ["received", "received"], ["x-empty"]])
    r.shuffle(out)
    return [n.capitalize() for n in out] if r.random() < .3 else out


def by_hand(w, message, d, odd):
    """A signature of our own; odd: one that says something no tool would say."""
    r = w.r
    kind = r.choice(w.kinds if odd else ["rsa1024", "rsa2048", "ed", "bare", "notes", "email", "both"])
    more = {"c": r.choice(CANONS), "names": names(r)}
    what = r.choice(["key"] * 3 + ["missing", "refused", "expired", "future", "x-before-t", "strict-i", "sub-i", "bad-i", "no-from", "l", "l0", "l-all", "sha1",
                     "v", "a", "c", "q", "twice", "order", "drop", "fold", "unknown", "z", "single-c", "d-case", "times"]) if odd else "plain"
    tags = []
    if what == "missing":
        kind = "missing"
    elif what == "refused":
        d = UNSERVED
    elif what == "expired":
        tags = [("t", str(LONG_AGO - 100)), ("x", str(LONG_AGO))]
    elif what == "future":
        tags = [("t", str(THEN)), ("x", str(FAR))]
    elif what == "x-before-t":
        tags = [("t", str(FAR)), ("x", str(FAR - 5))]
    elif what == "times":
        tags = [("t", r.choice(["0", "abc", "-5", "99999999999999", str(FAR)]))]
    elif what in ("strict-i", "sub-i"):
        kind = r.choice(["ts", "tys"]) if what == "strict-i" else "rsa1024"
        tags = [("i", r.choice(["ann@%s", "@%s", "x@sub.%s", "@a.b.%s"]) % d)]
    elif what == "bad-i":
        tags = [("i", r.choice(["ann@elsewhere.test", "no-at-sign", "@not" + d]))]
    elif what == "no-from":
        more["names"] = ["to", "subject"]
    elif what in ("l", "l0", "l-all"):
        n = len(mail_sign.canon_body(message.partition(b"\r\n\r\n")[2], more["c"][1]))
        more["length"] = {"l": r.randrange(n + 1), "l0": 0, "l-all": n}[what]
    elif what == "sha1":
        more["a"], kind = "rsa-sha1", r.choice(["rsa1024", "sha256", "sha1"])
    elif what == "v":
        tags = [("v", r.choice(["2", "0.5", "1.0", ""]))]
    elif what == "a":
        tags = [("a", r.choice(["rsa-sha512", "dsa-sha256", "RSA-SHA256", "rsa", ""]))]
    elif what == "c":
        more["c_text"] = r.choice(["nofws", "relaxed/nowsp", "simple/", "RELAXED/relaxed", "/"])
    elif what == "single-c":
        more["c"], more["c_text"] = r.choice([(("simple", "simple"), "simple"), (("relaxed", "simple"), "relaxed")])
    elif what == "q":
        tags = [("q", r.choice(["dns/txt", "dns", "http", "dns/txt:other"]))]
    elif what == "twice":
        tags = [("h ", "to")]
    elif what == "unknown":
        tags = [("zz", "1"), ("_x", ""), ("x1y", "a b")]
    elif what == "z":
        tags = [("z", "From:foo@bar|To:x=20y")]
    elif what == "order":
        more["order"] = r
    elif what == "drop":
        more["drop"] = r.choice(["v", "a", "c", "d", "s", "h", "bh"])
    elif what == "fold":
        more["fold"] = r.choice([20, 40, 2000])
    s = w.selector(kind, d)
    if what == "d-case":
        d = d.upper()
    key = w.keys[RECORDS[kind][0] if kind in RECORDS else "rsa1024"]
    if more.get("a") == "rsa-sha1" and key.kind != "rsa":
        key = w.keys["rsa1024"]
    return mail_sign.sign(message, key, d, s, tags=tags, **more), "hand:%s/%s" % (kind, what)


def sign_once(w, signers, message, author_domain):
    r = w.r
    d = r.choice([author_domain] * 4 + [".".join(author_domain.split(".")[-2:]), "list.test", "relay.test", "mail." + author_domain])
    if b"s=rspamd" in message:  # its selector is always the same
        signers = {k: v for k, v in signers.items() if k != "rspamd"}
    tool = r.choice(["hand", "hand", "odd", "odd", "odd", "dkimpy", "dkimpy"] + sorted(signers) * 2)
    if tool in ("hand", "odd"):
        field, made = by_hand(w, message, d, tool == "odd")
        return field + message, made
    kind = r.choice(["rsa1024", "rsa2048"] + (["ed"] if tool == "dkimpy" else []) + (["rsa4096"] if "rsa4096" in w.keys and r.random() < .3 else []))
    c, s = r.choice(CANONS), w.selector(kind, d)
    if tool == "dkimpy":
        field = dkim.sign(message, s.encode(), d.encode(), w.keys[kind].pem, canonicalize=tuple(x.encode() for x in c), include_headers=[n.lower().encode() for n in names(r) if n.lower() != "received"],
                          signature_algorithm=b"ed25519-sha256" if kind == "ed" else b"rsa-sha256", length=r.random() < .1,
                          identity=r.choice([None, None, ("ann@" + d).encode(), ("x@sub." + d).encode()]))
    else:
        field = signers[tool](message, d, s, w.keys[kind], c, ["from", "to", "subject", "date", "message-id"])
        if not field:  # it would not
            field, tool = mail_sign.sign(message, w.keys[kind], d, s, names(r), c), "hand"
    return field + message, tool + ":" + kind


CHANGES = ["body", "append", "blank", "lines", "trim", "subject", "fold", "case", "field", "drop", "swap", "b", "bh", "tag", "order", "from", "second-from", "late-blank",
           "8bit", "refold", "b-blank"]


def change(r, message, kind):
    head, _, text = message.partition(b"\r\n\r\n")
    sig = head.lower().find(b"dkim-signature:")
    if kind == "body":
        at = r.randrange(len(text) + 1)
        at += text[at - 1:at + 1] == b"\r\n"  # a bare CR is nothing that is accepted, and dkimpy takes a bare LF for a line's end
        text = text[:at] + b"Z" + text[at:]
    elif kind == "append":
        text += b"\r\nappended\r\n"
    elif kind == "blank":
        text = text.replace(b" ", b"  ", 1)
    elif kind == "late-blank":
        text = text.replace(b"\r\n", b" \t\r\n")
    elif kind == "lines":
        text += b"\r\n\r\n"
    elif kind == "trim":
        text = text.rstrip(b"\r\n") + b"\r\n"
    elif kind == "8bit":
        text = text.replace(b"\xc3\xbc", b"ue", 1).replace(b"\xfc", b"ue", 1)
    elif kind == "subject":
        head = head.replace(b"\r\nSubject:", b"\r\nSubject: [list]", 1)
    elif kind == "fold":
        head = head.replace(b" <ann@", b"\r\n <ann@", 1)
    elif kind == "case":
        head = head.replace(b"\r\nTo:", b"\r\nTO:", 1)
    elif kind == "field":
        head = b"X-New: 1\r\n" + head + b"\r\nX-Last: 2"
    elif kind == "drop":
        head = b"\r\n".join(x for x in head.split(b"\r\n") if not x.startswith(b"Date:"))
    elif kind == "swap":
        head = head.replace(b"Message-ID: <", b"Message-ID: <0", 1)
    elif kind == "from":
        head = head.replace(b"Ann", b"Eve")
    elif kind == "second-from":
        head += b"\r\nFrom: eve@none.test"
    elif kind == "b" and sig >= 0:
        at = head.find(b"\tb=", sig) + 5
        head = head[:at] + (b"A" if head[at:at + 1] != b"A" else b"B") + head[at + 1:] if at > 5 else head
    elif kind == "bh":
        at = head.find(b"bh=") + 6
        head = head[:at] + (b"A" if head[at:at + 1] != b"A" else b"B") + head[at + 1:] if at > 6 else head
    elif kind == "tag" and sig >= 0:
        end = head.find(b";", sig)
        head = head[:end] + r.choice([b"; zz=1", b"; d=x.test", b";", b"; =1", b"; t=y"]) + head[end:]
    elif kind == "refold" and sig >= 0:
        at = head.find(b"; ", sig)
        head = head[:at] + b";\r\n    " + head[at + 2:] if at > 0 else head
    elif kind == "b-blank" and sig >= 0:
        at = head.find(b"bh=", sig) + 8
        head = head[:at] + r.choice([b" ", b"\r\n\t"]) + head[at:] if at > 8 else head
    elif kind == "order":
        lines = head.split(b"\r\nMIME-Version: 1.0", 1)
        head = b"MIME-Version: 1.0\r\n" + lines[0] + lines[1] if len(lines) == 2 else head
    return head + b"\r\n\r\n" + text


def seal(w, message, broken):
    """One to three ARC sets by dkimpy; broken: a changed chain."""
    r, made = w.r, []
    # dkimpy needs a last line end to seal what others will verify
    if not message.endswith(b"\r\n"):
        message += b"\r\n"
    for i in range(r.choice([1, 1, 2, 3])):
        d = r.choice(["list.test", "relay.test"])
        kind = r.choice(["rsa1024", "rsa2048"])
        server = ("mx%d.%s" % (i, d)).encode()
        message = b"Authentication-Results: %s; spf=pass smtp.mailfrom=a@%s; dkim=pass header.d=none.test; arc=%s\r\n" % (
            server, d.encode(), b"pass" if i else b"none") + message
        s = w.selector(kind, d)
        out = dkim.arc_sign(message, s.encode(), d.encode(), w.keys[kind].pem, server, include_headers=[b"from", b"to", b"subject", b"date", b"message-id"],
                            timestamp=THEN)
        if not out:
            break
        message = b"".join(out) + message
        if r.random() < .3:
            message = b"Received: from x by y%d; Fri, 1 Jan 2021 10:00:09 +0000\r\n" % i + message
        made.append(d)
    if broken and made:
        how = r.choice(["body", "aar", "seal-b", "drop-aar", "drop-seal", "cv", "again", "instance", "subject"])
        head, _, text = message.partition(b"\r\n\r\n")
        fields = mail_sign.fields_of(head)
        at = {p: [i for i, f in enumerate(fields) if f.lower().startswith(p)] for p in (b"arc-seal:", b"arc-authentication-results:", b"arc-message-signature:")}
        if how == "body":
            text = b"changed\r\n" + text
        elif how == "aar":
            i = r.choice(at[b"arc-authentication-results:"])
            fields[i] = fields[i].replace(b"dkim=pass", b"dkim=fail")
        elif how == "seal-b":
            i = r.choice(at[b"arc-seal:"])
            j = fields[i].rfind(b"b=") + 6
            fields[i] = fields[i][:j] + (b"A" if fields[i][j:j + 1] != b"A" else b"B") + fields[i][j + 1:]
        elif how in ("drop-aar", "drop-seal"):
            del fields[r.choice(at[b"arc-authentication-results:" if how == "drop-aar" else b"arc-seal:"])]
        elif how == "cv":
            i = r.choice(at[b"arc-seal:"])
            fields[i] = fields[i].replace(b"cv=none", b"cv=pass") if b"cv=none" in fields[i] else fields[i].replace(b"cv=pass", b"cv=none")
        elif how == "again":
            fields.insert(0, fields[r.choice(at[b"arc-message-signature:"])])
        elif how == "instance":
            i = r.choice(at[b"arc-seal:"])
            fields[i] = fields[i].replace(b"i=1", r.choice([b"i=7", b"i=0", b"i=01", b"i=x"]), 1)
        elif how == "subject":
            fields = [f.replace(b"Subject:", b"Subject: [x]", 1) for f in fields]
        message = b"\r\n".join(fields) + b"\r\n\r\n" + text
        made.append(how)
    return message, "arc:" + "+".join(made)


def make(w, signers, number):
    r = w.r
    w.used = set()
    dkim.time = CLOCK
    org = r.choice(sorted(ORGS))
    domain = "%s.test" % org if r.random() < .6 else "%s.%s.test" % (r.choice(SUBS), org)
    if r.random() < .08:
        domain = "%s.%s.test" % (r.choice(NOBODY), org)
    if r.random() < .02:
        domain = UNSERVED
    author = r.choice(["ann@%s", "Ann@%s", "\"an n\"@%s"]) % r.choice([domain, domain, domain.upper()])
    message, made = compose(r, author), []
    for _ in range(r.choice([0, 1, 1, 1, 1, 2, 3])):
        message, how = sign_once(w, signers, message, domain)
        made.append(how)
    if r.random() < .35:
        kind = r.choice(CHANGES)
        message = change(r, message, kind)
        made.append("changed:" + kind)
    if r.random() < .15:
        message, how = seal(w, message, r.random() < .5)
        made.append(how)
    how = r.random()
    if how < .25:
        ip, sender, helo = r.choice(CLIENTS), "%s@o%d.test" % (r.choice(spf_differential.LOCALS), r.randrange(len(ORDINARY))), "mx.test"
    elif how < .6:  # a sender whose SPF is that of the author, or of somebody we know
        sender = "%s@%s" % (r.choice(["ann", "bounce+x"]), r.choice([domain, domain, "%s.test" % org, "list.test", "relay.test", "bounce.%s" % domain]))
        ip, helo = r.choice([(GOOD, "mx.test")] * 2 + [(BAD_IP, "other.test"), ("198.18.202.1", domain)])
        if r.random() < .1:
            sender = ""
    else:
        u = r.choice(w.universes)
        ip = r.choice(u["ips"])
        sender = "%s@%s" % (r.choice(spf_differential.LOCALS), r.choice(u["domains"]))
        helo = r.choice([u["domains"][1], "mail.net.test", "JUNK", "[192.0.2.1]"])
        if r.random() < .1:
            sender = ""
    return {"id": "%d/%s" % (number, ",".join(made) or "unsigned"), "message": message, "ip": ip, "helo": helo, "from": sender, "author": domain, "made": made}


def json_of(case):
    """What the C program and the others read."""
    return dict(case, message=base64.b64encode(case["message"]).decode())
