#!/bin/sh
# booted.sh FOLDER PACKAGE.deb: a systemd of its own over this machine's files, with the units of the package as they are shipped and nothing else to
# start. To be run in namespaces of its own (mount, process, UTS, IPC, cgroup: see units.py), where it becomes process 1; the network is the machine's,
# so that peers may be outside. What is written goes to FOLDER/root, that lies over this machine's files; FOLDER/log has what services say. It ends with
# the process that started it, and leaves nothing behind but FOLDER.
set -eu
dir=$1
mkdir "$dir/work" "$dir/root"
# a .deb has a folder lib where this machine may have a link
dpkg-deb -x "$2" "$dir/over"
if [ -L /lib ]; then
	cp -a "$dir/over/lib/." "$dir/over/usr/lib/"
	rm -r "$dir/over/lib"
fi
cp -a "$dir/etc/." "$dir/over/etc/"
mount -t overlay -o "lowerdir=/,upperdir=$dir/over,workdir=$dir/work" overlay "$dir/root"
cd "$dir/root"
systemd-sysusers --root="$PWD" "$3"
mount -t proc proc proc
mount -o bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mkdir -p run/units/service.d run/old run/log
mount --bind "$dir/log" run/log
find lib/systemd/system/ -maxdepth 1 -name 'pepsi*' -exec cp -a {} run/units/ \;
# what the units want of a machine is there already
for t in sysinit basic network network-online nss-lookup shutdown umount multi-user; do
	printf '[Unit]\nDefaultDependencies=no\n' >"run/units/$t.target"
done
# nothing of what is tried: where they speak to, and how sanitizers are set
printf '[Service]\nStandardOutput=append:/run/log/units.log\nStandardError=inherit\nEnvironment="ASAN_OPTIONS=%s" "UBSAN_OPTIONS=%s"\n' \
	"${ASAN_OPTIONS:-}" "${UBSAN_OPTIONS:-}" >run/units/service.d/log.conf
pivot_root . run/old
exec /usr/sbin/chroot . /bin/sh -c 'umount -l /run/old && exec env -i container=pepsi-test SYSTEMD_UNIT_PATH=/run/units PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/lib/systemd/systemd --unit=basic.target --log-target=console'
