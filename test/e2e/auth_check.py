"""pepsi auth-check: what it says of a stored message is what the listener said when the message came, by the same names of nsd; beside that
the envelope it takes from our own fields, what it takes off, its exit status, and what it says when it cannot know."""
import json
import os
import re
import subprocess

import pepsi
import signer
from authentication import PSL, World, mail, nsd, results


def stored(w, number):
    """The file a message was delivered to."""
    where = os.path.join(w.d.mail, "example.test", "bob", "new")
    for name in os.listdir(where):
        path = os.path.join(where, name)
        with open(path, "rb") as f:
            if b"id %s" % number.encode() in f.read().replace(b"\n\t", b" "):
                return path
    raise pepsi.Failed("message %s was not delivered" % number)


def put(t, name, octets):
    path = os.path.join(t.dir, name)
    with open(path, "wb") as f:
        f.write(octets)
    return path


def check(w, *args, want=0, **kw):
    code, out, err = w.d.cli("auth-check", *args, **kw)
    pepsi.check(code == want, "auth-check %s: exit %d, not %d: %s%s" % (" ".join(args), code, want, out, err))
    return out, err


def checked(w, *args, want=0, **kw):
    return json.loads(check(w, "--json", *args, want=want, **kw)[0])


def has(out, *words):
    for word in words:
        pepsi.check(word in out, "no %r in\n%s" % (word, out))


def what_was_delivered(t, w, signed):
    """A file of the mailbox, without a word about who sent it."""
    got, state, _ = w.sent(signed, "ann@pass.test")
    number = re.search(rb"\sid (\d+)", got).group(1).decode()
    path = stored(w, number)
    o = checked(w, path)
    pepsi.check(o["auth"] == state["auth"], "not what the listener found: %s, %s" % (o["auth"], state["auth"]))
    field = o["authentication_results"].replace("\r\n\t", " ").partition(":")[2].strip()
    pepsi.check([field] == results(got), "%s, not %s" % (field, results(got)))
    c = o["client"]
    pepsi.check((c["ip"], c["helo"], c["mail_from"]) == ("192.0.2.9", "client.test", "ann@pass.test"), c)
    pepsi.check((c["ip_from"], c["helo_from"], c["mail_from_from"]) == ("Received", "Received", "Return-Path"), c)
    pepsi.check(o["message"]["fields_taken_off"] == 4 and not o["message"]["line_ends_changed"], o["message"])
    pepsi.check(o["decision"] == {"action": "accept"} and o["listener"]["name"] == "mx" and o["queries"] > 3, o)
    out, _ = check(w, path)
    has(out, "result    accepted", "[192.0.2.9] (Received), HELO client.test (Received), MAIL FROM <ann@pass.test> (Return-Path)",
        "SPF of MAIL FROM pass.test: pass", "DNS   pass.test TXT: \"v=spf1 ip4:192.0.2.0/24", "pass.test: ip4:192.0.2.0/24 matches", "0 of 10 terms",
        "DKIM signature 1 of d=pass.test s=s: pass", "rsa-sha256, ", "key of 2048 bits", "DNS   s._domainkey.pass.test TXT: \"v=DKIM1",
        "signs the fields from", "the signature of the header fields holds, the body hash holds", "aligned with the author's domain",
        "DMARC of pass.test: pass", "_dmarc.pass.test TXT: \"v=DMARC1; p=reject", "tree walk: looked at _dmarc.pass.test", "alignment asked for: DKIM relaxed",
        "Authentication-Results: mx.example.test;")
    # as it is, our own fields are part of it: they are not signed, so that it says the same; another server's name makes them another's
    pepsi.check(checked(w, path, "--as-is")["message"]["fields_taken_off"] == 0, "--as-is")
    other = put(t, "other.conf", open(w.d.config, "rb").read().replace(b"mx.example.test", b"mx.other.test"))
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", other, "auth-check", path], capture_output=True, text=True, timeout=60 * pepsi.PATIENCE)
    pepsi.check(r.returncode == 2 and "no Received field of mx.other.test" in r.stderr, "%d %s" % (r.returncode, r.stderr))
    # kept with the line ends of Unix, it is checked as it was sent
    with open(path, "rb") as f:
        unix = f.read().replace(b"\r\n", b"\n")
    o = checked(w, put(t, "unix", unix))
    pepsi.check(o["message"]["line_ends_changed"] == unix.count(b"\n") and o["auth"] == state["auth"], o)
    # one changed octet in the body, by standard input
    with open(path, "rb") as f:
        changed = f.read().replace(b"world", b"World")
    out, _ = check(w, "-", stdin=changed)
    has(out, "standard input", "does not hold", "the body hash does not hold", "only the body was changed", "=> fail: the body is not what was signed")
    return path


def what_was_refused(t, w, signed):
    """The customer's copy: the reply is that of the listener, word for word, and so is the exit status."""
    for n, (data, sender, ip, helo, listener) in enumerate((
            (mail(), "a@open.test", "198.51.100.7", "nobody.test", "enforce"),
            (mail("a@open.test"), "a@pass.test", "198.51.100.7", "nobody.test", "enforce"),
            (mail("a@open.test"), "a@strict.test", "198.51.100.7", "nobody.test", "enforce"),
            (signed + b"x\r\n", "a@open.test", "198.51.100.7", "nobody.test", "enforce"),
            (signer.sign(t, mail("a@open.test"), [("dkim", "pass.test", "s", "rsa2048")]) + b"x\r\n", "a@open.test", "192.0.2.9", "client.test", "enforce"),
            (mail("a@none.test>, <b@pass.test"), "a@open.test", "198.51.100.7", "nobody.test", "enforce"))):
        code, text = w.send(data, sender, listener, ip, helo)
        path = put(t, "refused-%d" % n, data)
        o = checked(w, path, "--ip", ip, "--helo", helo, "--from", sender, "--listener", listener, want=3)
        d = o["decision"]
        pepsi.check(d["action"] == "refuse" and "%s %s" % (d["status"], d["text"]) == text and d["code"] == code, "%s, the client was told %d %s" % (d, code, text))
        out, _ = check(w, path, "--ip", ip, "--helo", helo, "--from", "<%s>" % sender, "--listener", listener, want=3)
        has(out, "refused: 550 " + text)
        check(w, path, "--ip", ip, "--helo", helo, "--from", sender, "--listener", "mx")  # which records only
    path = put(t, "suffixes", mail("a@www.org.test"))
    if PSL:
        for listener, want in (("enforce", 3), ("later", 0)):
            o = checked(w, path, "--ip", "192.0.2.9", "--helo", "client.test", "--from", "a@mail.org.test", "--listener", listener, want=want)
            pepsi.check(o["auth"]["dmarc"]["discovery"] == ("psl" if not want else "treewalk"), o)
    # quarantine, and an override by a listed sealer
    path = put(t, "quarantine", mail("a@quar.test"))
    o = checked(w, path, "--ip", "192.0.2.9", "--from", "a@open.test", "--listener", "listener-enforce", want=4)
    pepsi.check(o["decision"] == {"action": "quarantine", "method": "dmarc", "stage": "aside"}, o["decision"])
    path = put(t, "arc", signer.sign(t, mail(body="changed\r\n"), [("arc", "list.test", "l", "rsa2048", "dmarc=pass header.from=pass.test")]))
    out, _ = check(w, path, "--ip", "198.51.100.7", "--helo", "nobody.test", "--from", "list@open.test", "--listener", "enforce")
    has(out, "ARC: pass", "set 1: sealed by d=list.test", "overridden: a listed sealer vouches")
    # a listener that looks at nothing accepts, and what there is to see is shown all the same
    out, _ = check(w, path, "--ip", "198.51.100.7", "--from", "list@open.test", "--listener", "off")
    has(out, "does not authenticate mail of this client", "DMARC of pass.test: fail")


def what_is_queued(t, w, signed):
    """One that cannot be delivered: what stands in the way of its mailbox is a file."""
    with open(os.path.join(w.d.mail, "example.test", "stuck"), "w"):
        pass
    code, text = w.send(signed, "ann@pass.test", "later", rcpt="stuck@example.test")
    pepsi.check(code == 250, text)
    number = re.search(r"queued as (\d+)", text).group(1)
    pepsi.wait_for("message %s waits" % number, lambda: w.d.json("queue", "show", number).get("stage") == "maildir", 30)
    o = checked(w, "--id", number)
    pepsi.check(o["client"]["ip_from"] == "queue" and o["client"]["mail_from"] == "ann@pass.test" and o["listener"]["name"] == "later", o)
    pepsi.check(o["auth"]["dmarc"]["result"] == "pass" and o["message"]["fields_taken_off"] >= 2 and not o["message"]["line_ends_changed"], o)
    check(w, "--id", "999999", want=1)
    w.d.cli("queue", "delete", number)


def what_cannot_be(t, w, path):
    good = ("--ip", "192.0.2.9", "--from", "a@open.test")
    for args, want, word in (
            ((os.path.join(t.dir, "nowhere"),) + good, 1, "No such file"),
            ((t.dir,) + good, 1, "Is a directory"),
            ((put(t, "empty", b""),) + good, 1, "is empty"),
            ((path, "--ip", "192.0.2.999"), 2, "is no IP address"),
            ((path, "--listener", "nobody"), 2, "there is no listener"),
            ((path, "--server", "ns.example.test"), 2, "is no numeric ADDRESS"),
            ((path, "--id", "1"), 2, "one of them only"),
            ((), 2, "needs a FILE"),
            ((put(t, "plain", mail()),), 2, "--ip ADDRESS"),
            ((put(t, "plain", mail()), "--ip", "192.0.2.9"), 2, "--from ADDRESS")):
        has(check(w, *args, want=want)[1], word)
    # nobody answers: everything is said to be unknown, in time, with a status of its own
    out, _ = check(w, path, "--server", "127.0.0.1:%d" % pepsi.free_port(), want=5)
    has(out, "some look-ups failed", "SPF of MAIL FROM pass.test: temperror", "DMARC of pass.test: temperror", "the key could not be looked up")
    # what is no mail at all
    junk = put(t, "junk", bytes(range(256)) * 40)
    check(w, junk, *good)
    pepsi.check(checked(w, junk, *good)["auth"]["dkim"] == [{"result": "none"}], "junk")
    forged = put(t, "terminal", mail(more="X: \x1b]0;owned\x07\r\nDKIM-Signature: v=1; a=rsa-sha256; d=pass.test; s=s; h=from:\x1b[2J; bh=AA==; b=AA==\r\n"))
    out, _ = check(w, forged, "--ip", "192.0.2.9", "--helo", "\x1b[31m", "--from", "a\x1b[1m@open.test")
    pepsi.check("\x1b" not in out, "controls reach the terminal: %r" % out)


def main(t):
    servers = nsd(t)
    w = World(t, servers)
    signed = signer.sign(t, mail(), [("dkim", "pass.test", "s", "rsa2048")])
    path = what_was_delivered(t, w, signed)
    what_was_refused(t, w, signed)
    what_is_queued(t, w, signed)
    what_cannot_be(t, w, path)
    w.d.stop()
    # without a daemon, also where its own child would have resolved, and without a configuration
    check(w, path)
    with open(w.d.config, "rb") as f:
        conf = put(t, "child.conf", f.read().replace(b"[pepsi-dns]\n", b"[pepsi-dns]\nBACKEND = libunbound\n"))
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi"), "-c", conf, "auth-check", path], capture_output=True, text=True, timeout=60 * pepsi.PATIENCE)
    pepsi.check(r.returncode == 0 and "(BACKEND = libunbound) cannot be asked" in r.stderr, "%d %s%s" % (r.returncode, r.stdout, r.stderr))
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsi-auth-check"), put(t, "plain", signed), "--ip", "192.0.2.9", "--helo", "client.test", "--from", "<>", "--server", servers],
                       capture_output=True, text=True, timeout=60 * pepsi.PATIENCE, env={k: v for k, v in os.environ.items() if k != "PEPSI_CONFIG"})
    pepsi.check(r.returncode == 0 and "DKIM signature 1 of d=pass.test s=s: pass" in r.stdout, "%d %s%s" % (r.returncode, r.stdout, r.stderr))


pepsi.main(__file__, [main])
