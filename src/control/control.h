// Listing and ending runs from outside the process that runs them: what `ps` and `stop` are made of.
//
// Theory of operation. A process that runs snippets listens on a Unix stream socket, <pid>.sock, in a
// directory that only its user can enter. A client sends one line of JSON and gets one line back; the
// connection is closed then. Nothing is kept between requests: who wants to see a run's end asks to end it
// again.
//
//   {"method":"list","after":N}           runs whose number is above N (default 0), PAGE of them at most
//     → {"server":"serve","last":12,"runs":[{"number":7,"language":"python","state":"run","asked_us":…,
//        "elapsed_ms":…,"timeout_ms":…,"code":"first line"}],"more":false}
//   {"method":"stop","runs":[7,8]}        ends these
//     → {"runs":["ending","ended","unknown"]}, in the order asked for
//   anything else → {"error":"a sentence"}
//
// The id of a run is <pid>.<number>; numbers are never given twice. One thread serves all clients, each for a
// bounded time and with bounded memory, and takes the lock that runs share for moments only. Whoever is not
// the same user or root is not answered. A socket that nobody listens on any more is removed by whoever finds
// it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sr_runner;
struct sr_control;

struct sr_control_options {
        // Where the socket may be: the first that will do is taken. Each is made when only its last part is
        // missing; it must belong to us, be closed to others and be no symbolic link. Borrowed.
        char *const *directories;
        const char *kind;         // how lists call this process: "serve" or "run"
        struct sr_runner *runner; // borrowed
};

// Listens and starts the thread. An error says why none of the directories will do (*ret is NULL then). An
// empty list: nothing is started, *ret is NULL.
int sr_control_start(const struct sr_control_options *options, struct sr_control **ret,
                     struct sr_error **error);
// Ends the thread and removes the socket. Accepts NULL; returns NULL.
struct sr_control *sr_control_stop(struct sr_control *control);
void sr_control_stopp(struct sr_control **control);
#define _cleanup_control_ __attribute__((cleanup(sr_control_stopp)))

// What a client sees. Texts come from the servers and may hold control characters.
struct sr_control_run {
        uint64_t number;
        char *language, *state, *code;
        int64_t asked_us; // Unix time
        double elapsed_ms, timeout_ms;
};

struct sr_control_server {
        int64_t pid;
        char *kind;
        uint64_t last; // highest number given so far
        struct sr_control_run *runs;
        size_t count;
        size_t place; // private
};

struct sr_control_view {
        struct sr_control_server *servers;
        size_t count;
        char **problems; // sentences: what could not be looked at. NULL when all is well
        bool incomplete; // a server did not answer
        int *places;     // private: descriptors of directories
        size_t place_count;
};

// Asks every server in the directories. Absent directories and those that hold nothing make an empty view. An
// error when there are directories, but none that can be trusted. The caller frees *ret.
int sr_control_look(char *const *directories, struct sr_control_view **ret, struct sr_error **error);
struct sr_control_view *sr_control_view_free(struct sr_control_view *view);
void sr_control_view_freep(struct sr_control_view **view);
#define _cleanup_view_ __attribute__((cleanup(sr_control_view_freep)))

// How many runs one request can name.
#define SR_CONTROL_PAGE 100

enum sr_control_end { SR_CONTROL_ENDING, SR_CONTROL_ENDED, SR_CONTROL_UNKNOWN };
// Asks a server of the view to end runs; one that has gone has ended all of them. ret has room for count
// answers. An error when it does not answer.
int sr_control_end(const struct sr_control_view *view, const struct sr_control_server *server,
                   const uint64_t *numbers, size_t count, enum sr_control_end *ret, struct sr_error **error);
