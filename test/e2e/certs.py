"""Certificates for the end-to-end tests: an authority of their own, made with the openssl program. A module; no test by itself."""
import os
import ssl
import subprocess

import pepsi

EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def run(*args, **kw):
    r = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, **kw)
    pepsi.check(r.returncode == 0, "%s: %s" % (" ".join(args), r.stdout.decode(errors="replace")))
    return r.stdout


class Authority:
    """A certificate authority of the test's own."""

    def __init__(self, t, name="ca"):
        self.openssl = pepsi.need("openssl")
        self.dir = os.path.join(t.dir, "%s%d" % (name, t.next_number()))
        os.mkdir(self.dir, 0o755)
        self.cert, self.key = self.path("ca.pem"), self.path("ca.key")
        run(self.openssl, "req", "-x509", "-newkey", *EC, "-nodes", "-days", "30", "-subj", "/CN=test authority",
            "-keyout", self.key, "-out", self.cert)

    def path(self, name):
        return os.path.join(self.dir, name)

    def issue(self, name, san, days=30, file=None, use="serverAuth"):
        """(certificate chain, key) in two files, the key for its owner only."""
        cert, key, csr = self.path((file or name) + ".pem"), self.path((file or name) + ".key"), self.path("csr")
        run(self.openssl, "req", "-newkey", *EC, "-nodes", "-subj", "/CN=" + name, "-keyout", key + ".new", "-out", csr)
        with open(self.path("ext"), "w") as f:
            f.write("subjectAltName=%s\nextendedKeyUsage=%s\nbasicConstraints=CA:FALSE\n" % (san, use))
        run(self.openssl, "x509", "-req", "-in", csr, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial", "-days", str(days), "-extfile",
            self.path("ext"), "-out", cert + ".new")
        os.chmod(key + ".new", 0o600)
        os.rename(key + ".new", key)
        os.rename(cert + ".new", cert)
        return cert, key

    def context(self, version=None, identity=None):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.load_verify_locations(self.cert)
        if version:
            c.minimum_version = c.maximum_version = version
        if identity:
            c.load_cert_chain(*identity)
        return c
