# Steps of the life of an installed Pepsi, run by chroot.sh inside a clean Debian system; $1 names the step. Uses what that
# system has once the packages are there, and bash. Each step ends what it started.
set -eu
conf=/etc/pepsi/pepsi.conf
log=/try/pepsid.log
pid=

fail() {
	printf 'FAIL %s\n' "$*"
	[ ! -s $log ] || { echo "--- the end of pepsid's log"; tail -20 $log; }
	exit 1
}
ok() { printf 'ok   %s\n' "$*"; }
apt() { apt-get -q -o Dpkg::Use-Pty=0 -y "$@" >/try/apt.log 2>&1 || { tail -30 /try/apt.log; fail "apt-get $*"; }; }
installed() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ] || fail "$1 is not in the state ii"; }

start() { # as root, with the configuration of the package, until it accepts mail
	pepsid >>$log 2>&1 &
	pid=$!
	pepsi status --wait 60 >/dev/null || fail "pepsid does not accept mail"
}
stop() {
	pepsi stop --wait 60 >/dev/null || fail "pepsi stop"
	wait $pid || fail "pepsid ended with status $?"
}
expect() { # expect CODE: one reply of the server on descriptor 3
	local line
	while IFS= read -r -t 30 line <&3; do
		case $line in
		"$1-"*) ;;
		"$1 "*) return 0 ;;
		*) fail "the server says $line, not $1" ;;
		esac
	done
	fail "no reply $1"
}
mail() { # mail FROM TO SUBJECT: the smallest SMTP client
	exec 3<>/dev/tcp/127.0.0.1/2525
	expect 220
	printf 'EHLO client.test\r\n' >&3 && expect 250
	printf 'MAIL FROM:<%s>\r\n' "$1" >&3 && expect 250
	printf 'RCPT TO:<%s>\r\n' "$2" >&3 && expect 250
	printf 'DATA\r\n' >&3 && expect 354
	printf 'From: <%s>\r\nTo: <%s>\r\nSubject: %s\r\n\r\nHello.\r\n.\r\n' "$1" "$2" "$3" >&3 && expect 250
	printf 'QUIT\r\n' >&3 && expect 221
	exec 3>&-
}
until_true() { # until_true WHAT COMMAND…: within a minute
	local what=$1 i
	shift
	for i in $(seq 600); do
		"$@" && return 0
		sleep 0.1
	done
	fail "$what"
}
delivered() { grep -rqs "^Subject: $2" "/var/mail/pepsi/$1/new"; }

install() {
	apt update
	apt install /try/pepsi.deb
	installed pepsi
	! command -v cc >/dev/null || fail "this system is not clean: it has a compiler"
	for a in pepsi pepsi-reactor pepsi-config pepsi-dns pepsi-fetch pepsi-token; do getent passwd $a >/dev/null || fail "no account $a"; done
	[ "$(stat -c '%U %a' /var/mail/pepsi)" = "pepsi 700" ] || fail "/var/mail/pepsi is $(stat -c '%U %a' /var/mail/pepsi)"
	[ "$(pepsi --version)" = "$(pepsid --version | sed 's/pepsid/pepsi/')" ] || fail "two versions"
	pepsi config check | grep -qx '0 errors, 0 warnings' || fail "$(pepsi config check)"
	[ "$(pepsi stage list | grep -c '^pepsi-stage-')" -ge 9 ] || fail "stage list: $(pepsi stage list)"
	dpkg --verify pepsi | grep -q . && fail "dpkg --verify: $(dpkg --verify pepsi)"
	ldd /usr/bin/pepsi | grep -q 'not found' && fail "$(ldd /usr/bin/pepsi)"
	[ -L /etc/systemd/system/multi-user.target.wants/pepsi.target ] || fail "pepsi.target is not enabled"
	[ -L /etc/systemd/system/pepsi.target.wants/pepsi.service ] || fail "pepsi.service is not enabled"
	[ -L /etc/systemd/system/pepsid.service ] || fail "pepsi.service has no alias pepsid.service"
	[ -z "$(find /usr/bin /usr/sbin /usr/lib/pepsi -name 'pepsi*' -perm /6000)" ] || fail "set-uid programs"
	ok "installed by apt with $(sed -n 's/.* \([0-9]*\) newly installed.*/\1/p' /try/apt.log) packages"
}

first() {
	start
	mail you@localhost alice@localhost "first message"
	until_true "the first message does not arrive" delivered localhost/alice "first message"
	[ "$(stat -c %U /var/mail/pepsi/localhost/alice/new/*)" = pepsi ] || fail "the Maildir is not pepsi's"
	pepsi status >/try/status || fail "pepsi status"
	grep -qi accept /try/status || fail "pepsi status: $(cat /try/status)"
	stat -c %U /proc/[0-9]* | grep -qx pepsi-reactor || fail "nothing runs as pepsi-reactor"
	# as installing.md has it: a program of this machine, and who may look
	printf 'Subject: by a program\n\nHello.\n' | pepsi-sendmail you@localhost || fail "pepsi-sendmail"
	until_true "what pepsi-sendmail took does not arrive" delivered localhost/you "by a program"
	useradd ann
	su ann -c 'pepsi status' >/try/ann 2>&1 && fail "anybody may ask for the status"
	grep -q 'member of the group pepsi-reactor' /try/ann || fail "who may not ask is not told who may: $(cat /try/ann)"
	usermod -aG pepsi-reactor ann
	su ann -c 'pepsi status && pepsi queue list' >/try/ann 2>&1 || fail "a member of pepsi-reactor may not ask: $(cat /try/ann)"
	userdel ann
	mail you@localhost stranger@elsewhere.test "nowhere to go"
	until_true "no report of what cannot be delivered" delivered localhost/you "[^n]"
	pepsi reload >/dev/null || fail "pepsi reload"
	pepsi-failure-bouncer --once >>$log 2>&1 || fail "pepsi-failure-bouncer --once"
	stop
	ok "first messages in the Maildir, an operator by group, report to the sender, status, reload, failure-bouncer, stop"
}

develop() {
	apt install /try/pepsi-dev.deb
	installed pepsi-dev
	apt install swaks python3 make systemd-sysv
	command -v cc >/dev/null || fail "pepsi-dev brought no compiler"
	useradd -m stranger
	ok "pepsi-dev with the compiler it recommends; swaks, python3 and make for the tutorial, systemd"
}

tutorial() {
	local doc=/usr/share/doc/pepsi-dev/writing-a-stage.md
	su stranger -c "mkdir ~/t && python3 /try/tutorial.py $doc /usr ~/t" || fail "the tutorial"
	# the part with a server, as the document has it
	local line
	for line in 'pepsid -c pepsi.conf' \
		"swaks --server 127.0.0.1:2525 --from you@example.test --to you@example.test --header 'Subject: it works'" \
		'cat mail/you/new/*'; do
		grep -qxF "    $line" $doc || fail "the tutorial does not say: $line"
	done
	su stranger -c "cd ~/t && PATH=\$PATH:/usr/sbin exec pepsid -c pepsi.conf" >>$log 2>&1 &
	pid=$!
	su stranger -c "cd ~/t && pepsi -c pepsi.conf status --wait 60" >/dev/null || fail "the tutorial's pepsid does not accept mail"
	su stranger -c "cd ~/t && swaks --server 127.0.0.1:2525 --from you@example.test --to you@example.test --header 'Subject: it works'" \
		>/try/swaks.log 2>&1 || { cat /try/swaks.log; fail swaks; }
	until_true "the tutorial's message does not arrive" sh -c 'grep -qs "^X-Greeting: welcome" /home/stranger/t/mail/you/new/*'
	su stranger -c "cd ~/t && cat mail/you/new/*" | grep -q '^Subject: it works' || fail "another message"
	su stranger -c "cd ~/t && pepsi -c pepsi.conf reload && pepsi -c pepsi.conf stop --wait 60" >/dev/null || fail "the tutorial's reload and stop"
	wait $pid || fail "the tutorial's pepsid ended with status $?"
	# and the larger example, from the package
	su stranger -c "cp -r /usr/share/doc/pepsi-dev/examples/example-stage ~/e && cd ~/e && make && make check" >/try/make.log 2>&1 ||
		{ cat /try/make.log; fail "the example is not built or fails its tests"; }
	ok "tutorial, by an ordinary user, with the installed packages alone"
}

upgrade() {
	# an edited configuration: it must survive, and holds a message back
	sed -i 's/^ROUTE_LOCAL = .*/&\nROUTE_HOLD = hold.test hold/' $conf
	cat >/etc/pepsi/conf.d/hold.conf <<-C
	[stage-hold]
	PROGRAM = pepsi-stage-relay-to-smarthost
	HOST = 127.0.0.1
	PORT = 1
	BOUNCE_STAGE = bounce
	C
	start
	local before after n
	before=$(sha256sum $conf)
	for n in 1 2 3; do mail you@localhost "bob$n@hold.test" "kept over the upgrade $n"; done
	until_true "no messages wait" sh -c '[ "$(pepsi queue list --stage hold --status paused --json | grep -o "\"id\"" | wc -l)" = 3 ]'
	dpkg --force-confold -i /try/pepsi-newer.deb /try/pepsi-dev-newer.deb >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "upgrade"; }
	installed pepsi
	installed pepsi-dev
	grep -q 'restart it' /try/dpkg.log || fail "the upgrade does not say that the former version still runs"
	case $(dpkg-query -W -f='${Version}' pepsi) in *+upgrade) ;; *) fail "still the former version" ;; esac
	[ "$before" = "$(sha256sum $conf)" ] || fail "the upgrade changed the configuration"
	tail -n 1 $conf.dpkg-dist | grep -qx '# a line of the newer package' || fail "the newer package's own configuration is not there"
	[ -e /etc/pepsi/conf.d/hold.conf ] || fail "the upgrade deleted a fragment"
	stop
	start
	[ "$(pepsi queue list --stage hold --json | grep -o '"id"' | wc -l)" = 3 ] || fail "messages in the queue: $(pepsi queue list)"
	pepsi queue set-stage maildir --stage hold >/dev/null || fail "pepsi queue set-stage"
	for n in 1 2 3; do until_true "message $n was lost" delivered "hold.test/bob$n" "kept over the upgrade $n"; done
	stop
	ok "upgrade with three messages in the queue: all there, the edited configuration, too"
}

booted() { # under systemd, which started what the package enabled
	active() { [ "$(systemctl show -p ActiveState --value "$1")" = active ]; }
	main_pid() { systemctl show -p MainPID --value pepsi.service; }
	say_why() { fail "$1: $(systemctl status --no-pager -l pepsi.service 2>&1; journalctl --no-pager -o cat | tail -40)"; }
	until_true "pepsi.target is not active" active pepsi.target
	active pepsi.service || say_why "pepsi.service is not active"
	active pepsid.service || fail "the alias pepsid.service"
	active pepsi-failure-bouncer.timer || fail "the timer is not active"
	[ "$(systemctl show -p TimersMonotonic pepsi-failure-bouncer.timer | grep -c 'USec=10min')" = 2 ] || fail "the timer's times"
	[ "$(stat -c '%U %a' /run/pepsi /var/lib/pepsi | sort -u)" = "root 755" ] || fail "owners of /run/pepsi and /var/lib/pepsi"
	mail you@localhost carol@localhost "under systemd"
	until_true "a message under systemd does not arrive" delivered localhost/carol "under systemd"

	local pid
	pid=$(main_pid)
	systemctl reload pepsi || say_why "systemctl reload"
	printf '[pepsi]\nNONSENSE = 1\n' >/etc/pepsi/conf.d/zz.conf
	! systemctl reload pepsi 2>/dev/null || fail "systemctl reload accepts a configuration with a mistake"
	rm /etc/pepsi/conf.d/zz.conf
	active pepsi.service && [ "$(main_pid)" = "$pid" ] || say_why "after a reload that failed"
	journalctl -u pepsi --no-pager | grep -q NONSENSE || fail "the journal does not name the mistake"
	systemctl start pepsi-failure-bouncer.service || fail "the sweep: $(systemctl status --no-pager -l pepsi-failure-bouncer.service 2>&1)"
	kill -KILL "$pid"
	until_true "pepsi.service was not started again" sh -c "[ \$(systemctl show -p MainPID --value pepsi.service) -gt 0 ] &&
		[ \$(systemctl show -p MainPID --value pepsi.service) != $pid ] && systemctl -q is-active pepsi.service"
	# each process under its account, and no capability where mail is read
	local p status user
	for p in $(cat /sys/fs/cgroup/system.slice/pepsi.service/cgroup.procs); do
		status=$(cat "/proc/$p/status" 2>/dev/null) || continue
		user=$(stat -c %U "/proc/$p" 2>/dev/null) || continue
		[ "$p" = "$(main_pid)" ] || case $user in
		pepsi | pepsi-reactor | pepsi-config | pepsi-dns | pepsi-fetch | pepsi-token) printf '%s' "$status" | grep -q '^CapEff:.0000000000000000' || fail "process $p of $user has capabilities: $status" ;;
		*) fail "process $p of pepsi.service runs as $user" ;;
		esac
	done
	printf 'note exposure of pepsi.service, by systemd-analyze security: %s\n' \
		"$(systemd-analyze security --no-pager pepsi.service | sed -n 's/.*exposure level for pepsi.service: //p')"
	pid=$(main_pid)
	dpkg --force-confold -i /try/pepsi-newer.deb >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "upgrade under systemd"; }
	active pepsi.service && [ "$(main_pid)" != "$pid" ] || say_why "after an upgrade"
	systemctl disable -q --now pepsi-failure-bouncer.timer pepsi.service
	dpkg --force-confold -i /try/pepsi-newer.deb >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "upgrade, disabled"; }
	! active pepsi.service || fail "an upgrade starts a service that the admin disabled"
	systemctl enable -q --now pepsi.service pepsi-failure-bouncer.timer || fail "systemctl enable"
	# a configuration that cannot be started with fails no upgrade
	printf '[pepsi]\nNONSENSE = 1\n' >/etc/pepsi/conf.d/zz.conf
	dpkg --force-confold -i /try/pepsi-newer.deb >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "upgrade with a faulty configuration"; }
	grep -q 'did not start' /try/dpkg.log || fail "an upgrade does not say that the service did not start: $(cat /try/dpkg.log)"
	installed pepsi
	rm /etc/pepsi/conf.d/zz.conf
	systemctl reset-failed
	systemctl start pepsi.service || say_why "started again"
	dpkg -r pepsi-dev pepsi >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "removal under systemd"; }
	! active pepsi.service && [ ! -s /sys/fs/cgroup/system.slice/pepsi.service/cgroup.procs ] || fail "the removal left processes"
	dpkg -i /try/pepsi-newer.deb /try/pepsi-dev-newer.deb >/try/dpkg.log 2>&1 </dev/null || { cat /try/dpkg.log; fail "installation under systemd"; }
	active pepsi.service || say_why "the installation does not start the service"
	mail you@localhost dave@localhost "installed under systemd"
	until_true "a message after the installation does not arrive" delivered localhost/dave "installed under systemd"
	systemctl stop pepsi.target
	! active pepsi.service && ! active pepsi-failure-bouncer.timer || fail "stopping pepsi.target does not stop all of it"
	ok "systemd: start, mail, reload, a faulty reload, sweep, kill, upgrade, disabled, removal, installation"
}

purge() {
	start
	dpkg -r pepsi-dev pepsi >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "removal"; }
	wait $pid || true
	[ -z "$(cat /proc/[0-9]*/comm | grep -E '^(pepsid|postgres|reactor)$')" ] || fail "the removal left processes: $(cat /proc/[0-9]*/comm)"
	grep -q 'the queue stays in /var/lib/pepsi' /try/dpkg.log || fail "the removal does not say what stays"
	[ -d /var/lib/pepsi/postgres ] && [ -e $conf ] || fail "the removal deleted state or configuration"
	[ ! -e /usr/bin/pepsi ] && [ ! -e /usr/lib/pepsi ] || fail "the removal left programs"
	dpkg -i /try/pepsi-newer.deb >/try/dpkg.log 2>&1 </dev/null || { cat /try/dpkg.log; fail "installing again"; }
	start
	pepsi status >/dev/null || fail "installed again: no status"
	stop
	rm -f /etc/pepsi/conf.d/hold.conf
	dpkg -P pepsi >/try/dpkg.log 2>&1 || { cat /try/dpkg.log; fail "purge"; }
	grep -q 'deleting the queue and everything else in /var/lib/pepsi' /try/dpkg.log || fail "the purge does not say what it deletes"
	[ ! -e /var/lib/pepsi ] && [ ! -e /etc/pepsi ] || fail "the purge left $(ls -d /var/lib/pepsi /etc/pepsi 2>/dev/null)"
	[ -d /var/mail/pepsi/localhost/alice/new ] || fail "the purge deleted delivered mail"
	[ -z "$(find /etc/systemd /lib/systemd /usr/lib -name 'pepsi*')" ] || fail "left: $(find /etc/systemd /lib/systemd /usr/lib -name 'pepsi*')"
	[ -z "$(dpkg -l 'pepsi*' 2>/dev/null | grep '^[a-z]i')" ] || fail "$(dpkg -l 'pepsi*')"
	ok "removal stops it and keeps state; purge deletes queue and configuration, keeps delivered mail"
}

"$1"
