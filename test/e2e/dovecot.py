"""A private Dovecot for the end-to-end tests: LMTP and IMAP with all it keeps in the test's folder. A module; no test by itself."""
import imaplib
import os
import pwd

import pepsi


class Dovecot:
    """LMTP on a unix socket and on a loopback port, there with STARTTLS where `pair` (certificate, key) is given; IMAP on loopback. Every
    user name is valid, the password is "pw"."""

    def __init__(self, t, pair=None):
        dovecot = pepsi.need("dovecot")
        if not os.path.exists("/usr/lib/dovecot/lmtp") or not os.path.exists("/usr/lib/dovecot/imap"):
            raise pepsi.Skip("dovecot-lmtpd or dovecot-imapd is not installed")
        self.imap, self.port = pepsi.free_port(), pepsi.free_port()
        self.dir = os.path.join(t.dir, "dovecot%d" % t.next_number())
        os.makedirs(os.path.join(self.dir, "mail"))
        user = pwd.getpwnam("nobody") if pepsi.ROOT else pwd.getpwuid(os.geteuid())
        os.chown(os.path.join(self.dir, "mail"), user.pw_uid, user.pw_gid)
        self.lmtp = os.path.join(self.dir, "lmtp.sock")
        own = "" if pepsi.ROOT else "default_internal_user = %s\ndefault_login_user = %s\n" % (user.pw_name, user.pw_name)
        ssl = "ssl = yes\nssl_cert = <%s\nssl_key = <%s" % pair if pair else "ssl = no"
        chroot = "" if pepsi.ROOT else "chroot =\n"
        with open(os.path.join(self.dir, "dovecot.conf"), "w") as f:
            f.write("""
base_dir = %(d)s/run
state_dir = %(d)s/state
log_path = %(d)s/log
protocols = imap lmtp
listen = 127.0.0.1
%(ssl)s
disable_plaintext_auth = no
auth_mechanisms = plain
first_valid_uid = 1
last_valid_uid = 0
first_valid_gid = 0
%(own)s
mail_location = maildir:~/Maildir
mail_max_userip_connections = 0
passdb {
  driver = static
  args = password=pw
}
userdb {
  driver = static
  args = uid=%(uid)d gid=%(gid)d home=%(d)s/mail/%%n allow_all_users=yes
}
service imap-login {
  %(chroot)s
  inet_listener imap {
    port = %(imap)d
  }
  inet_listener imaps {
    port = 0
  }
}
service anvil {
  %(chroot)s
}
service stats {
  %(chroot)s
  unix_listener stats-writer {
    mode = 0666
  }
}
service lmtp {
  unix_listener %(lmtp)s {
    mode = 0666
  }
  inet_listener lmtp {
    address = 127.0.0.1
    port = %(port)d
  }
}
""" % dict(d=self.dir, own=own, uid=user.pw_uid, gid=user.pw_gid, imap=self.imap, port=self.port, lmtp=self.lmtp, ssl=ssl, chroot=chroot))
        self.process = t.popen([dovecot, "-F", "-c", os.path.join(self.dir, "dovecot.conf")], os.path.join(self.dir, "out"))
        try:
            pepsi.wait_for("Dovecot's socket", lambda: os.path.exists(self.lmtp), 15)
        except pepsi.Failed:
            for n in ("out", "log"):
                p = os.path.join(self.dir, n)
                if os.path.exists(p):
                    pepsi.say(open(p, errors="replace").read()[-2000:])
            raise

    def fetch(self, user):
        c = imaplib.IMAP4("127.0.0.1", self.imap)
        try:
            c.login(user, "pw")
            c.select("INBOX")
            _, ids = c.search(None, "ALL")
            out = []
            for i in ids[0].split():
                _, parts = c.fetch(i.decode(), "(BODY.PEEK[])")
                out.append(parts[0][1])
            return out
        finally:
            try:
                c.logout()
            except (OSError, imaplib.IMAP4.error):
                pass
