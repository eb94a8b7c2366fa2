// Shared by the files of src/control only.
#pragma once

#include "base/buf.h"
#include "control/control.h"

// The longest request a server reads, and the longest answer a client reads: both well above what is sent.
#define CONTROL_REQUEST_MAX 16384
#define CONTROL_ANSWER_MAX  (1024 * 1024)
// How long one exchange may take on either side.
#define CONTROL_PATIENCE_MS 2000

// Opens a directory that can be trusted. make: as a server does, which makes it when it is missing. -ENOENT
// when it is not there; another negative errno with the reason why it will not do.
int control_directory_open(const char *path, bool make, int *ret, struct sr_error **error);
// The names of the sockets in it, as a strv, and the pids that they are called by.
int control_directory_list(int directory, char ***ret, struct sr_error **error);
// The pid of a name, 0 when it is no name of a socket of ours.
int64_t control_name_pid(const char *name);
// Keeps others from looking for dead sockets or making new ones. Returns whether the lock was got: who holds
// it too long is not waited for.
bool control_directory_lock(int directory);
void control_directory_unlock(int directory);
// A socket that is bound to a name in the directory and listens.
int control_listen(int directory, const char *name, int *ret, struct sr_error **error);
// A connection, which does not block; -ECONNREFUSED: nobody listens; -EAGAIN: the server is behind.
int control_connect(int directory, const char *name);
// Removes the socket if still nobody listens on it. false when the lock could not be had.
bool control_remove_dead(int directory, const char *name);

// The answer to one line, with its line end.
void control_answer(struct sr_runner *runner, const char *kind, const char *line, size_t length,
                    struct sr_buf *out);
