// A thread that does one thing after another, for what may take a while but must not keep a transport from
// reading. Private to src/mcp.
#pragma once

#include <stddef.h>

struct sr_mcp_worker;

// At most room pieces of work wait besides the one that is being done. No thread is started yet: that is for
// the first piece.
struct sr_mcp_worker *sr_mcp_worker_new(size_t room);
// Puts work at the end of the queue; it gets context on the worker's thread. -EBUSY when the queue is full,
// another negative errno when no thread could be started; work is not called then.
int sr_mcp_worker_submit(struct sr_mcp_worker *worker, void (*work)(void *context), void *context);
// Waits for what was submitted. Accepts NULL; returns NULL.
struct sr_mcp_worker *sr_mcp_worker_free(struct sr_mcp_worker *worker);
