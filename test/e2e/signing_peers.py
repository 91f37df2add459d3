"""What we sign and seal, before the judges of other makers: rspamd as it runs in front of many mail servers, Mail::DKIM as SpamAssassin has it, and opendkim's own
daemon in its test mode. Each is optional: without it the test says so and skips. dkimpy and libopendkim judge in signing.py and arc.py."""
import base64
import json
import os
import re
import subprocess
import sys

import arc
import authority
import pepsi
import signing

VECTORS = os.path.join(pepsi.SOURCE, "test", "vectors")
sys.path.append(VECTORS)
import mail_rspamd  # noqa: E402: lies beside the other judges

CASES = {
    "plain": {}, "spaces": {"body": b"a  b \t\r\n \r\n\r\n\r\n"}, "empty": {"body": b""}, "eightbit": {"body": "grüße\r\n".encode()}, "long": {"body": b"line of text\r\n" * 20000},
    "dots": {"body": b".\r\n..\r\n.x\r\n"},
    "parts": {"body": b"--b\r\n\r\ntext\r\n--b--\r\n", "more": b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n\tboundary=b\r\n"},
    "many": {"more": b"Cc: c@far.test\r\nReply-To: r@far.test\r\nList-Unsubscribe: <https://x.test/u>\r\nSender: s@example.test\r\nReferences: <a@b>\r\n <c@d>\r\n"},
}


def signed(t):
    """[(name, message)] with two signatures each, the records, and a server that tells them."""
    keys = signing.Keys(t)
    keys.make("example.test", "r")
    keys.make("example.test", "e", "ed25519")
    server = authority.start(t, {"test": "".join("%s IN TXT %s\n" % (n[:-len(".test")], authority.strings(v)) for n, v in keys.records.items())})
    d, sink = signing.daemon(t, keys)
    for name, how in CASES.items():
        d.accept("a@example.test", "b@far.test", signing.mail(name, **how))
    out = [(name, signing.received(sink, name).data) for name in CASES]
    d.stop()
    for name, data in out:
        pepsi.check(len(arc.fields(data, b"dkim-signature")) == 2, "%s was not signed twice" % name)
    return out, keys.records, server


def sealed(t):
    """[(name, message)] with chains of two, of four, and one that is closed."""
    lab = arc.Lab(t)
    out = [("two", lab.through("two", lab.mail("two"))), ("long", lab.through("long", lab.mail("long", b"line of text\r\n" * 5000)))]
    out.append(("four", lab.through("two", out[0][1], ip="192.0.2.77")))
    broken = out[0][1].replace(b"\r\n\r\nhello\r\n", b"\r\n\r\nhello, buy this\r\n").replace(b"ann@author.test>\r\nTo", b"ann@nobody.test>\r\nTo")
    out.append(("closed", lab.through("two", broken)))
    lab.stop()
    return out, lab.records, lab.server


def symbols(answer):
    return {n: s.get("options", []) for n, s in answer["symbols"].items()}


def with_rspamd(t):
    if not mail_rspamd.Rspamd.program():
        raise pepsi.Skip("rspamd is not installed")
    for make in (signed, sealed):
        messages, records, server = make(t)
        folder = os.path.join(t.dir, make.__name__)
        os.mkdir(folder)
        r = mail_rspamd.Rspamd(folder, int(server.rsplit(":", 1)[1]), os.path.join(folder, "none"))
        t.cleanup(r.close)
        for name, data in messages:
            found = symbols(r.ask(data, "192.0.2.99", "client.test", "x@elsewhere.test"))
            if make is signed:
                good = sorted(o for o in found.get("R_DKIM_ALLOW", []))
                pepsi.check(good == ["example.test:s=e", "example.test:s=r"] and not any(n.startswith("R_DKIM") and n not in ("R_DKIM_ALLOW", "R_DKIM_NA") for n in found),
                            "%s: rspamd says %s" % (name, found))
            else:
                want = "ARC_REJECT" if name == "closed" else "ARC_ALLOW"
                pepsi.check(want in found and not {"ARC_REJECT", "ARC_ALLOW", "ARC_INVALID", "ARC_DNSFAIL", "ARC_NA"} - {want} & set(found), "%s: rspamd says %s" % (name, found))
        # it does look: one octet changed, and it says so
        name, data = messages[0]
        found = symbols(r.ask(data.replace(b"hello", b"hollo") if b"hello" in data else data + b"x\r\n", "192.0.2.99", "client.test", "x@elsewhere.test"))
        pepsi.check("R_DKIM_REJECT" in found if make is signed else "ARC_REJECT" in found or "ARC_INVALID" in found, "a changed message: rspamd says %s" % found)


def with_mail_dkim(t):
    perl = pepsi.need("perl")
    if subprocess.run([perl, "-MMail::DKIM::Verifier", "-MMail::DKIM::ARC::Verifier", "-MJSON::PP", "-MNet::DNS", "-e", "1"], capture_output=True).returncode:
        raise pepsi.Skip("Mail::DKIM is not installed (libmail-dkim-perl)")
    messages, records, _ = signed(t)
    chains, more, _ = sealed(t)
    zone = {n: {"TXT": [[v[i:i + 255] for i in range(0, len(v), 255)]]} for n, v in dict(records, **more).items()}
    lines = [json.dumps({"zone": zone, "apex": ["test"]})] + [json.dumps({"op": "verify", "message": base64.b64encode(d).decode()}) for _, d in messages + chains]
    out = subprocess.run([perl, os.path.join(VECTORS, "mail_dkim.pl")], input="\n".join(lines).encode() + b"\n", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300,
                         check=True).stdout.decode().splitlines()
    answers = [json.loads(l) for l in out][-len(messages + chains):]
    for (name, _), a in zip(messages, answers):
        said = {s: (result, detail) for _, s, result, detail in a["dkim"]}
        pepsi.check(said["r"][0] == "pass" and len(said) == 2, "%s: Mail::DKIM says %s" % (name, a))
        # before 1.20240619 it knows no Ed25519
        pepsi.check(said["e"][0] == "pass" or "unsupported algorithm" in said["e"][1] or said["e"][0] == "invalid", "%s: Mail::DKIM says %s" % (name, a))
    for (name, _), a in zip(chains, answers[len(messages):]):
        pepsi.check(a["arc"] == ("fail" if name == "closed" else "pass"), "%s: Mail::DKIM says %s" % (name, a))


def with_opendkim(t):
    """The daemon itself, reading a message instead of a milter's session."""
    program = pepsi.need("opendkim")
    messages, records, _ = signed(t)
    keys, conf = os.path.join(t.dir, "keys.txt"), os.path.join(t.dir, "opendkim.conf")
    with open(keys, "w") as f:
        f.write("".join("%s %s\n" % r for r in records.items()))
    with open(conf, "w") as f:
        f.write("Mode v\nTestPublicKeys %s\nAlwaysAddARHeader yes\nAuthservID judge.test\nUserID %d\n" % (keys, os.getuid()))

    def judge(data):
        path = os.path.join(t.dir, "judged.eml")
        with open(path, "wb") as f:
            f.write(data)
        r = subprocess.run([program, "-x", conf, "-t", path, "-v", "-v"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return r.returncode, r.stdout.decode(errors="replace")
    for name, data in messages:
        code, text = judge(data)
        pepsi.check(code == 0 and re.search(r"dkim=pass", text) and "fail" not in text, "%s: opendkim says (%d) %s" % (name, code, text))
    code, text = judge(messages[0][1].replace(b"hello", b"hollo"))
    pepsi.check("dkim=pass" not in text, "a changed message: opendkim says (%d) %s" % (code, text))


if __name__ == "__main__":
    pepsi.main(__file__, [with_rspamd, with_mail_dkim, with_opendkim])
