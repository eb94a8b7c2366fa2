#include "image/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/limits.h"
#include "image/root.h"

// Where a sandbox mounts its own file systems.
static const struct {
        const char *path;
        mode_t mode;
} directories[] = {
        {"dev", 0755},
        {"proc", 0755},
        {"scratch", 0755},
        {"tmp", 01777},
};

static const struct {
        const char *path;
        bool replace; // also when the image has one
        const char *text;
} files[] = {
        // The loopback is all the network there is.
        {"etc/hosts", true,
         "127.0.0.1 localhost sandbox\n"
         "::1 localhost ip6-localhost ip6-loopback\n"},
        {"etc/resolv.conf", true, "# No name server: a sandbox has no network.\n"},
        {"etc/hostname", true, "sandbox\n"},
        {"etc/nsswitch.conf", false,
         "passwd: files\n"
         "group: files\n"
         "shadow: files\n"
         "hosts: files\n"
         "networks: files\n"
         "protocols: files\n"
         "services: files\n"
         "ethers: files\n"
         "rpc: files\n"},
};

// Lines for passwd and group, in the order that a new file has them.
static const struct {
        const char *path;
        bool first;
        const char *line;
} accounts[] = {
        {"etc/passwd", false, "root:x:0:0:root:/root:/bin/sh"},
        {"etc/passwd", true, "sandbox:x:1000:1000:Sandbox user:/tmp:/bin/sh"},
        {"etc/passwd", false, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"},
        {"etc/group", false, "root:x:0:"},
        {"etc/group", true, "sandbox:x:1000:"},
        {"etc/group", false, "nogroup:x:65534:"},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

struct span {
        const char *start;
        size_t length;
};

static bool same(struct span a, struct span b)
{
        return a.length == b.length && memcmp(a.start, b.start, a.length) == 0;
}

// The field of that number (from 0) of a line of length bytes; empty when there is none.
static struct span field(const char *line, size_t length, int number)
{
        const char *end = line + length;

        for (;;) {
                const char *colon = memchr(line, ':', (size_t)(end - line));
                const char *stop = colon != NULL ? colon : end;

                if (number == 0)
                        return (struct span){.start = line, .length = (size_t)(stop - line)};
                if (colon == NULL)
                        return (struct span){.start = end, .length = 0};
                line = colon + 1;
                number--;
        }
}

void sr_image_skeleton_merge(struct sr_buf *text, const char *line, bool first)
{
        const struct span name = field(line, strlen(line), 0), id = field(line, strlen(line), 2);
        size_t at = 0;

        while (at < text->len) {
                const char *start = text->data + at;
                const char *newline = memchr(start, '\n', text->len - at);
                size_t length = newline != NULL ? (size_t)(newline - start) : text->len - at;
                bool same_name = same(field(start, length, 0), name),
                     same_id = same(field(start, length, 2), id);

                if ((same_name && same_id) || ((same_name || same_id) && !first))
                        return;
                if (same_name || same_id)
                        break;
                at += length + (newline != NULL ? 1 : 0);
        }

        _cleanup_buf_ struct sr_buf merged = {0};

        sr_buf_append(&merged, text->data, at);
        if (merged.len > 0 && merged.data[merged.len - 1] != '\n')
                sr_buf_append_char(&merged, '\n');
        sr_buf_printf(&merged, "%s\n", line);
        sr_buf_append(&merged, text->data != NULL ? text->data + at : NULL, text->len - at);
        sr_buf_clear(text);
        *text = merged;
        merged = (struct sr_buf){0};
}

static int write_file(struct sr_image_root *root, const char *path, const char *text, size_t length,
                      struct sr_error **error)
{
        _cleanup_close_ int fd = -1;
        int r = sr_image_root_file(root, path, &fd, error);

        if (r < 0)
                return r;
        r = sr_fd_write_all(fd, text, length);
        if (r == 0 && fchmod(fd, 0644) < 0)
                r = -errno;
        return r < 0 ? sr_error_set(error, SR_ERROR_HOST, -r, "it cannot be written: %s", strerror(-r)) : 0;
}

static int lay_accounts(struct sr_image_root *root, const char *path, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf text = {0};
        int r = sr_image_root_read(root, path, SR_IMAGE_MAX_ETC_FILE_BYTES, &text, error);

        if (r < 0 && r != -ENOENT)
                return r;
        for (size_t i = 0; i < COUNT(accounts); i++)
                if (strcmp(accounts[i].path, path) == 0)
                        sr_image_skeleton_merge(&text, accounts[i].line, accounts[i].first);
        return write_file(root, path, text.data, text.len, error);
}

static int lay_file(struct sr_image_root *root, size_t i, struct sr_error **error)
{
        _cleanup_buf_ struct sr_buf found = {0};

        if (!files[i].replace) {
                int r = sr_image_root_read(root, files[i].path, SR_IMAGE_MAX_ETC_FILE_BYTES, &found, error);

                if (r != -ENOENT)
                        return r;
        }
        return write_file(root, files[i].path, files[i].text, strlen(files[i].text), error);
}

int sr_image_skeleton_apply(int root_fd, struct sr_error **error)
{
        static const char *const account_files[] = {"etc/passwd", "etc/group"};
        _cleanup_root_ struct sr_image_root *root = NULL;
        int r = sr_image_root_open(root_fd, &root, error);

        for (size_t i = 0; r == 0 && i < COUNT(directories); i++) {
                r = sr_image_root_directory(root, directories[i].path, directories[i].mode, error);
                if (r < 0)
                        return sr_error_prefix(error, r, "/%s", directories[i].path);
        }
        for (size_t i = 0; r == 0 && i < COUNT(account_files); i++) {
                r = lay_accounts(root, account_files[i], error);
                if (r < 0)
                        return sr_error_prefix(error, r, "/%s", account_files[i]);
        }
        for (size_t i = 0; r == 0 && i < COUNT(files); i++) {
                r = lay_file(root, i, error);
                if (r < 0)
                        return sr_error_prefix(error, r, "/%s", files[i].path);
        }
        return r;
}
