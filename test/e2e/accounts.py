"""Which account each process runs under. As root with the accounts of contrib/accounts: reactor, stages and the private
cluster each under theirs, nothing but the spawner as root. Without root: one account, and one line that says so."""
import os
import pwd
import shutil
import subprocess

import pepsi


def own_etc():
    """A private copy of /etc, so that contrib/accounts can make its accounts without leaving them on the machine."""
    if not pepsi.private_mounts():
        raise pepsi.Skip("needs root and a private mount namespace")
    if not shutil.which("useradd", path="/usr/sbin:/usr/bin"):
        raise pepsi.Skip("useradd is not installed")


def separate_accounts(t):
    own_etc()
    copy = os.path.join(t.dir, "etc")
    subprocess.run(["cp", "-a", "/etc", copy], check=True)
    subprocess.run(["mount", "--bind", copy, "/etc"], check=True)
    try:
        script = os.path.join(pepsi.SOURCE, "contrib", "accounts")
        for n in (1, 2):
            r = subprocess.run(["sh", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            pepsi.check(r.returncode == 0, "contrib/accounts: %s" % r.stdout.decode())
        pepsi.check(not r.stdout, "contrib/accounts is not idempotent: %s" % r.stdout.decode())
        uid = {n: pwd.getpwnam(n).pw_uid for n in ("pepsi", "pepsi-reactor", "pepsi-config")}
        d = pepsi.Pepsid(t, "", start=False, first_start=True)
        d.write_config(pepsi.maildir("init", d.mail) + pepsi.bounce())
        d.start()
        d.accept("sender@example.test", "alice@example.test", pepsi.message("one"))
        pepsi.wait_for("the message in the Maildir", lambda: d.maildir("alice@example.test"), 10)
        new = os.path.join(d.mail, "example.test", "alice", "new")
        pepsi.check(os.stat(os.path.join(new, os.listdir(new)[0])).st_uid == uid["pepsi"], "the mail belongs to another account")
        pepsi.check(pepsi.proc_status_uid(d.spawner_pid()) == 0, "the spawner is not root")
        pepsi.check(pepsi.proc_status_uid(d.reactor_pid()) == uid["pepsi-reactor"], "the reactor runs as %d" % pepsi.proc_status_uid(d.reactor_pid()))
        workers = d.worker_pids("init")
        pepsi.check(workers, "no worker of [stage-init] found")
        for p in workers:
            pepsi.check(pepsi.proc_status_uid(p) == uid["pepsi"], "a worker runs as %d" % pepsi.proc_status_uid(p))
        for p in d.postgres_pids():
            pepsi.check(pepsi.proc_status_uid(p) == uid["pepsi"], "postgres runs as %d" % pepsi.proc_status_uid(p))
        for p in pepsi.proc_tree(d.spawner_pid()):
            pepsi.check(pepsi.proc_status_uid(p) != 0, "runs as root: %s" % pepsi.proc_cmdline(p))
            with open("/proc/%d/status" % p) as f:
                status = f.read()
            pepsi.check("CapEff:\t0000000000000000" in status, "keeps capabilities: %s" % pepsi.proc_cmdline(p))
        d.stop()
    finally:
        t.finish()
        subprocess.run(["umount", "-l", "/etc"])


def one_account(t):
    """The whole thing as an ordinary user."""
    if pepsi.ROOT and not shutil.which("setpriv"):
        raise pepsi.Skip("needs setpriv")
    uid = os.geteuid()
    d = pepsi.Pepsid(t, "", start=False, first_start=True)
    d.write_config(pepsi.maildir("init", d.mail) + pepsi.bounce())
    command = [os.path.join(pepsi.BIN, "pepsid"), "-c", d.config, "--state", d.state]
    if pepsi.ROOT:
        # an account with a name: PostgreSQL wants one
        who = pwd.getpwnam("nobody")
        uid = who.pw_uid
        for f in (d.dir, d.state, d.mail):
            os.chown(f, who.pw_uid, who.pw_gid)
        command = ["setpriv", "--reuid", str(who.pw_uid), "--regid", str(who.pw_gid), "--clear-groups"] + command
    with open(d.log, "ab") as log:
        d.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **t.environment), preexec_fn=pepsi.die_with_me)
    d.wait_ready()
    d.accept("sender@example.test", "alice@example.test", pepsi.message("one"))
    pepsi.wait_for("the message in the Maildir", lambda: d.maildir("alice@example.test"), 10)
    for p in [d.spawner_pid()] + pepsi.proc_tree(d.spawner_pid()):
        pepsi.check(pepsi.proc_status_uid(p) == uid, "runs as %d: %s" % (pepsi.proc_status_uid(p), pepsi.proc_cmdline(p)))
    with open(d.log) as f:
        said = [l for l in f if "root" in l]
    pepsi.check(len(said) == 1, "lines that tell of one account: %s" % said)
    d.stop()


def of_another_account(t):
    """A private database that belongs to somebody else, as after contrib/accounts: an error that says what to do."""
    if not pepsi.ROOT:
        raise pepsi.Skip("needs root")
    d = pepsi.Pepsid(t, "", start=False, first_start=True)
    d.write_config(pepsi.maildir("init", d.mail) + pepsi.bounce())
    theirs = os.path.join(d.state, "postgres")
    os.mkdir(theirs, 0o700)
    os.chown(theirs, 54321, 54321)
    r = subprocess.run([os.path.join(pepsi.BIN, "pepsid"), "-c", d.config, "--state", d.state], stdin=subprocess.DEVNULL, timeout=60,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, **t.environment))
    said = r.stdout.decode(errors="replace")
    pepsi.check(r.returncode == 1, "exit %d: %s" % (r.returncode, said))
    pepsi.check("it belongs to uid 54321, not to " in said and theirs in said and "chown -R" in said, said)


pepsi.own_mounts(__file__)
pepsi.main(__file__, [separate_accounts, one_account, of_another_account])
