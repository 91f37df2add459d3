# Shared by contrib/run, contrib/test, contrib/bench and contrib/accounts: install what is missing, build, and make the
# tree reachable for unprivileged accounts. Sourced by sh, with `root` set to the top of the tree. Prints one line per
# step it really takes. May not start, stop or configure any service of the machine.

say() { printf '%s\n' "pepsi: $*"; }
die() { printf '%s\n' "pepsi: $*" >&2; exit 1; }

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PATH
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# have_package NAME: is it installed (not merely known)?
have_package() { [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = ii ]; }

BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkgconf libevent-dev libssl-dev libpq-dev libjson-c-dev libidn2-dev libunistring-dev libldns-dev libcmocka-dev
	libargon2-dev libcurl4-openssl-dev libpam0g-dev libpsl-dev libunbound-dev libexpat1-dev zlib1g-dev libopendkim-dev"
RUN_PACKAGES="postgresql swaks"
TEST_PACKAGES="python3 openssl curl gsasl msmtp s-nail dovecot-imapd dovecot-lmtpd postfix g++ make binutils abigail-tools nsd unbound ldnsutils libsasl2-modules
	opendkim opendkim-tools rspamd libmail-dkim-perl python3-dkim python3-spf python3-authres python3-dnspython python3-aiosmtpd libxml2-utils"

# install_packages NAME…: those that are missing, from the configured Debian archive. Package scripts may start no
# service and PostgreSQL's may make no cluster of its own: both guards are taken away again. A package that would
# remove another one (postfix beside some other MTA) is not installed; the tests that need it skip then.
install_packages() {
	need=
	for p in "$@"; do
		case $p in
		postgresql) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || need="$need $p" ;;
		pkgconf) command -v pkg-config >/dev/null || need="$need $p" ;;
		gcc) command -v cc >/dev/null || need="$need $p" ;;
		*) have_package "$p" || need="$need $p" ;;
		esac
	done
	[ -n "$need" ] || return 0
	command -v apt-get >/dev/null || die "missing:$need; this is no Debian (no apt-get): install them by hand"
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || die "missing:$need; not root and no sudo: install them as root with apt-get install$need"
	fi
	say "installing with apt-get:$need"
	log=$(mktemp "${TMPDIR:-/tmp}/pepsi-apt.XXXXXX")
	if ! as_root sh -s -- $need >"$log" 2>&1 <<'APT'
set -e
guard= cluster=
restore() {
	if [ -n "$guard" ]; then rm -f /usr/sbin/policy-rc.d; [ ! -e /usr/sbin/policy-rc.d.pepsi ] || mv /usr/sbin/policy-rc.d.pepsi /usr/sbin/policy-rc.d; fi
	if [ -n "$cluster" ]; then
		rm -f /etc/postgresql-common/createcluster.conf
		[ ! -e /usr/share/postgresql-common/createcluster.conf ] || cp /usr/share/postgresql-common/createcluster.conf /etc/postgresql-common/
	fi
}
trap restore EXIT
trap 'exit 1' HUP INT TERM
[ ! -e /usr/sbin/policy-rc.d ] || mv /usr/sbin/policy-rc.d /usr/sbin/policy-rc.d.pepsi
guard=yes
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
	cluster=yes
	mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
fi
export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 LC_ALL=C
apt-get -qq update </dev/null || apt-get -qq update </dev/null
install() { apt-get -qq install -y --no-remove --no-install-recommends -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" </dev/null; }
rest=
for p in "$@"; do
	if [ "$p" = postfix ]; then
		command -v debconf-set-selections >/dev/null && echo 'postfix postfix/main_mailer_type select No configuration' | debconf-set-selections
		install postfix || echo "postfix could not be installed beside what is there"
	else
		rest="$rest $p"
	fi
done
[ -z "$rest" ] || install $rest
APT
	then
		tail -20 "$log" >&2
		rm -f "$log"
		die "apt-get failed; its last lines are above"
	fi
	rm -f "$log"
}

quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }

jobs() { n=$(nproc 2>/dev/null || echo 2); [ "$n" -gt 1 ] || n=2; echo "$n"; }

# build FOLDER [CMAKE-OPTION…]: configures and builds quietly; on failure shows the end of what the compiler said.
build() {
	b=$1
	shift
	launcher=
	if command -v ccache >/dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
	log=$(mktemp "${TMPDIR:-/tmp}/pepsi-build.XXXXXX")
	[ -e "$b/build.ninja" ] || say "building in $b (a minute or two the first time)"
	if ! { cmake -S "$root" -B "$b" -G Ninja $launcher "$@" && cmake --build "$b" -j "$(jobs)"; } >"$log" 2>&1; then
		tail -60 "$log" >&2
		rm -f "$log"
		die "the build in $b failed; its last lines are above"
	fi
	rm -f "$log"
}

# closed_ancestors PATH…: the folders above each path that accounts other than their owner cannot pass through.
closed_ancestors() {
	for p in "$@"; do
		while [ "$p" != / ] && [ "$p" != . ]; do
			p=$(dirname "$p")
			case $(stat -c %A "$p") in *x | *t) ;; *) printf '%s\n' "$p" ;; esac
		done
	done | sort -u
}

# run_reachable COMMAND PATH…: (one string for sh -c, its paths absolute) runs COMMAND, as root in a way that
# unprivileged accounts can reach each PATH although a folder above it is closed to them (a clone in /root, a state
# folder under mktemp -d): workers and PostgreSQL never run as root. In a private mount namespace each closed folder is
# covered by one with the same entries that others may pass through, but not list; nothing on disk changes. Where the
# kernel grants no namespace, the folders are made searchable for others (chmod o+x), and that is said. Does not return.
run_reachable() {
	command=$1
	shift
	closed=
	if [ "$(id -u)" = 0 ]; then closed=$(closed_ancestors "$@"); fi
	[ -n "$closed" ] || exec sh -c "$command"
	if unshare -m true 2>/dev/null; then
		say "others cannot pass through $(echo $closed): running in a private view where they can"
		REACH_COMMAND=$command REACH_CLOSED=$closed
		export REACH_COMMAND REACH_CLOSED
		exec unshare -m --propagation private sh -c '
set -e
cd /
hold=$(mktemp -d /tmp/pepsi-view.XXXXXX)
mount -t tmpfs -o mode=700,size=64k none "$hold"
mkdir "$hold/d"
printf "%s\n" "$REACH_CLOSED" >"$hold/list"
while IFS= read -r d; do
	mount --rbind "$d" "$hold/d"
	mount -t tmpfs -o mode=711,size=4m none "$d"
	for e in "$hold"/d/* "$hold"/d/.[!.]* "$hold"/d/..?*; do
		to=$d/${e##*/}
		if [ -L "$e" ]; then cp -P "$e" "$to"; continue; fi
		[ -e "$e" ] || continue
		if [ -d "$e" ]; then mkdir "$to"; else : >"$to"; fi
		mount --rbind "$e" "$to"
	done
	umount -l "$hold/d"
done <"$hold/list"
umount "$hold"
rmdir "$hold"
exec sh -c "$REACH_COMMAND"'
	fi
	printf '%s\n' "$closed" | while IFS= read -r d; do
		say "making $d searchable for others (chmod o+x): pepsid's unprivileged accounts must pass through it"
		chmod o+x "$d"
	done
	exec sh -c "$command"
}
