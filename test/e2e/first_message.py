"""The quick start as a user meets it: a message sent with swaks lands in a Maildir within a second, octet for octet
what was sent below the trace headers; the embedded database and everything else needed no set-up."""
import subprocess
import time

import pepsi


def daemon(t, start=True):
    d = pepsi.Pepsid(t, "", start=False, first_start=True)
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "bounce") + pepsi.maildir("maildir", d.mail) + pepsi.bounce())
    if start:
        d.start()
    return d


def swaks_to_maildir(t):
    swaks = pepsi.need("swaks")
    d = daemon(t)
    text = "Date: Mon, 30 Nov 2026 12:00:00 +0000\nTo: alice@example.test\nFrom: bob@example.test\nSubject: first\n\nHello,\n.\n..two dots\nGr\u00fc\u00dfe\n"
    began = time.time()
    r = subprocess.run([swaks, "--server", "127.0.0.1:%d" % d.port, "--from", "bob@example.test", "--to", "alice@example.test", "--data", "-"],
                       input=text[:-1].encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    sent_at = time.time()
    pepsi.check(r.returncode == 0, "swaks failed: %s" % r.stdout.decode(errors="replace"))
    pepsi.check("queued as " in r.stdout.decode(errors="replace"), "the 250 names no queue id:\n%s" % r.stdout.decode(errors="replace"))
    mail = pepsi.wait_for("the message in the Maildir", lambda: d.maildir("alice@example.test"), 5, 0.01)
    took = time.time() - sent_at
    limit = pepsi.SLACK
    pepsi.check(took < limit, "it took %.2f s from swaks' end to the Maildir" % took)
    # swaks puts a line end behind the data
    problem = pepsi.below_trace(mail[0], pepsi.crlf(text.encode()))
    pepsi.check(problem is None, problem)
    pepsi.check(b"by mx.example.test" in mail[0].split(b"\r\n\r\n")[0], "no Received header of ours")
    pepsi.say("      dialogue %.0f ms, then %.0f ms to the Maildir" % ((sent_at - began) * 1000, took * 1000))
    d.wait_empty(5)
    d.stop()


def state_by_option(t):
    """pepsid -c FILE --state DIR, and then only pepsi -c FILE, where the file names no state folder."""
    d = daemon(t, start=False)
    with open(d.config) as f:
        text = f.read()
    with open(d.config, "w") as f:
        f.write("\n".join(l for l in text.splitlines() if not l.startswith("STATE_DIR")) + "\n")
    d.start()
    d.accept("bob@example.test", "alice@example.test", pepsi.message("s"))
    pepsi.wait_for("the message in the Maildir", lambda: d.maildir("alice@example.test"), 5)
    pepsi.check(d.status()["accepted"] == 1, "status")
    d.stop()


def refused_strangers(t):
    """Only local domains are accepted from those who may not relay, and the reply says so."""
    d = pepsi.Pepsid(t, "", start=False, first_start=True)
    d.write_config(pepsi.route("init", [("example.test", "maildir")], "bounce") + pepsi.maildir("maildir", d.mail) + pepsi.bounce(),
                   pepsi="RELAY_NETWORKS = 192.0.2.0/24\n")
    d.start()
    s = pepsi.Smtp(d.port)
    s.cmd("MAIL FROM:<a@elsewhere.test>")
    code, text = s.cmd("RCPT TO:<b@elsewhere.test>")
    pepsi.check(500 <= code < 600 and "5.7.1" in text, "relaying: %d %s" % (code, text))
    code, text = s.cmd("RCPT TO:<b@Example.TEST>")
    pepsi.check(code == 250, "local domain: %d %s" % (code, text))
    s.close()
    d.stop()


pepsi.main(__file__, [swaks_to_maildir, state_by_option, refused_strangers])
