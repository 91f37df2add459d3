"""libopendkim by its shared library, for tests that compare with it: its verdict on a message, and its signature. Test code."""
import ctypes
import ctypes.util
import os

# of its dkim.h
SETOPT, QUERYMETHOD, QUERYINFO, FIXEDTIME, QUERY_FILE = 1, 6, 7, 8, 1
CANON = {"simple": 0, "relaxed": 1}
RSA_SHA256 = 1


class OpenDkim:
    """keys: {name: record} for verdicts. .lib is None where there is no libopendkim. now: what it takes for the time when it signs."""

    def __init__(self, keys, folder, now=None):
        path = ctypes.util.find_library("opendkim")
        self.lib = None
        if not path:
            return
        c = self.c = ctypes.CDLL(path)
        for f in ("dkim_init", "dkim_verify", "dkim_sign"):
            getattr(c, f).restype = ctypes.c_void_p
        c.dkim_verify.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        c.dkim_sign.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p] + [ctypes.c_char_p] * 3 + [ctypes.c_int] * 3 + \
            [ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_int)]
        c.dkim_getsighdr.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t]
        c.dkim_options.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
        for f in ("dkim_header", "dkim_body"):
            getattr(c, f).argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        c.dkim_eoh.argtypes = c.dkim_free.argtypes = [ctypes.c_void_p]
        c.dkim_eom.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.lib = ctypes.c_void_p(c.dkim_init(None, None))
        if now is not None:
            self.option(FIXEDTIME, ctypes.c_uint64(now))
        file = os.path.join(folder, "keys").encode()
        with open(file, "w") as f:
            f.writelines(f"{n} {v}\n" for n, v in keys.items())
        self.option(QUERYMETHOD, ctypes.c_int(QUERY_FILE))
        if c.dkim_options(self.lib, SETOPT, QUERYINFO, file, len(file)):
            raise SystemExit("libopendkim takes no keys from a file")

    def option(self, which, value):
        if self.c.dkim_options(self.lib, SETOPT, which, ctypes.byref(value), ctypes.sizeof(value)):
            raise SystemExit(f"libopendkim knows no option {which}")

    def run(self, d, message):
        c = self.c
        head, _, body = message.partition(b"\r\n\r\n")
        field = b""
        for line in head.split(b"\r\n") + [b"end"]:
            if field and line[:1] not in (b" ", b"\t"):
                c.dkim_header(d, field, len(field))
                field = line
            else:
                field += (b"\r\n" if field else b"") + line
        ok = c.dkim_eoh(d) == 0
        if ok and body:
            ok = c.dkim_body(d, body, len(body)) == 0
        return ok and c.dkim_eom(d, None) == 0

    def verdict(self, message):
        d = ctypes.c_void_p(self.c.dkim_verify(self.lib, b"test", None, ctypes.byref(ctypes.c_int())))
        ok = self.run(d, message)
        self.c.dkim_free(d)
        return "pass" if ok else "other"

    def sign(self, message, domain, selector, key, canon):
        """A DKIM-Signature field with its CRLF; None: it would not. key: in PEM."""
        d = ctypes.c_void_p(self.c.dkim_sign(self.lib, b"test", None, key, selector.encode(), domain.encode(), CANON[canon[0]], CANON[canon[1]], RSA_SHA256, -1,
                                             ctypes.byref(ctypes.c_int())))
        out = ctypes.create_string_buffer(8192)
        ok = self.run(d, message) and self.c.dkim_getsighdr(d, out, len(out), 16) == 0
        self.c.dkim_free(d)
        return b"DKIM-Signature: " + out.value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") + b"\r\n" if ok else None
