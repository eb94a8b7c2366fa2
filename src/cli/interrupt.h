// SIGINT, SIGTERM and SIGHUP while something runs: the first ends the run in an orderly way, a second ends
// the command at once (the spawner sees its socket close and takes everything with it).
#pragma once

struct sr_run_cancel;

// From here on the signals fire cancel (may be NULL) and make the returned descriptor readable for good. A
// signal that the caller had ignored (nohup, a background job) stays ignored. Negative errno on failure.
int sr_interrupt_catch(struct sr_run_cancel *cancel);
// The signals go back to ending the process; cancel is no longer touched.
void sr_interrupt_release(void);
// The signal that came, 0 when none has.
int sr_interrupt_signal(void);
