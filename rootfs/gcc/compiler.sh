# shellcheck shell=sh
# The gcc recipe's hook; $1 is the unpacked tree. Names the compilers and takes away the large programs that
# compiling and linking do without: link-time optimisation, profiling, the address sanitizer that needs hardware
# x86 does not have.
set -eu
cd "$1"
for name in gcc g++ cpp; do ln -sf "$name-14" "usr/bin/$name"; done
ln -sf gcc usr/bin/cc
ln -sf g++ usr/bin/c++
rm -rf usr/libexec/gcc/*/14/lto1 usr/bin/*lto-dump* usr/bin/*dwp usr/bin/*gprofng* usr/bin/gp-* usr/lib/*/gprofng \
        usr/lib/*/libgprofng* usr/lib/*/libhwasan* usr/lib/gcc/*/14/libhwasan*
chroot . /usr/sbin/ldconfig
chroot . /usr/bin/gcc -dumpfullversion >version
