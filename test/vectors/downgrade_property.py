#!/usr/bin/env python3
"""Properties of mail made fit for hops that take less (proto/mail/downgrade.h), told by Python's email package, which shares no code with us:

    taking a message apart and putting it together is the identity, for every message of the corpora and every generated one;
    what was changed is fit (no octet above 127, no line above 998), has the same parts with the same decoded contents, and fields with the same text;
    what was changed once is not changed again; twice the message costs less than 2.5 times as much, whatever it is made of.

Usage: downgrade_property.py PEPSI-DOWNGRADE-FRAMES VECTORS; PEPSI_SEED other messages, PEPSI_COUNT more. Without VECTORS the generated ones only."""
import base64
import email
import email.utils
import glob
import os
import random
import re
import subprocess
import sys

LACKS = {1: "8BITMIME", 4: "SMTPUTF8", 5: "8BITMIME and SMTPUTF8", 2: "BINARYMIME", 3: "8BITMIME and BINARYMIME"}


class Engine:
    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, lacks, raw):
        self.p.stdin.write(b"%d %d\n" % (lacks, len(raw)) + raw)
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit("the engine is gone: exit status %s" % self.p.wait())
        how, cost, status, n, text = line.rstrip(b"\n").split(b" ", 4)
        return how.decode(), int(cost), status.decode(), text.decode("utf-8", "replace"), self.p.stdout.read(int(n))


def crlf(raw):
    return re.sub(rb"\r\n|\r|\n", b"\r\n", raw)


# -- what Python sees

WORD = re.compile(r"=\?([!-~]*?)(?:\*[!-~]*?)?\?([bBqQ])\?([!->@-~]*)\?=")


def octets(s):
    return s.encode("utf-8", "surrogateescape")


def read_word(m):
    charset, how, text = m.groups()
    if how in "bB":
        data = base64.b64decode(text + "===")
    else:
        data = re.sub(rb"=([0-9A-Fa-f]{2})", lambda x: bytes([int(x.group(1), 16)]), text.replace("_", " ").encode())
    try:
        return data.decode("utf-8" if charset.lower() == "unknown-8bit" else charset, "replace")
    except LookupError:
        return m.group(0)


def decoded(value):
    """The text of a field, whether it stands there in UTF-8 or in encoded words (email.header.decode_header() wants ASCII)."""
    text = re.sub(r"[\r\n\0]", " ", re.sub(r"\r?\n(?=[ \t])", "", octets(value).decode("utf-8", "replace")))
    out, last, joined = [], 0, False
    for m in WORD.finditer(text):
        between = text[last:m.start()]
        if not (joined and not between.strip()):
            out.append(between)
        out.append(read_word(m))
        last, joined = m.end(), True
    return re.sub(r"\s+", " ", "".join(out) + text[last:]).strip()


def idna(address):
    local, at, domain = address.rpartition("@")
    try:
        return local + at + domain.encode("idna").decode()
    except UnicodeError:
        return address


TRACE = re.compile(r"(?i)(received|return-path|delivered-to|x-original-to|envelope-to|x-envelope-.*|authentication-results|received-spf|dkim-signature|domainkey-signature|arc-.*"
                   r"|references|in-reply-to|list-.*|mime-version|content-transfer-encoding|message-id|content-type|content-disposition)$")
ADDRESSES = re.compile(r"(?i)((resent-)?(from|sender|reply-to|to|cc|bcc)|disposition-notification-to|return-receipt-to|mail-(followup|reply)-to|errors-to|apparently-to)$")


def fields(part):
    out = []
    for name, value in part.raw_items():
        if TRACE.match(name):
            continue
        if ADDRESSES.match(name):
            text = re.sub(r"\r\n(?=[ \t])", "", octets(value).decode("utf-8", "replace"))
            out.append((name.lower(), [(decoded(n), idna(a).lower()) for n, a in email.utils.getaddresses([text])]))
        else:
            out.append((name.lower(), decoded(value)))
    return out


def file_name(part):
    try:
        name = part.get_filename()
    except Exception:  # its own faults with broken parameters
        return None
    return None if name is None else decoded(email.utils.collapse_rfc2231_value(name))


def seen(raw):
    """[(depth, type, file name, fields, content)]: content is None of what has parts. A message/global is one content: it may be encoded."""
    # names and fields are read from text, contents from octets: Python knows no UTF-8 in the one, and no octets in the other
    out, todo = [], [(0, email.message_from_bytes(raw), email.message_from_string(raw.decode("utf-8", "surrogateescape")))]
    while todo:
        depth, part, text = todo.pop()
        kind = part.get_content_type()
        if part.is_multipart() and not kind.startswith("message/global"):
            out.append((depth, kind, file_name(text), fields(text), None))
            todo += reversed([(depth + 1, p, t) for p, t in zip(part.get_payload(), text.get_payload())])
        elif kind.startswith("message/"):
            out.append((depth, kind, file_name(text), fields(text), None))
        else:
            out.append((depth, kind, file_name(text), fields(text), part.get_payload(decode=True)))
    return out


def differences(before, after):
    a, b = seen(before), seen(after)
    if [x[:2] for x in a] != [x[:2] for x in b]:
        return "other parts: %r, and then %r" % ([x[:2] for x in a], [x[:2] for x in b])
    for x, y in zip(a, b):
        for i, what in ((2, "file name"), (3, "fields"), (4, "content")):
            if x[i] == y[i]:
                continue
            if i == 3:
                return "fields: %r, and then %r" % ([p for p in x[3] if p not in y[3]], [p for p in y[3] if p not in x[3]])
            if i == 4 and x[4] is not None and y[4] is not None and x[4].rstrip(b"\r\n") == y[4].rstrip(b"\r\n"):
                continue  # a last line end: base64 has none behind itself
            return "%s of %s: %.300r, and then %.300r" % (what, x[1], x[i], y[i])
    return None


# -- generated messages

WORDS = ("Grüße aus Köln", "naïve façade", "Привет, мир", "日本語の本文です", "plain old words", "Ω≈ç√∫", "emoji 🎉 party", "a  double  blank ", "=?utf-8?q?looks?= like one", "(parens) \"quotes\" \\ back",
         "tail\t", "--dashes--", ".", "From here", "x" * 90, "é" * 80, "=3D equals =")


def lines(r, n, high=True):
    return "".join(r.choice([w for w in WORDS if high or w.isascii()]) + (" " + r.choice("abc") if r.random() < .3 else "") + "\r\n" for _ in range(n))


def leaf(r, depth):
    kind = r.randrange(8)
    if kind < 4:
        charset, label = r.choice([("utf-8", "8bit"), ("utf-8", None), ("iso-8859-1", "8bit"), ("utf-8", "binary")])
        text = lines(r, r.randrange(1, 30), r.random() < .8).encode(charset, "replace")
        head = "Content-Type: text/%s; charset=%s\r\n" % (r.choice(["plain", "html", "plain; format=flowed"]), charset)
        head += "Content-Transfer-Encoding: %s\r\n" % label if label else ""
        return head.encode(), text
    name = r.choice(["größe.bin", "плохо и долго " * 6 + ".pdf", "plain.txt", "semi;colon\"quote.txt"]).replace("\"", "\\\"")
    head = "Content-Type: %s; name=\"%s\"\r\nContent-Disposition: attachment;\r\n\tfilename=\"%s\"\r\n" % (r.choice(["application/pdf", "image/png"]), name, name)
    if kind < 6:
        data = bytes(r.randrange(256) for _ in range(r.randrange(1, 3000))).replace(b"\r", b"r").replace(b"\n", b"\r\n").replace(b"\0", b"0")
        return (head + "Content-Transfer-Encoding: 8bit\r\nContent-Description: Anhang für %s\r\n" % r.choice(WORDS[:4])).encode(), data
    if kind == 6:
        return (head + "Content-Transfer-Encoding: base64\r\n").encode(), b"QUJD\r\n" * r.randrange(1, 50)
    return (head + "Content-Transfer-Encoding: binary\r\n").encode(), bytes(r.randrange(256) for _ in range(r.randrange(1, 3000))) + b"-" * 1500


def entity(r, depth=0):
    kind = r.random()
    if depth < 4 and kind < .4:
        b = "b%d.%d" % (depth, r.randrange(1 << 30))
        signed = r.random() < .1
        out = [("preämble\r\n" if r.random() < .1 else "").encode()]
        for _ in range(r.randrange(1, 4)):
            head, body = entity(r, depth + 1) if not signed else (b"Content-Type: text/plain\r\n", lines(r, 5, r.random() < .2).encode())
            out.append(b"--%s\r\n" % b.encode() + head + b"\r\n" + body + b"\r\n")
        out.append(b"--%s--\r\n" % b.encode())
        kind = "multipart/signed; protocol=\"application/pgp-signature\"" if signed else r.choice(["multipart/mixed", "multipart/alternative", "multipart/related; type=\"text/html\""])
        return ("Content-Type: %s; boundary=\"%s\"\r\n%s" % (kind, b, r.choice(["", "Content-Transfer-Encoding: 8bit\r\n"]))).encode(), b"".join(out)
    if depth < 4 and kind < .5:
        return b"Content-Type: message/rfc822\r\n", message(r, depth + 1)
    return leaf(r, depth)


def message(r, depth=0):
    head, body = entity(r, depth)
    name = r.choice(["Jörg Müller", "山田太郎", "Plain Name", "\"Quoted, Ü\"", "=?iso-8859-1?q?J=F6rg?="])
    out = "From: %s <joe@%s>\r\nTo: %s <a@example.test>, b@example.test (kömmentar)\r\n" % (name, r.choice(["example.test", "bücher.example"]), r.choice(["Ä Ö", "An"]))
    out += "Subject: %s\r\n" % "\r\n ".join(r.choice(WORDS).strip() or "x" for _ in range(r.randrange(1, 6)))
    out += "X-Note: %s\r\nComments: %s\r\nDate: Tue, 1 Dec 2026 10:00:00 +0100 (Mitteleuropäische Zeit)\r\n" % (r.choice(WORDS), r.choice(WORDS))
    if r.random() < .9:
        out += "MIME-Version: 1.0\r\n"
    return out.encode() + head + b"\r\n" + body


# -- hostile ones, of size n

def nested(n):
    """Many boundaries open, then lines that look like all of them."""
    head = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (i, i) for i in range(48))
    return head + b"\r\n" + (b"--b4x" + b"\xfc" * 10 + b"\r\n") * (n // 17)


GENERATORS = {
    "deep nesting": nested,
    "many parts": lambda n: b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\n\xc3\xbc\r\n" * min(n // 11, 9990),
    "boundary-like lines": lambda n: b"Content-Type: multipart/mixed; boundary=" + b"-" * 60 + b"\r\n\r\n--" + b"-" * 60 + b"\r\n\r\n\xc3\xbc\r\n" + (b"-" * 61 + b"x\r\n") * (n // 64),
    "long header": lambda n: b"Subject: " + b"\xc3\xbc a\r\n " * (min(n, 900000) // 8) + b"\r\nTo: a\r\n\r\n\xfc\r\n",
    "one long word": lambda n: b"Subject: " + b"\xc3\xbc" * (min(n, 900000) // 2) + b"\r\n\r\n\xfc\r\n",
    "address list": lambda n: b"To: " + b"\xc3\xbc <a@b.test>, " * (min(n, 18000) // 15) + b"a@b.test\r\n\r\n\xfc\r\n",
    "comments": lambda n: b"Date: x " + b"(\xc3\xbc) " * (min(n, 100000) // 5) + b"\r\n\r\n\xfc\r\n",
    "parameters": lambda n: b"Content-Type: text/plain; x=\"" + b"\xc3\xbc" * (min(n, 16000) // 2) + b"\"\r\n\r\n\xfc\r\n",
    "no line ends": lambda n: b"Content-Transfer-Encoding: 8bit\r\n\r\n" + b"\xc3\xbca" * (n // 3),
    "equals and blanks": lambda n: b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\xfc" + (b"=" + b" " * 3000) * (n // 3001),
    "line ends only": lambda n: b"Content-Type: text/plain; charset=utf-8\r\n\r\n\xc3\xbc" + b"\r\n" * (n // 2),
    "text": lambda n: b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + "Grüße aus Köln und anderswo\r\n".encode() * (n // 31),
    "many heads": lambda n: b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\nContent-Description: \xc3\xbc\r\nX: \xc3\xa4\r\n\r\nx\r\n" * min(n // 43, 9990),
}


def costs(engine):
    bad = 0
    for name, make in GENERATORS.items():
        n = 2_000_000
        while n > 4000 and len(make(n)) < n * 0.9:  # those with a limit stay below it
            n //= 2
        n //= 2
        small, large = make(n), make(2 * n)
        for _ in range(6):  # a machine that does other work is slow now and quick then: a ratio that is too high is taken anew, of both
            pairs = [(engine.ask(1, small), engine.ask(1, large)) for _ in range(5)]
            cost = {n: min(a[1] for a, _ in pairs) or 1, 2 * n: min(b[1] for _, b in pairs) or 1}
            status, ratio = pairs[0][1][0] + pairs[0][1][2], cost[2 * n] / cost[n]
            if ratio < 2.5:
                break
        ok = ratio < 2.5 or cost[2 * n] < 2000
        bad += not ok
        print("%s cost of %s, %d octets and twice that: %d and %d us, ratio %.2f (%s)" % ("ok" if ok else "FAIL", name, n, cost[n], cost[2 * n], ratio, status))
    return bad


# -- the corpora

# Files in which Python reads other parts than we do (they are malformed), so that it cannot judge; by what is odd about them.
def python_sees_otherwise(raw):
    """Python ends a head at a line that is no field, and a multipart whose boundary it never meets is text to it."""
    for part in email.message_from_bytes(raw).walk():
        if part.defects:
            return type(part.defects[0]).__name__
    return None


def check(engine, name, raw, tally):
    how, _, _, text, out = engine.ask(8, raw)
    if how == "+":
        print("FAIL %s: not put together as it was" % name)
        return 1
    tally["identity" if how == "=" else "beyond a limit"] += 1
    raw = crlf(raw)
    bad = 0
    for lacks, what in LACKS.items():
        how, _, status, text, out = engine.ask(lacks, raw)
        tally[{"=": "as it was", "!": "refused", "+": "changed"}[how]] += 1
        if how == "!" and (not re.fullmatch(r"5\.6\.[037]", status) or not text):
            print("FAIL %s without %s: refused with %s %r" % (name, what, status, text))
            bad += 1
        if how != "+":
            continue
        head, _, body = out.partition(b"\r\n\r\n")
        fault = None
        if lacks & 1 and not out.isascii() or lacks & 4 and not head.isascii():
            fault = "octets above 127 are left"
        elif lacks & 3 and max(map(len, out.split(b"\r\n"))) > 998 and b"multipart/signed" not in raw.lower() and b"message/" not in raw.lower():
            fault = "a line above 998 octets is left"
        elif engine.ask(lacks, out)[0] != "=":
            fault = "changed again the second time"
        else:
            fault = differences(raw, out)
            odd = fault and python_sees_otherwise(raw)
            if odd:
                tally["not judged by Python: " + odd] += 1
                fault = None
        if fault:
            print("FAIL %s without %s: %s" % (name, what, fault))
            bad += 1
    return bad


class Tally(dict):
    def __missing__(self, key):
        return 0

    def __str__(self):
        return ", ".join("%d %s" % (n, k) for k, n in sorted(self.items()))


def main():
    engine = Engine(sys.argv[1])
    folder = os.environ.get("PEPSI_VECTORS") or (sys.argv[2] if len(sys.argv) > 2 else "")
    bad, tally = 0, Tally()
    files = sorted(f for x in ("eml", "msg", "txt", "mbox", "lorien") for f in glob.glob(os.path.join(folder, "**", "*." + x), recursive=True))
    if not files:
        print("skipped: no corpora in %s (set PEPSI_VECTORS to the folder of the public vectors); generated messages only" % (folder or "no folder"))
    for f in files:
        with open(f, "rb") as h:
            bad += check(engine, os.path.relpath(f, folder), h.read(), tally)
    print("%d files of the corpora: %s" % (len(files), tally))
    seed, tally = int(os.environ.get("PEPSI_SEED", "1")), Tally()
    count = int(os.environ.get("PEPSI_COUNT", "400"))
    for i in range(count):
        bad += check(engine, "generated %d.%d" % (seed, i), message(random.Random("%d.%d" % (seed, i))), tally)
    print("%d generated messages: %s" % (count, tally))
    bad += costs(engine)
    print("%d failed" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
