// Large parts of the kernel with a history of escapes, which nothing that is run here needs.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escape.h"

#define REFUSED ERRORS(EPERM, ENOSYS)

#define CALL(function, number, ...)                                                                          \
        static void function(struct trial *trial)                                                            \
        {                                                                                                    \
                expect(trial, NULL, syscall(number, __VA_ARGS__), REFUSED);                                  \
        }
CALL(add_key, SYS_add_key, "user", "escape", "x", 1ul, -3)
CALL(request_key, SYS_request_key, "user", "escape", NULL, 0)
CALL(userfaultfd, SYS_userfaultfd, 1)
CALL(secret_memory, SYS_memfd_secret, 0)
CALL(perf, SYS_perf_event_open, (uint64_t[16]){1, 0x80}, 0, -1, -1, 0ul)
CALL(cookie, SYS_lookup_dcookie, 1ul, "", 0ul)
CALL(move_pages, SYS_move_pages, 1, 0ul, NULL, NULL, NULL, 0)
CALL(migrate_pages, SYS_migrate_pages, 1, 0ul, NULL, NULL)
CALL(unknown, 1023, 0)

static void keyctl(struct trial *trial)
{
        expect(trial, "session keyring", syscall(SYS_keyctl, 0, -3, 0), REFUSED);
        expect(trial, "user keyring", syscall(SYS_keyctl, 0, -4, 1), REFUSED);
        expect(trial, "join", syscall(SYS_keyctl, 1, NULL), REFUSED);
        expect(trial, "describe", syscall(SYS_keyctl, 6, -4, NULL, 0), REFUSED);
}

static void io_uring(struct trial *trial)
{
        uint32_t parameters[30] = {0};

        expect(trial, "setup", syscall(SYS_io_uring_setup, 1, parameters), REFUSED);
        expect(trial, "enter", syscall(SYS_io_uring_enter, -1, 0, 0, 0, NULL, 0ul), REFUSED);
        expect(trial, "register", syscall(SYS_io_uring_register, -1, 0, NULL, 0), REFUSED);
}

static void aio(struct trial *trial)
{
        unsigned long context = 0;

        expect(trial, NULL, syscall(SYS_io_setup, 1, &context), REFUSED);
}

static void bpf(struct trial *trial)
{
        uint32_t map[32] = {2, 4, 4, 1};
        uint64_t program[16] = {1};

        expect(trial, "map", syscall(SYS_bpf, 0, map, sizeof(map)), REFUSED);
        expect(trial, "program", syscall(SYS_bpf, 5, program, sizeof(program)), REFUSED);
}

static void numa(struct trial *trial)
{
        expect(trial, "mbind", syscall(SYS_mbind, NULL, 0ul, 0, NULL, 0ul, 0), REFUSED);
        expect(trial, "set_mempolicy", syscall(SYS_set_mempolicy, 0, NULL, 0ul), REFUSED);
}

static void listing_mounts(struct trial *trial)
{
        uint64_t request[4] = {32, UINT64_MAX}, ids[8];

        expect(trial, "statmount", syscall(457, request, ids, sizeof(ids), 0), REFUSED);
        expect(trial, "listmount", syscall(458, request, ids, 8ul, 0), REFUSED);
}

static const struct attempt attempts[] = {
        {"add-key", ALONE, "add a key to a keyring", add_key, NULL},
        {"keyctl", ALONE, "reach keyrings", keyctl, NULL},
        {"request-key", ALONE, "have the kernel ask for a key", request_key, NULL},
        {"io-uring", ALONE, "io_uring", io_uring, NULL},
        {"kernel-aio", ALONE, "the older asynchronous io", aio, NULL},
        {"bpf", ALONE, "bpf maps and programs", bpf, NULL},
        {"userfaultfd", ALONE, "handle page faults of the kernel", userfaultfd, NULL},
        {"perf", ALONE, "perf_event_open", perf, NULL},
        {"memfd-secret", ALONE, "memory that the kernel cannot see", secret_memory, NULL},
        {"lookup-dcookie", ALONE, "lookup_dcookie", cookie, NULL},
        {"move-pages", ALONE, "move pages of pid 1", move_pages, NULL},
        {"migrate-pages", ALONE, "migrate pages of pid 1", migrate_pages, NULL},
        {"memory-policy", ALONE, "bind memory to nodes", numa, NULL},
        {"list-mounts", ALONE, "listmount, statmount", listing_mounts, NULL},
        {"unknown-call", ALONE, "a call that no kernel has yet", unknown, NULL},
};
SUBJECT(surface_subject, "kernel surfaces", attempts);
