#!/usr/bin/env python3
"""Our DKIM verdicts against those of dkimpy and libopendkim, over messages generated, signed by dkimpy and opendkim-testmsg, and partly
changed afterwards. Prints what was compared; 77 where dkimpy is not installed. Usage: dkim_differential.py PEPSI-VECTORS [COUNT]

dkimpy decides signature by signature on everything. libopendkim is asked only about messages with one signature that nobody broke or
of which only the text was changed: it is not made for hostile fields. It is reached through its shared library, if there is one."""
import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import opendkim

try:
    import dkim
    import nacl.signing
except ImportError as e:
    print(f"skipped: no dkimpy with PyNaCl for this python ({e})")
    sys.exit(77)
if not shutil.which("openssl"):
    print("skipped: no openssl to make keys with")
    sys.exit(77)

SIZES = (1024, 2048)
CANONS = [(a, b) for a in (b"simple", b"relaxed") for b in (b"simple", b"relaxed")]
WORDS = "a quick brown fox jumps over the lazy dog  two\tblanks \t end.  x=y; (comment) \"quoted\"".split(" ")


class Keys:
    """One selector a key: rsa1024, rsa2048, ed."""

    def __init__(self, folder):
        self.private, self.record, self.path = {}, {}, {}
        for bits in SIZES:
            name = f"rsa{bits}"
            path = os.path.join(folder, name + ".pem")
            subprocess.run(["openssl", "genrsa", "-traditional", "-out", path, str(bits)], check=True, capture_output=True)
            der = subprocess.run(["openssl", "rsa", "-in", path, "-pubout", "-outform", "DER"], check=True, capture_output=True).stdout
            self.private[name] = open(path, "rb").read()
            self.record[name] = "v=DKIM1; k=rsa; p=" + base64.b64encode(der).decode()
            self.path[name] = path
        key = nacl.signing.SigningKey.generate()
        self.private["ed"] = base64.b64encode(bytes(key))
        self.record["ed"] = "v=DKIM1; k=ed25519; p=" + base64.b64encode(bytes(key.verify_key)).decode()
        self.zone = {f"{s}._domainkey.example.org": r for s, r in self.record.items()}


def text_line(r):
    return " ".join(r.choice(WORDS) for _ in range(r.randrange(0, 12))) + r.choice(["", "", " ", "\t", "  \t"])


def make_message(r):
    fields = ["From: Ann  Example <ann@example.org>", "To: bob@example.net,\r\n\tcarol@example.net ", "Date: Fri, 1 Jan 2021 10:00:00 +0000",
              "Subject:" + r.choice([" ", "  ", ""]) + text_line(r).strip() + r.choice(["", "\r\n  folded", "\r\n\tfolded  twice\r\n again"]),
              f"Message-ID: <{r.randrange(10 ** 9)}@example.org>", "MIME-Version: 1.0"]
    fields += [f"Received: from a{i} by b; Fri, 1 Jan 2021 10:00:0{i} +0000" for i in range(r.randrange(0, 4))]
    if r.random() < 0.3:
        fields.append("X-Odd:\t" + text_line(r) + "x")
    r.shuffle(fields)
    lines = [text_line(r) for _ in range(r.randrange(0, 12))] + [""] * r.randrange(0, 4)
    # dkimpy keeps blanks at the end of a last line without CRLF (RFC 6376 3.4.4 says otherwise, and so does libopendkim)
    body = "\r\n".join(lines).rstrip(" \t") + r.choice(["", "\r\n", "\r\n\r\n"])
    return ("\r\n".join(fields) + "\r\n\r\n" + body).encode()


def sign(r, keys, message, folder):
    """With one to three signatures in front."""
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        if r.random() < 0.2 and os.path.exists("/usr/sbin/opendkim-testmsg"):
            p = subprocess.run(["/usr/sbin/opendkim-testmsg", "-C", "-d", "example.org", "-k", keys.path["rsa2048"], "-s", "rsa2048",
                                "-t", folder], input=message, capture_output=True)
            if p.returncode == 0 and p.stdout.lower().startswith(b"dkim-signature:"):
                head, sep, _ = message.partition(b"\r\n\r\n")
                end = p.stdout.lower().find(head.split(b"\r\n")[0].lower())
                if end > 0:
                    message = p.stdout[:end] + message
                    continue
        which = r.choice(["rsa1024", "rsa2048", "ed"])
        names = [b"from", b"to", b"subject", b"date", b"message-id"]
        names += r.choice([[], [b"mime-version"], [b"x-odd", b"x-odd"], [b"x-odd"], [b"from", b"subject"], [b"not-there"]])
        r.shuffle(names)
        field = dkim.sign(message, which.encode(), b"example.org", keys.private[which], canonicalize=r.choice(CANONS), include_headers=names,
                          signature_algorithm=b"ed25519-sha256" if which == "ed" else b"rsa-sha256", length=r.random() < 0.15,
                          identity=r.choice([None, None, b"ann@example.org", b"x@sub.example.org"]))
        message = field + message
    return message


def change(r, message):
    """The message as something on its way left it, and what that was."""
    head, _, body = message.partition(b"\r\n\r\n")
    kind = r.choice(["none"] * 8 + ["body", "append", "blank", "lines", "subject", "fold", "case", "field", "drop", "swap", "b", "tag", "order"])
    if kind == "body" and body.strip():
        at = r.randrange(len(body))
        body = body[:at] + b"Z" + body[at:]
    elif kind == "append":
        body += b"\r\nappended\r\n"
    elif kind == "blank":
        body = body.replace(b" ", b"  ", 1)
    elif kind == "lines":
        body += b"\r\n\r\n"
    elif kind == "subject":
        head = head.replace(b"\r\nSubject:", b"\r\nSubject: Re:", 1)
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
    elif kind == "b":
        at = head.find(b" bh=")
        head = head[:at + 6] + (b"A" if head[at + 6:at + 7] != b"A" else b"B") + head[at + 7:]
    elif kind == "tag":
        head = head.replace(b"d=example.org", r.choice([b"d=example.com", b"d=example.org; d=example.org", b"zz=1; d=example.org"]), 1)
    elif kind == "order":
        lines = head.split(b"\r\nMIME-Version: 1.0", 1)
        head = b"MIME-Version: 1.0\r\n" + lines[0] + lines[1] if len(lines) == 2 else head
    return head + b"\r\n\r\n" + body, kind


def dkimpy_verdicts(keys, message):
    """"pass" or "other" for each signature, from the top."""
    lookup = lambda name, timeout=5: keys.zone.get(name.decode().rstrip("."), "").encode() or None
    n = sum(1 for name, _ in dkim.DKIM(message).headers if name.lower() == b"dkim-signature")
    out = []
    for i in range(n):
        try:
            out.append("pass" if dkim.DKIM(message).verify(idx=i, dnsfunc=lookup) else "other")
        except Exception:  # whatever it raises, it is no pass
            out.append("other")
    return out


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(os.environ.get("PEPSI_SEED", "6376"))
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        keys = Keys(folder)
        open_dkim = opendkim.OpenDkim(keys.zone, folder)
        cases, asked, signatures, passing = [], 0, 0, 0
        for i in range(count):
            message, kind = change(r, sign(r, keys, make_message(r), folder))
            verdicts = dkimpy_verdicts(keys, message)
            one = {"id": f"{i}/{kind}", "text": message.decode(), "verdicts": verdicts, "dns": keys.zone}
            # a body without a last CRLF never reaches a milter; libopendkim does not add one
            if open_dkim.lib and len(verdicts) == 1 and kind not in ("b", "tag") and message.endswith(b"\r\n"):
                one["opendkim"] = open_dkim.verdict(message)
                asked += 1
            cases.append(one)
            signatures += len(verdicts)
            passing += verdicts.count("pass")
        path = os.path.join(folder, "cases.json")
        with open(path, "w") as f:
            json.dump({"cases": cases}, f)
        p = subprocess.run([program, "dkim", path], capture_output=True, text=True)
        bad = [line for line in p.stdout.splitlines() if line.startswith("FAIL")]
        if bad:
            print("\n".join(bad))
        if bad and os.environ.get("PEPSI_KEEP"):
            open(os.environ["PEPSI_KEEP"], "w").write(open(path).read())
        print(f"seed {seed}: {count} messages, {signatures} signatures, {passing} pass by dkimpy; libopendkim asked about {asked}"
              f"{'' if open_dkim.lib else ' (not installed)'}; {p.stdout.splitlines()[-1] if p.stdout else p.stderr}")
        if not passing or passing == signatures:
            raise SystemExit("the corpus shows nothing")
        sys.exit(p.returncode)


main()
