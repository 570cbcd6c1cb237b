#!/bin/sh
# box.sh ROOT: boots a real systemd as PID 1 in namespaces of its own, below ROOT (an empty directory): this machine's
# files under an overlay, so that nothing of it is changed, with none of its own units. Needs root. Runs until it is
# killed; the first line it prints is the PID, seen from here, of that systemd.
set -eu
root=$1
mount -t tmpfs box "$root"
mkdir "$root/upper" "$root/work" "$root/all"
# Namespaces end with their last process, mounts with their namespace: nothing is left behind.
exec unshare --pid --mount --uts --ipc --cgroup --net --fork --kill-child sh -euc '
	root=$1 all=$1/all
	mount --make-rprivate /
	mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$all"
	mount -t proc proc "$all/proc"
	mount -t sysfs sysfs "$all/sys"
	mount -t tmpfs tmpfs "$all/run"
	mount -t tmpfs tmpfs "$all/tmp"
	mount -t tmpfs tmpfs "$all/sys/fs/cgroup" 2>/dev/null || :
	mount -t cgroup2 none "$all/sys/fs/cgroup"
	mount --rbind /dev "$all/dev"
	ip link set lo up 2>/dev/null || :
	# Of the machine: no unit, no journal, no daemon, and a host name that says where one is.
	mount -t tmpfs tmpfs "$all/etc/systemd/system"
	for unit in systemd-udevd systemd-udev-trigger systemd-modules-load systemd-sysctl systemd-binfmt \
		systemd-random-seed systemd-update-utmp systemd-hwdb-update systemd-firstboot systemd-timesyncd \
		systemd-resolved systemd-networkd kmod-static-nodes; do
		ln -s /dev/null "$all/etc/systemd/system/$unit.service"
	done
	mkdir -p "$all/var/log/journal"
	hostname box
	exec env -i container=box PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$all" \
		/lib/systemd/systemd --system --unit=basic.target
' sh "$root"
