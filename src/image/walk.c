// Theory of operation: the walk keeps one descriptor, of the directory it is in, and for each level above it
// the names still to visit. It goes up through "..", and checks that it arrives where it came from: whoever
// may write to the tree could have moved a directory elsewhere meanwhile, and removing there as root would be
// removing what was never meant.
#include "image/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "image/text.h"

struct level {
        dev_t device;
        ino_t inode;
        char **names;
        size_t next;        // index into names of what comes next
        size_t path_length; // of the path of this directory
        struct stat stat;   // of the directory itself, as visited
};

struct walk {
        const struct sr_walk_visitor *visitor;
        struct level *levels;
        size_t depth, room;
        int fd; // the directory of the deepest level
        struct sr_buf path;
        struct sr_error **error;
};

static int fail_at(const char *path, const char *what, int errnum, struct sr_error **error)
{
        _cleanup_free_ char *shown = sr_image_printable(path);

        return sr_error_set(error, SR_ERROR_INTERNAL, errnum, "%s %s: %s", what, shown, strerror(errnum));
}

static int fail(struct walk *walk, const char *what, int errnum)
{
        return fail_at(walk->path.len > 0 ? walk->path.data : ".", what, errnum, walk->error);
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_dots(const char *name)
{
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int sr_image_read_names(int fd, char ***ret)
{
        int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
        _cleanup_strv_ char **names = NULL;
        size_t count = 0, room = 0;

        if (directory == NULL) {
                int errnum = errno;

                sr_fd_close(copy);
                return -errnum;
        }
        errno = 0;
        for (const struct dirent *entry; (entry = readdir(directory)) != NULL; errno = 0) {
                if (is_dots(entry->d_name))
                        continue;
                if (count + 1 >= room) {
                        room = room > 0 ? room * 2 : 16;
                        names = sr_realloc(names, room, sizeof(*names));
                }
                names[count++] = sr_strdup(entry->d_name);
                names[count] = NULL;
        }

        int errnum = errno;

        closedir(directory);
        if (errnum != 0)
                return -errnum;
        if (count > 1)
                qsort(names, count, sizeof(*names), compare_names);
        *ret = sr_steal(names);
        return 0;
}

// Makes the directory open as fd (taken over) the one that is walked.
static int push(struct walk *walk, int fd)
{
        struct level level = {.path_length = walk->path.len};
        int r = fstat(fd, &level.stat) < 0 ? -errno : sr_image_read_names(fd, &level.names);

        if (r < 0) {
                sr_fd_close(fd);
                return fail(walk, "cannot read the directory", -r);
        }
        level.device = level.stat.st_dev;
        level.inode = level.stat.st_ino;
        if (walk->depth == walk->room) {
                walk->room = walk->room > 0 ? walk->room * 2 : 16;
                walk->levels = sr_realloc(walk->levels, walk->room, sizeof(*walk->levels));
        }
        walk->levels[walk->depth++] = level;
        sr_fd_close(walk->fd);
        walk->fd = fd;
        return 0;
}

// Returns to the directory above, which must be the one that the walk came from.
static int go_up(struct walk *walk)
{
        const struct level *above = &walk->levels[walk->depth - 2];
        _cleanup_close_ int fd = openat(walk->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat found;

        if (fd < 0 || fstat(fd, &found) < 0)
                return fail(walk, "cannot leave the directory", errno);
        if (found.st_dev != above->device || found.st_ino != above->inode)
                return fail(walk, "somebody moved the directory", EBUSY);
        sr_fd_close(walk->fd);
        walk->fd = sr_fd_steal(fd);
        return 0;
}

static struct sr_walk_entry describe(const struct walk *walk, const struct level *parent,
                                     const struct stat *stat)
{
        const char *path = walk->path.data;

        return (struct sr_walk_entry){
                .parent_fd = walk->fd,
                .parent_inode = parent->inode,
                .name = path + parent->path_length + (parent->path_length > 0 ? 1 : 0),
                .path = path,
                .stat = stat,
        };
}

// Ends the deepest directory: its visitor is told, and the path becomes that of the one above.
static int pop(struct walk *walk)
{
        struct level *done = &walk->levels[walk->depth - 1];
        int r = 0;

        if (walk->depth > 1) {
                const struct level *above = done - 1;

                walk->path.len = done->path_length;
                walk->path.data[walk->path.len] = '\0';
                r = go_up(walk);
                if (r == 0 && walk->visitor->leave != NULL) {
                        struct sr_walk_entry entry = describe(walk, above, &done->stat);

                        r = walk->visitor->leave(walk->visitor->context, &entry, walk->error);
                }
        }
        sr_strv_free(done->names);
        walk->depth--;
        return r;
}

// Visits the next name of the deepest directory, and goes into it when it is one itself.
static int visit_next(struct walk *walk)
{
        struct level *level = &walk->levels[walk->depth - 1];
        struct stat stat;

        walk->path.len = level->path_length;
        if (walk->path.len > 0)
                sr_buf_append_char(&walk->path, '/');
        sr_buf_append_text(&walk->path, level->names[level->next++]);

        struct sr_walk_entry entry = describe(walk, level, &stat);

        if (fstatat(walk->fd, entry.name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : fail(walk, "cannot look at", errno);

        int r = walk->visitor->visit(walk->visitor->context, &entry, walk->error);

        if (r < 0 || !S_ISDIR(stat.st_mode))
                return r;

        int fd = openat(walk->fd, entry.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT ? 0 : fail(walk, "cannot open the directory", errno);
        return push(walk, fd);
}

int sr_image_walk(int fd, const struct sr_walk_visitor *visitor, struct sr_error **error)
{
        struct walk walk = {.visitor = visitor, .fd = -1, .error = error};
        int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = top < 0 ? fail(&walk, "cannot open", errno) : push(&walk, top);

        while (r == 0 && walk.depth > 0) {
                const struct level *level = &walk.levels[walk.depth - 1];

                if (level->names != NULL && level->names[level->next] != NULL)
                        r = visit_next(&walk);
                else
                        r = pop(&walk);
        }
        while (walk.depth > 0)
                sr_strv_free(walk.levels[--walk.depth].names);
        free(walk.levels);
        sr_fd_close(walk.fd);
        sr_buf_clear(&walk.path);
        return r;
}

static int remove_name(const struct sr_walk_entry *entry, int flags, struct sr_error **error)
{
        if (unlinkat(entry->parent_fd, entry->name, flags) == 0 || errno == ENOENT)
                return 0;

        return fail_at(entry->path, "cannot remove", errno, error);
}

static int remove_visit(void *context, const struct sr_walk_entry *entry, struct sr_error **error)
{
        (void)context;
        if (!S_ISDIR(entry->stat->st_mode))
                return remove_name(entry, 0, error);
        // Its owner may have closed it to himself; root needs no such help. Were the name a link by now, an
        // ordinary user could only reach what is his own.
        if ((entry->stat->st_mode & S_IRWXU) != S_IRWXU && geteuid() != 0)
                (void)!fchmodat(entry->parent_fd, entry->name, S_IRWXU, 0);
        return 0;
}

static int remove_leave(void *context, const struct sr_walk_entry *entry, struct sr_error **error)
{
        (void)context;
        return remove_name(entry, AT_REMOVEDIR, error);
}

int sr_image_remove_contents(int fd, struct sr_error **error)
{
        static const struct sr_walk_visitor visitor = {.visit = remove_visit, .leave = remove_leave};

        return sr_image_walk(fd, &visitor, error);
}

int sr_image_remove_tree(int parent_fd, const char *name, struct sr_error **error)
{
        struct stat stat;

        if (fstatat(parent_fd, name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : fail_at(name, "cannot look at", errno, error);

        struct sr_walk_entry top = {.parent_fd = parent_fd, .name = name, .path = name, .stat = &stat};

        if (!S_ISDIR(stat.st_mode))
                return remove_name(&top, 0, error);
        (void)remove_visit(NULL, &top, NULL);

        _cleanup_close_ int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd < 0)
                return fail_at(name, "cannot open", errno, error);

        _cleanup_free_ char *shown = sr_image_printable(name);
        int r = sr_image_remove_contents(fd, error);

        if (r < 0)
                return sr_error_prefix(error, r, "in %s", shown);
        return remove_name(&top, AT_REMOVEDIR, error);
}
