# shellcheck shell=sh
# The last hook of every recipe; $1 is the unpacked tree. Does what the packages' maintainer scripts would have
# done as far as a program can see it, and takes away documentation and what only installing needs. (Leaving
# files out while unpacking, with path-exclude, takes mmdebstrap five times as long as unpacking everything.)
# Accounts, hosts and nsswitch.conf are not made here: the store gives them to every root file system.
set -eu
cd "$1"

rm -rf dev etc/apt etc/dpkg etc/kernel etc/logrotate.d etc/cron.* etc/init.d etc/systemd etc/pam.d \
        etc/alternatives etc/update-motd.d etc/skel usr/share/debconf usr/share/perl5 usr/share/pixmaps \
        usr/share/menu usr/share/bash-completion usr/share/base-files usr/share/base-passwd usr/lib/systemd \
        usr/lib/tmpfiles.d usr/lib/sysusers.d usr/share/libc-bin usr/share/common-licenses usr/share/debianutils \
        boot media mnt opt srv home var tmp run sys proc etc/resolv.conf etc/hostname etc/machine-id etc/fstab \
        usr/share/doc usr/share/man usr/share/info usr/share/lintian usr/share/locale usr/share/initramfs-tools \
        usr/share/bug usr/share/doc-base usr/share/gdb usr/share/zoneinfo/posix usr/share/zoneinfo/right \
        usr/bin/dpkg* usr/sbin/dpkg* usr/share/dpkg usr/bin/debconf* usr/bin/update-alternatives usr/share/polkit-1 \
        usr/share/gcc usr/share/python3 usr/src usr/games version
rm -f "${MMDEBSTRAP_APT_CONFIG:-}"

# Mount points and the directories that programs expect.
mkdir -p dev etc proc sys run scratch tmp home root var/lib var/cache var/log var/tmp usr/local/bin
chmod 1777 tmp var/tmp
chmod 700 root
ln -sf ../run var/run

if [ -e usr/share/zoneinfo/Etc/UTC ]; then
        ln -sf /usr/share/zoneinfo/Etc/UTC etc/localtime
        echo Etc/UTC >etc/timezone
fi

# Names that the alternatives system would give.
link() {
        if [ -e "usr/bin/$2" ] && [ ! -e "usr/bin/$1" ]; then
                ln -s "$2" "usr/bin/$1"
        fi
}
link sh dash
link awk mawk
link which which.debianutils

if [ -x usr/sbin/ldconfig ]; then
        chroot . /usr/sbin/ldconfig
        rm -rf var/cache/ldconfig
fi

# One owner, no set-id programs: a snippet has no use for either.
chown -R -h 0:0 .
find . -xdev \( -perm -4000 -o -perm -2000 \) ! -type l -exec chmod u-s,g-s {} +
# What was made here gets the time of the newest packaged file, so that building again gives the same tree.
newest=$(find usr -xdev -type f ! -newermt "@${recipe_start:?}" -printf '%T@\n' | sort -n | tail -n 1)
find . -xdev -newermt "@${newest%.*}" -exec touch -h -d "@${newest%.*}" {} +
