# shellcheck shell=sh
# The python recipe's hook; $1 is the unpacked tree. Compiles the standard library and tries the interpreter.
#
# The root file system is read-only when snippets run, so byte code that is missing or stale is compiled anew in
# every run. It is made in place, so that the paths in it are right, and unchecked, so that it stays valid
# whatever unpacks the image.
set -eu
cd "$1"
chroot . /usr/sbin/ldconfig
prefix=/usr/local
[ -e usr/local/bin/python3 ] || prefix=/usr
[ -e ".$prefix/bin/python" ] || ln -s python3 ".$prefix/bin/python"
run_python() {
        chroot . /usr/bin/env -i PATH=/usr/local/bin:/usr/bin LC_ALL=C.UTF-8 "$prefix/bin/python" -I "$@"
}
# Debian keeps three parts of one library in two directories.
for library in ".$prefix"/lib/python3*; do
        run_python -m compileall -q --invalidation-mode unchecked-hash "${library#.}"
done
run_python -c 'import bz2, ctypes, curses, hashlib, lzma, multiprocessing, readline, sqlite3, ssl, uuid, zlib'
run_python -c 'import platform; print(platform.python_version())' >version
