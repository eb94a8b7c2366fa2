#!/bin/sh
# The one service of the test machine: brings in what the host passed, runs its job with a serial line as output,
# says how that ended and switches the machine off. What to do is the host's to say: this script is part of the
# cached base system.
out=/dev/ttyS1

# disk NAME: the device of the disk that the host calls so; the kernel finds them in any order.
disk() {
        basename "$(dirname "$(grep -lx "$1" /sys/block/vd*/serial)")"
}

stty -F "$out" raw -echo
modprobe -a virtio_pci virtio_blk # nobody here loads modules by themselves
{
        mkdir -p /srv/store
        mount -o ro "/dev/$(disk store)" /srv/store && tar -C /srv -xf "/dev/$(disk payload)" && sh /srv/job
        code=$?
        printf 'the job in the machine ended with code %s\n' "$code"
} 2>&1 </dev/null | cat >"$out" # a pipe: what runs shall not take it for a terminal
stty -F "$out" raw -echo # waits until the line has taken everything
poweroff -ff
