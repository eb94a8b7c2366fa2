// A tmpfs that is not mounted anywhere yet.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Makes one that anybody may write: nosuid, nodev, noexec. *ret is the descriptor of its mount, to be moved
// to its place; it also keeps the tmpfs in reach after the sandbox is gone. 0 or a negative errno.
int sr_tmpfs_make(uint64_t bytes, uint32_t inodes, int *ret);

// How full the tmpfs is that fd lies in. -1 for fd: empty.
struct sr_tmpfs_usage {
        uint64_t bytes;
        bool full; // of bytes or of inodes
};
struct sr_tmpfs_usage sr_tmpfs_usage(int fd);
