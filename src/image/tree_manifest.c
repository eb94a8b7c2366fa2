#include "image/tree_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/fd.h"
#include "image/text.h"
#include "image/walk.h"

#define TITLE     "sandbox-runner tree manifest 1\n"
#define COUNTS    "entries %020" PRIu64 " size %020" PRIu64 "\n"
#define READ_SIZE (256 * 1024)

struct writing {
        FILE *file;
        struct sr_digest *digest;
        char *buffer;
        struct sr_buf escaped;
        uint64_t entries, size;
};

static void escape(struct sr_buf *out, const char *text)
{
        sr_buf_consume(out, out->len);
        for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
                if (*at <= ' ' || *at >= 0x7f || *at == '\\')
                        sr_buf_printf(out, "\\%03o", *at);
                else
                        sr_buf_append_char(out, (char)*at);
        }
}

// Adds the contents of a file to the digest. 0 or a negative errno.
static int digest_file(struct writing *w, const struct sr_walk_entry *entry)
{
        _cleanup_close_ int fd =
                openat(entry->parent_fd, entry->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        for (;;) {
                ssize_t n = read(fd, w->buffer, READ_SIZE);

                if (n == 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n > 0)
                        sr_digest_update(w->digest, w->buffer, (size_t)n);
        }
}

static int digest_target(struct writing *w, const struct sr_walk_entry *entry)
{
        ssize_t n = readlinkat(entry->parent_fd, entry->name, w->buffer, READ_SIZE);

        if (n < 0)
                return -errno;
        sr_digest_update(w->digest, w->buffer, (size_t)n);
        return 0;
}

static int write_entry(void *context, const struct sr_walk_entry *entry, struct sr_error **error)
{
        struct writing *w = context;
        const struct stat *stat = entry->stat;
        char type = S_ISDIR(stat->st_mode)   ? 'd'
                    : S_ISREG(stat->st_mode) ? 'f'
                    : S_ISLNK(stat->st_mode) ? 'l'
                                             : 'o';
        char hex[SR_DIGEST_HEX_LENGTH + 1] = "-";
        int r = 0;

        if (type == 'f')
                r = digest_file(w, entry);
        else if (type == 'l')
                r = digest_target(w, entry);
        if (r == 0 && (type == 'f' || type == 'l'))
                r = sr_digest_finish(w->digest, hex);
        if (r < 0) {
                _cleanup_free_ char *shown = sr_image_printable(entry->path);

                return sr_error_set(error, SR_ERROR_HOST, -r, "%s cannot be read back: %s", shown,
                                    strerror(-r));
        }
        w->entries++;
        if (type == 'f' && stat->st_nlink > 0)
                w->size += (uint64_t)stat->st_size / stat->st_nlink;
        escape(&w->escaped, entry->path);
        fprintf(w->file, "%c %04o %lld %s %s\n", type, (unsigned)stat->st_mode & 07777,
                type == 'd' ? 0LL : (long long)stat->st_size, hex, w->escaped.data);
        return 0;
}

int sr_image_tree_manifest_write(int root_fd, int directory_fd, int64_t *ret_size, struct sr_error **error)
{
        int fd = openat(directory_fd, SR_IMAGE_TREE_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        struct writing w = {.file = fd >= 0 ? fdopen(fd, "w") : NULL};
        const struct sr_walk_visitor visitor = {.visit = write_entry, .context = &w};

        if (w.file == NULL)
                return sr_error_set(error, SR_ERROR_HOST, errno,
                                    "the manifest of the tree cannot be made: %s", strerror(errno));
        w.digest = sr_digest_new();
        w.buffer = sr_calloc(READ_SIZE, 1);
        fprintf(w.file, TITLE COUNTS, w.entries, w.size);

        int r = sr_image_walk(root_fd, &visitor, error);

        if (r == 0) {
                bool good = fseek(w.file, 0, SEEK_SET) == 0 &&
                            fprintf(w.file, TITLE COUNTS, w.entries, w.size) > 0 && fflush(w.file) == 0 &&
                            !ferror(w.file);

                if (!good)
                        r = sr_error_set(error, SR_ERROR_HOST, errno,
                                         "the manifest of the tree cannot be written: %s", strerror(errno));
        }
        fclose(w.file);
        sr_digest_free(w.digest);
        free(w.buffer);
        sr_buf_clear(&w.escaped);
        if (r == 0)
                *ret_size = (int64_t)w.size;
        return r;
}

int sr_image_tree_manifest_size(int directory_fd, int64_t *ret_size)
{
        _cleanup_close_ int fd =
                openat(directory_fd, SR_IMAGE_TREE_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        char text[256] = {0};
        uint64_t entries, size;
        ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

        if (n < 0)
                return -errno;
        if (sscanf(text, TITLE "entries %20" SCNu64 " size %20" SCNu64, &entries, &size) != 2 ||
            size > INT64_MAX)
                return -EBADMSG;
        *ret_size = (int64_t)size;
        return 0;
}
