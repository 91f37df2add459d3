"""Keys that are the same for the same seed, and a DKIM signer written by hand for what no signing tool would sign: every tag can be
given, left out, or be wrong. Standard library, and PyNaCl for Ed25519. Slow and plain on purpose: it is a second reading of RFC 6376
section 3.4, not a copy of any other. Test code; signs nothing but generated mail."""
import base64
import hashlib
import math
import os
import re

import nacl.signing

SMALL = [p for p in range(3, 4000, 2) if all(p % d for d in range(3, int(p ** .5) + 1, 2))]
# DigestInfo in front of the hash (RFC 8017, 9.2)
PREFIX = {"sha256": bytes.fromhex("3031300d060960864801650304020105000420"), "sha1": bytes.fromhex("3021300906052b0e03021a05000414")}
E = 65537


def prime(r, bits):
    while True:
        n = r.getrandbits(bits) | 3 << bits - 2 | 1
        if n % E != 1 and all(n % p for p in SMALL) and all(pow(a, n - 1, n) == 1 for a in (2, 3, 5)):
            return n


def der(tag, content):
    n = len(content)
    size = bytes([n]) if n < 128 else bytes([128 + (n.bit_length() + 7) // 8]) + n.to_bytes((n.bit_length() + 7) // 8, "big")
    return bytes([tag]) + size + content


def integer(n):
    return der(2, n.to_bytes(n.bit_length() // 8 + 1, "big"))


class Rsa:
    kind = "rsa"

    def __init__(self, r, bits, folder=None):
        p, q = prime(r, bits // 2), prime(r, bits // 2)
        self.bits, self.n = bits, p * q
        self.d = pow(E, -1, math.lcm(p - 1, q - 1))
        private = der(0x30, b"".join(map(integer, (0, self.n, E, self.d, p, q, self.d % (p - 1), self.d % (q - 1), pow(q, -1, p)))))
        self.pem = b"-----BEGIN RSA PRIVATE KEY-----\n" + base64.encodebytes(private) + b"-----END RSA PRIVATE KEY-----\n"
        # SubjectPublicKeyInfo
        key = der(0x30, integer(self.n) + integer(E))
        self.public = base64.b64encode(der(0x30, bytes.fromhex("300d06092a864886f70d0101010500") + der(3, b"\0" + key))).decode()
        self.path = None
        if folder:
            self.path = os.path.join(folder, "rsa%d.pem" % bits)
            with open(self.path, "wb") as f:
                f.write(self.pem)

    def sign(self, data, digest):
        size = self.n.bit_length() // 8
        t = PREFIX[digest] + hashlib.new(digest, data).digest()
        return pow(int.from_bytes(b"\0\1" + b"\xff" * (size - len(t) - 3) + b"\0" + t, "big"), self.d, self.n).to_bytes(size, "big")


class Ed25519:
    kind, bits, path = "ed25519", 256, None

    def __init__(self, r):
        self.key = nacl.signing.SigningKey(r.getrandbits(256).to_bytes(32, "big"))
        self.pem = base64.b64encode(bytes(self.key))
        self.public = base64.b64encode(bytes(self.key.verify_key)).decode()

    def sign(self, data, digest):
        return self.key.sign(hashlib.new(digest, data).digest()).signature  # RFC 8463, 3


# -- canonicalisation

def fields_of(head):
    out = []
    for line in head.split(b"\r\n"):
        if out and line[:1] in (b" ", b"\t"):
            out[-1] += b"\r\n" + line
        else:
            out.append(line)
    return out


def canon_field(field, how):
    if how == "simple":
        return field
    name, _, value = field.partition(b":")
    value = re.sub(b"[ \t]+", b" ", value.replace(b"\r\n", b"")).strip(b" ")
    return name.lower().rstrip(b" \t") + b":" + value


def canon_body(body, how):
    if body and not body.endswith(b"\r\n"):
        body += b"\r\n"
    if how == "relaxed":
        body = b"\r\n".join(re.sub(b"[ \t]+", b" ", line).rstrip(b" ") for line in body.split(b"\r\n"))
    while body.endswith(b"\r\n\r\n"):
        body = body[:-2]
    if body == b"\r\n":
        body = b""
    return body if body or how == "relaxed" else b"\r\n"


def chosen(fields, names):
    """From the bottom up, each field once; a name without a field left stands for nothing (5.4.2)."""
    left, out = list(fields), []
    for name in names:
        for i in range(len(left) - 1, -1, -1):
            if left[i].partition(b":")[0].strip(b" \t").lower() == name.lower().encode():
                out.append(left.pop(i))
                break
    return out


def sign(message, key, domain, selector, names, c=("relaxed", "relaxed"), a=None, length=None, tags=(), order=None, fold=70, drop=(), c_text=None):
    """A DKIM-Signature field with its CRLF. length: octets of the canonical body for l=. tags: [(name, value)] more, or others than
    we would write. order: a random.Random that shuffles tags. drop: names of tags left out."""
    head, _, body = message.partition(b"\r\n\r\n")
    a = a or ("ed25519-sha256" if key.kind == "ed25519" else "rsa-sha256")
    digest = a.split("-")[1]
    text = canon_body(body, c[1])
    if length is not None:
        text = text[:length]
    have = dict(tags)
    out = [("v", "1"), ("a", a), ("c", c_text or "/".join(c)), ("d", domain), ("s", selector), ("h", ":".join(names)),
           ("bh", base64.b64encode(hashlib.new(digest, text).digest()).decode())]
    if length is not None:
        out.append(("l", str(length)))
    out = [(n, have.pop(n, v)) for n, v in out] + list(have.items())
    out = [(n, v) for n, v in out if n not in drop]
    if order:
        order.shuffle(out)
    field = b"DKIM-Signature: "
    at = len(field)
    for n, v in out:
        piece = (n + "=" + v + ";").encode("latin-1")
        if at + len(piece) > fold:
            field, at = field + b"\r\n\t", 8
        field += piece + b" "
        at += len(piece) + 1
    field = field + b"\r\n\tb="
    data = b"".join(canon_field(f, c[0]) + b"\r\n" for f in chosen(fields_of(head), names)) + canon_field(field, c[0])
    b = base64.b64encode(key.sign(data, digest))
    return field + b"\r\n\t ".join(b[i:i + 70] for i in range(0, len(b), 70)) + b"\r\n"
