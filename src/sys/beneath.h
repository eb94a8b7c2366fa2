// Opening a file that somebody else named.
#pragma once

// Opens the regular file at path below the directory for reading, whatever links lie on the way: none may
// lead out of the directory (openat2, RESOLVE_BENEATH), and a file of another kind is refused without waiting
// for it. A descriptor or a negative errno; -EINVAL for another kind of file, -EXDEV for a way out.
int sr_sys_open_beneath(int dirfd, const char *path);
