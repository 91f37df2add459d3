"""Mail signed by dkimpy, another maker's implementation, for tests of authentication. Run by whichever python has it:

    sign(t, message, [("dkim", "example.test", "s", "rsa2048"), …])     signatures and ARC sets, the last one on top
    record(t, "rsa2048")                                                "v=DKIM1; …" of that key

Keys (rsa1024, rsa2048, rsa4096, ed25519) are made once in the test's folder."""
import base64
import json
import os
import subprocess
import sys

PYTHONS = ("/usr/bin/python3", sys.executable)
HEADERS = [b"from", b"to", b"subject", b"date", b"message-id"]


def python(module):
    import pepsi
    for p in PYTHONS:
        if os.path.exists(p) and subprocess.run([p, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode == 0:
            return p
    raise pepsi.Skip("no python has %s" % module)


def key_file(t, kind):
    import pepsi
    path = os.path.join(t.dir, "key-" + kind)
    if not os.path.exists(path):
        if kind == "ed25519":
            with open(path, "wb") as f:
                f.write(base64.b64encode(os.urandom(32)))
        else:
            subprocess.run([pepsi.need("openssl"), "genrsa", "-traditional", "-out", path, kind[3:]], check=True, stderr=subprocess.DEVNULL)
    return path


def record(t, kind):
    import pepsi
    path = key_file(t, kind)
    if kind == "ed25519":
        r = subprocess.run([python("nacl.signing"), "-c", "import nacl.signing, base64, sys; print(base64.b64encode(bytes(nacl.signing.SigningKey("
                            "base64.b64decode(open(sys.argv[1]).read())).verify_key)).decode())", path], stdout=subprocess.PIPE, check=True)
        return "v=DKIM1; k=ed25519; p=" + r.stdout.decode().strip()
    der = subprocess.run([pepsi.need("openssl"), "rsa", "-in", path, "-pubout", "-outform", "DER"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         check=True).stdout
    return "v=DKIM1; p=" + base64.b64encode(der).decode()


def sign(t, message, how):
    """how: ("dkim", domain, selector, key) or ("arc", domain, selector, key, what the sealer's Authentication-Results says; from the
    second set on that must have arc=pass, which becomes its cv=)"""
    jobs = [list(h[:3]) + [key_file(t, h[3]), h[3]] + list(h[4:]) for h in how]
    r = subprocess.run([python("dkim"), "-B", os.path.abspath(__file__)], stdout=subprocess.PIPE, check=True, timeout=120,
                       input=json.dumps([base64.b64encode(message).decode(), jobs]).encode())
    return base64.b64decode(r.stdout)


def main():
    import dkim
    text, jobs = json.load(sys.stdin)
    message = base64.b64decode(text)
    for kind, domain, selector, path, key, *more in jobs:
        with open(path, "rb") as f:
            secret = f.read()
        if kind == "dkim":
            d = dkim.DKIM(message, signature_algorithm=b"ed25519-sha256" if key == "ed25519" else b"rsa-sha256")
            message = d.sign(selector.encode(), domain.encode(), secret, canonicalize=(b"relaxed", b"relaxed"), include_headers=HEADERS) + message
        else:
            server = "mx." + domain
            a = dkim.ARC(b"Authentication-Results: %s; %s\r\n" % (server.encode(), more[0].encode()) + message)
            sets = a.sign(selector.encode(), domain.encode(), secret, server.encode(), include_headers=HEADERS)
            message = b"".join(sets) + message
    sys.stdout.write(base64.b64encode(message).decode())


if __name__ == "__main__":
    main()
