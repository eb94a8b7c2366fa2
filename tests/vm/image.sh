#!/bin/sh
# Makes the base system of the test machine: DIRECTORY/root.img (ext4) and DIRECTORY/vmlinuz.
#
#   image.sh SUITE DIRECTORY
#
# A Debian with its own kernel and systemd, cut down to what boots quickly under emulation. Root only: mmdebstrap
# unpacks as root, and the image is made from its directory without mounting anything.
set -eu
suite=$1
target=$2
here=$(cd "$(dirname "$0")" && pwd)

packages='systemd systemd-sysv dbus dbus-user-session libpam-systemd udev uidmap util-linux procps kmod passwd
        login strace python3 python3-pytest libcap2 libseccomp2 libcjson1 libsqlite3-0 libarchive13 libssl3
        linux-image-cloud-amd64'
# trixie has its libraries with 64-bit time in the name, where the older one has them without.
[ "$suite" = bookworm ] || packages=$(echo "$packages" | sed 's/libarchive13/libarchive13t64/; s/libssl3/libssl3t64/')

# Units that only cost time here.
masked='apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer systemd-tmpfiles-clean.timer
        e2scrub_all.timer e2scrub_reap.service fstrim.timer systemd-random-seed.service systemd-binfmt.service
        systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-pstore.service
        systemd-networkd.service systemd-timesyncd.service
        systemd-udev-trigger.service systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket
        modprobe@drm.service modprobe@configfs.service modprobe@efi_pstore.service modprobe@fuse.service
        systemd-modules-load.service systemd-sysctl.service kmod-static-nodes.service
        sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount
        getty.target getty@tty1.service serial-getty@ttyS0.service systemd-machine-id-commit.service'

work=$(mktemp -d "$target/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

mirror=http://deb.debian.org/debian
printf 'deb %s %s main\ndeb %s %s-updates main\ndeb %s-security %s-security main\n' \
        "$mirror" "$suite" "$mirror" "$suite" "$mirror" "$suite" >"$work/sources"

# shellcheck disable=SC2086 # lists of words
mmdebstrap --mode=root --format=directory --variant=apt --aptopt='APT::Install-Recommends "false"' \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --include="$(echo $packages | tr ' ' ',')" "$suite" "$work/root" "$work/sources"
root=$work/root

install -m 755 "$here/guest/sr-job.sh" "$root/usr/local/sbin/sr-job"
install -m 644 "$here/guest/sr-job.service" "$root/etc/systemd/system/sr-job.service"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/etc/systemd/journald.conf.d"
ln -s ../sr-job.service "$root/etc/systemd/system/multi-user.target.wants/sr-job.service"
for unit in $masked; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/test.conf"
echo sandbox-runner-test >"$root/etc/hostname"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
: >"$root/etc/fstab"
chroot "$root" passwd -q -d root
for user in tester:1000 loner:1001; do
        chroot "$root" useradd --create-home --shell /bin/bash --uid "${user#*:}" "${user%:*}"
done

mv "$root"/boot/vmlinuz-* "$target/vmlinuz"
rm -rf "${root:?}"/boot/* "$root/var/cache/apt" "$root/var/lib/apt/lists"
truncate -s 2G "$work/root.img"
mke2fs -q -t ext4 -O ^has_journal -E lazy_itable_init=1 -d "$root" "$work/root.img"
mv "$work/root.img" "$target/root.img"
