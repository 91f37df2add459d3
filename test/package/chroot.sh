#!/bin/sh
# The life of an installed Pepsi in a clean Debian 12: debootstrap's smallest system, the packages by apt from files, first
# message, tutorial, upgrade with mail in the queue, its services under a booted systemd, removal, purge. A separate, slow command (minutes, a Debian mirror, root):
#
#   sh test/package/chroot.sh [BUILD_DIR PEPSI.deb PEPSI-DEV.deb]      without packages it makes them first
#
#   PEPSI_CHROOT_CACHE   where the bare system and downloaded packages are kept (default ~/.cache/pepsi-chroot)
#   PEPSI_CHROOT_STEPS   only these, of: install first develop tutorial upgrade booted purge (in this order)
#   PEPSI_CHROOT_MIRROR  where debootstrap fetches from; default: where this machine's apt does
#
# Everything runs in mount and process namespaces of its own, which end with it, also when it is killed; what serves mail runs in
# a network namespace, too. Writes to the cache and to one temporary folder, which it deletes. Exit status 77: could not be tried.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(cd "$here/../.." && pwd -P)
LIMIT=1500 # seconds for all of it

say() { printf '%s\n' "chroot: $*"; }
skip() { printf '%s\n' "skipped: $*"; exit 77; }

# --step ROOT NAME, in a mount namespace of its own: one step of life.sh, or "systemd", as process 1, which runs the step booted
if [ "${1:-}" = --step ]; then
	new=$2
	mount --bind "$new" "$new"
	mount -t proc proc "$new/proc"
	mount -t sysfs -o ro sysfs "$new/sys"
	mount -t tmpfs -o mode=755,size=1m dev "$new/dev"
	for d in null zero full random urandom tty; do
		: >"$new/dev/$d"
		mount --bind "/dev/$d" "$new/dev/$d"
	done
	mkdir "$new/dev/shm" "$new/dev/pts"
	mount -t tmpfs -o mode=1777 shm "$new/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=666 devpts "$new/dev/pts"
	ln -s pts/ptmx "$new/dev/ptmx"
	ln -s /proc/self/fd "$new/dev/fd"
	hostname pepsi-try
	if [ "$3" = systemd ]; then
		mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
		mount -t tmpfs -o mode=755 run "$new/run"
		mkdir -p "$new/try/host"
		cd "$new"
		pivot_root . try/host
		exec chroot . sh -c 'umount -l /try/host && exec env -i container=try PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' \
			</dev/null >/dev/null 2>&1
	fi
	ip link set lo up # the host's is up already
	exec chroot "$new" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		bash /try/life.sh "$3"
fi

# --inside ROOT CGROUP, in mount and process namespaces that end with it: all steps
if [ "${1:-}" = --inside ]; then
	new=$2 group=$3
	with_net() { unshare --mount --propagation private sh "$here/chroot.sh" --step "$new" "$1"; } # for apt
	alone() { unshare --mount --propagation private --net sh "$here/chroot.sh" --step "$new" "$1"; } # loopback and nothing else
	booted() {
		mkdir "$new.cgroup"
		if ! mount -t cgroup2 cgroup2 "$new.cgroup" || ! mkdir "$new.cgroup/$group"; then
			say "no cgroups for a systemd: what the services do was not tried"
			return 0
		fi
		rm "$new/usr/sbin/policy-rc.d"
		cat >"$new/etc/systemd/system/try.service" <<-U
		[Unit]
		After=pepsi.target
		SuccessAction=exit-force
		FailureAction=exit-force
		SuccessActionExitStatus=0
		FailureActionExitStatus=1
		[Service]
		Type=oneshot
		Environment=LC_ALL=C.UTF-8 HOME=/root DEBIAN_FRONTEND=noninteractive
		ExecStart=/bin/bash /try/life.sh booted
		StandardOutput=file:/try/booted.log
		StandardError=inherit
		TimeoutStartSec=300
		[Install]
		WantedBy=multi-user.target
		U
		chroot "$new" systemctl enable -q try.service
		rc=0
		timeout -k 10 400 sh -c 'echo $$ >"$1" && shift && exec "$@"' sh "$new.cgroup/$group/cgroup.procs" unshare --mount --propagation private \
			--pid --fork --kill-child --uts --ipc --net --cgroup sh "$here/chroot.sh" --step "$new" systemd || rc=$?
		rm -f "$new/etc/systemd/system/try.service" "$new/etc/systemd/system/multi-user.target.wants/try.service"
		[ -e "$new/try/booted.log" ] || { say "systemd did not start (status $rc)"; return 1; }
		cat "$new/try/booted.log"
		[ "$rc" = 0 ] || say "booted: exit status $rc"
		printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
		chmod 755 "$new/usr/sbin/policy-rc.d"
		return "$rc"
	}
	mount --bind "$new" "$new"
	for step in ${PEPSI_CHROOT_STEPS:-install first develop tutorial upgrade booted purge}; do
		case $step in
		install | develop) with_net "$step" ;;
		booted) booted ;;
		*) alone "$step" ;;
		esac
	done
	exit 0
fi

[ "$(id -u)" = 0 ] || skip "this needs root (debootstrap, chroot)"
for tool in debootstrap unshare timeout ip dpkg-deb; do
	command -v "$tool" >/dev/null || skip "no $tool: apt-get install debootstrap util-linux coreutils iproute2 dpkg"
done
unshare --mount --pid --fork --uts --ipc --net --cgroup true 2>/dev/null || skip "this kernel or container grants no namespaces"

if [ $# = 0 ]; then
	sh "$root/contrib/package" >/dev/null
	set -- "$root/build-package" "$(ls -t "$root"/build-package/deb/pepsi_*.deb | head -n 1)"
	set -- "$1" "$2" "$(dirname "$2")/pepsi-dev_${2##*/pepsi_}"
fi
[ $# = 3 ] || { echo "usage: sh test/package/chroot.sh [BUILD_DIR PEPSI.deb PEPSI-DEV.deb]" >&2; exit 2; }
build=$1 deb=$2 dev=$3
for f in "$deb" "$dev"; do [ -f "$f" ] || { echo "chroot: there is no package $f" >&2; exit 2; }; done

# ---- the bare system, from the cache
cache=${PEPSI_CHROOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pepsi-chroot}
mirror=${PEPSI_CHROOT_MIRROR:-$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	sed -n 's/^bookworm main //p' | head -n 1)}
[ -n "$mirror" ] || skip "apt has no source for Debian 12 here: name one by PEPSI_CHROOT_MIRROR"
arch=$(dpkg --print-architecture)
mkdir -p "$cache/archives/partial"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/pepsi-chroot.XXXXXX")
chmod 755 "$work"
group=${work##*/}
clean() { # a cgroup outlives its processes
	mkdir -p "$work/cgroup"
	unshare --mount --propagation private sh -c 'mount -t cgroup2 cgroup2 "$1" && [ ! -d "$1/$2" ] || find "$1/$2" -depth -type d -exec rmdir {} +' \
		sh "$work/cgroup" "$group" || true
	rm -rf --one-file-system "$work"
}
trap clean EXIT
child=
trap '[ -z "$child" ] || { kill "$child"; wait "$child"; }; exit 1' HUP INT TERM
bounded() { # bounded SECONDS COMMAND…: in the background, so that a signal to us ends it at once; its namespaces go with it
	timeout -s KILL -k 1 "$@" &
	child=$!
	wait "$child" && rc=0 || rc=$?
	child=
	return "$rc"
}
if [ ! -s "$cache/bookworm-$arch.tar" ]; then
	say "debootstrap (once; kept in $cache)"
	bounded 900 unshare --mount --pid --fork --kill-child debootstrap --variant=minbase bookworm "$work/bare" "$mirror" \
		>"$work/log" 2>&1 || { tail -5 "$work/log"; skip "debootstrap from $mirror failed"; }
	rm -f "$work"/bare/var/cache/apt/archives/*.deb
	tar -C "$work/bare" --one-file-system -cf "$cache/bookworm-$arch.tar.new" .
	mv "$cache/bookworm-$arch.tar.new" "$cache/bookworm-$arch.tar"
	rm -rf --one-file-system "$work/bare"
fi
mkdir "$work/root"
tar -C "$work/root" -xpf "$cache/bookworm-$arch.tar"
mkdir -p "$work/root/try"
find "$cache/archives" -maxdepth 1 -name '*.deb' -exec cp -t "$work/root/var/cache/apt/archives" {} +
cp -L /etc/resolv.conf "$work/root/etc/resolv.conf"
printf '127.0.0.1 localhost pepsi-try\n' >"$work/root/etc/hosts"
# nothing is started by the package scripts: nobody is there to supervise it
printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d"
chmod 755 "$work/root/usr/sbin/policy-rc.d"

# ---- the packages, and a second, newer build, whose first configuration is another one
version=$(dpkg-deb -f "$deb" Version)
sh "$root/contrib/package" --build "$build" --version "$version+upgrade" --output "$work/newer" --no-debug >/dev/null
dpkg-deb -R "$work"/newer/pepsi_*.deb "$work/edit"
printf '# a line of the newer package\n' >>"$work/edit/etc/pepsi/pepsi.conf"
(cd "$work/edit" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | xargs -0r md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group -Zgzip --build "$work/edit" "$work/root/try/pepsi-newer.deb" >/dev/null
cp "$work"/newer/pepsi-dev_*.deb "$work/root/try/pepsi-dev-newer.deb"
cp "$deb" "$work/root/try/pepsi.deb"
cp "$dev" "$work/root/try/pepsi-dev.deb"
cp "$here/life.sh" "$root/test/sdk/tutorial.py" "$work/root/try"

rc=0
bounded "$LIMIT" unshare --mount --propagation private --pid --fork --kill-child --uts --ipc \
	sh "$here/chroot.sh" --inside "$work/root" "$group" || rc=$?
find "$work/root/var/cache/apt/archives" -maxdepth 1 -name '*.deb' -exec cp -n -t "$cache/archives" {} + 2>/dev/null || true
[ "$rc" != 137 ] || say "not done after $LIMIT seconds"
[ "$rc" != 0 ] || say "installed, used, upgraded, removed and purged: all well"
exit "$rc"
