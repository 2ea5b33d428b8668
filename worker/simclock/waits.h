/* System calls in which a thread waits for another one. The clock decides when it goes on, not the host's kernel. */
#ifndef TILEFLEET_WAITS_H
#define TILEFLEET_WAITS_H

#include "core.h"

/* `isa` is whose numbers the calls have, `cores` how many CPUs a program is told of, `wake_ticks` how long a thread takes
 * from being woken until it runs; false for an unknown isa. */
bool waits_configure(const char *isa, uint64_t cores, uint64_t wake_ticks);

/* The call that a thread made last has made this one. */
void waits_begin(Core *core);

/* A thread makes a call. */
void waits_call(Core *core, int64_t number, const uint64_t *arguments);

/* The call is done. */
void waits_return(Core *core, int64_t number, int64_t result);

#endif
