// What the image tests share: a private directory, and archives and layouts made piece by piece.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/fd.h"
#include "image/walk.h"

#define UNUSED __attribute__((unused))

// A directory of its own for each test; *state is its path.
UNUSED static int directory_setup(void **state)
{
        char template[] = "/tmp/sr-image-XXXXXX";

        *state = sr_strdup(mkdtemp(template));
        return 0;
}

UNUSED static int directory_teardown(void **state)
{
        assert_int_equal(sr_image_remove_tree(AT_FDCWD, *state, NULL), 0);
        free(*state);
        return 0;
}

#define directory_test(name) cmocka_unit_test_setup_teardown(name, directory_setup, directory_teardown)

UNUSED static char *path_in(void **state, const char *name)
{
        return sr_asprintf("%s/%s", (const char *)*state, name);
}

UNUSED static void write_file(const char *path, const void *bytes, size_t length)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, bytes, length), 0);
}

UNUSED static char *read_text(int fd, const char *path)
{
        struct sr_buf buf = {0};

        assert_int_equal(sr_fd_read_file(fd, path, 1 << 24, &buf), 0);
        return sr_buf_steal(&buf, NULL);
}

// The message must have all of these in it; NULL-terminated.
UNUSED static void assert_message(const struct sr_error *error, ...)
{
        const char *message = sr_error_message(error);
        va_list parts;

        assert_non_null(error);
        va_start(parts, error);
        for (const char *part; (part = va_arg(parts, const char *)) != NULL;)
                if (strstr(message, part) == NULL)
                        fail_msg("\"%s\" is not in \"%s\"", part, message);
        va_end(parts);
}

// A tar archive in memory. filter is ARCHIVE_FILTER_NONE, _GZIP or _ZSTD.
struct tar {
        struct archive *archive;
        struct sr_buf bytes;
};

UNUSED static la_ssize_t tar_write(struct archive *archive, void *context, const void *bytes, size_t length)
{
        struct tar *tar = context;

        (void)archive;
        sr_buf_append(&tar->bytes, bytes, length);
        return (la_ssize_t)length;
}

UNUSED static void tar_begin(struct tar *tar, int filter)
{
        *tar = (struct tar){.archive = archive_write_new()};
        assert_int_equal(archive_write_add_filter(tar->archive, filter), ARCHIVE_OK);
        assert_int_equal(archive_write_set_format_pax_restricted(tar->archive), ARCHIVE_OK);
        assert_int_equal(archive_write_set_bytes_in_last_block(tar->archive, 1), ARCHIVE_OK);
        assert_int_equal(archive_write_open(tar->archive, tar, NULL, tar_write, NULL), ARCHIVE_OK);
}

struct tar_entry {
        int type; // AE_IF…, 0 for a hard link
        unsigned mode;
        const char *link;     // target
        const void *contents; // of a file
        size_t length;
        time_t mtime; // 0: one fixed time
};

#define TAR_TIME 1000000000

UNUSED static void tar_add(struct tar *tar, const char *path, struct tar_entry e)
{
        struct archive_entry *entry = archive_entry_new();
        // For the writer alone: readers must not need it.
        locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before = uselocale(utf8);

        archive_entry_set_pathname(entry, path);
        archive_entry_set_filetype(entry, e.type != 0 ? (unsigned)e.type : AE_IFREG);
        archive_entry_set_perm(entry, (mode_t)e.mode);
        archive_entry_set_size(entry, (la_int64_t)e.length);
        archive_entry_set_mtime(entry, e.mtime != 0 ? e.mtime : TAR_TIME, 0);
        if (e.type == AE_IFLNK)
                archive_entry_set_symlink(entry, e.link);
        else if (e.link != NULL)
                archive_entry_set_hardlink(entry, e.link);
        if (archive_write_header(tar->archive, entry) != ARCHIVE_OK)
                fail_msg("%s: %s", path, archive_error_string(tar->archive));
        if (e.length > 0)
                assert_int_equal(archive_write_data(tar->archive, e.contents, e.length), e.length);
        archive_entry_free(entry);
        uselocale(before);
        freelocale(utf8);
}

UNUSED static void tar_file(struct tar *tar, const char *path, const char *text)
{
        tar_add(tar, path, (struct tar_entry){AE_IFREG, 0644, NULL, text, strlen(text), 0});
}

UNUSED static void tar_directory(struct tar *tar, const char *path)
{
        tar_add(tar, path, (struct tar_entry){.type = AE_IFDIR, .mode = 0755});
}

UNUSED static void tar_symlink(struct tar *tar, const char *path, const char *target)
{
        tar_add(tar, path, (struct tar_entry){.type = AE_IFLNK, .mode = 0777, .link = target});
}

UNUSED static void tar_hardlink(struct tar *tar, const char *path, const char *target)
{
        tar_add(tar, path, (struct tar_entry){.mode = 0644, .link = target});
}

UNUSED static void tar_end(struct tar *tar)
{
        assert_int_equal(archive_write_close(tar->archive), ARCHIVE_OK);
        archive_write_free(tar->archive);
        tar->archive = NULL;
}

// The bytes as a file that can be read from its start.
UNUSED static int bytes_fd(const struct sr_buf *bytes)
{
        int fd = memfd_create("bytes", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(sr_fd_write_all(fd, bytes->data, bytes->len), 0);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return fd;
}
