// Writing to an image store: opening it, work in progress, and putting finished things in their place.
//
// Locks are flocks, which end with the process that holds them:
// - `lock` of the store, shared while something is brought in or run, exclusive while things are removed;
// - each directory in tmp/ is locked by who works in it. Its name says what is worked on where two must not
// do
//   that at once ("tree-<chain id>"), so that the second waits for the first. What nobody locks is leftover
//   and removed when the store is next opened for writing. No other lock is needed to delete what is there.
// The order is: store, then one's own work directory, then that of the image, then that of the tree.
//
// Finished things are published by rename after everything they consist of was written to disk (one syncfs
// for all), and a reference file comes last: a crash at any moment leaves an image whole or absent.
#pragma once

#include <stdbool.h>
#include <sys/file.h>

#include "base/buf.h"
#include "base/error.h"

// How long steps are told to whoever waits; NULL: not at all.
struct sr_image_progress {
        void (*report)(void *context, const char *sentence);
        void *context;
};
__attribute__((format(printf, 2, 3))) void sr_image_report(const struct sr_image_progress *progress,
                                                           const char *format, ...);

struct sr_image_writer;

// Opens the store at directory, making it when absent, takes its lock (operation is LOCK_SH, or LOCK_EX after
// at most SR_IMAGE_LOCK_WAIT_MS: then -EBUSY). Leftovers are removed now with LOCK_SH, and with LOCK_EX by
// sr_image_writer_unlock, so that nobody waits for that.
int sr_image_writer_open(const char *directory, int operation, struct sr_image_writer **ret,
                         struct sr_error **error);
struct sr_image_writer *sr_image_writer_close(struct sr_image_writer *writer);
void sr_image_writer_closep(struct sr_image_writer **writer);
#define _cleanup_writer_ __attribute__((cleanup(sr_image_writer_closep)))
// Gives up the store's lock before the writer is closed, and removes leftovers. From then on only work
// directories, whose own locks keep them, may be touched.
void sr_image_writer_unlock(struct sr_image_writer *writer);
// The store's directory, borrowed, and its path.
int sr_image_writer_fd(const struct sr_image_writer *writer);
const char *sr_image_writer_path(const struct sr_image_writer *writer);

struct sr_image_work;

// Takes the work directory tmp/<name>, making it, or waiting until whoever has it is done; it is empty then.
// *ret_waited (may be NULL) tells whether another process had it.
int sr_image_work_open(struct sr_image_writer *writer, const char *name,
                       const struct sr_image_progress *progress, struct sr_image_work **ret, bool *ret_waited,
                       struct sr_error **error);
// Takes one of our own, named <prefix>-<random>.
int sr_image_work_open_unique(struct sr_image_writer *writer, const char *prefix, struct sr_image_work **ret,
                              struct sr_error **error);
// Removes it with its contents, and lets the next process have it.
struct sr_image_work *sr_image_work_close(struct sr_image_work *work);
void sr_image_work_closep(struct sr_image_work **work);
#define _cleanup_work_ __attribute__((cleanup(sr_image_work_closep)))
int sr_image_work_fd(const struct sr_image_work *work);
const char *sr_image_work_name(const struct sr_image_work *work); // "tree-…", below tmp/

// Writes everything of the store to disk.
int sr_image_writer_sync(struct sr_image_writer *writer, struct sr_error **error);
// Renames work/name to path in the store, replacing a file but not a directory with something in it.
// *ret_there (may be NULL) is set when such a directory was there. Its new directory is written to disk.
int sr_image_publish(struct sr_image_writer *writer, const struct sr_image_work *work, const char *name,
                     const char *path, bool *ret_there, struct sr_error **error);
// Writes bytes to the new file work/name, synced to disk when durable.
int sr_image_work_write(const struct sr_image_work *work, const char *name, const struct sr_buf *bytes,
                        bool durable, struct sr_error **error);
