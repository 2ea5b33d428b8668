/* What a session's process may not do: a candidate is code that a stranger's model steered. */
#ifndef TILEFLEET_CONFINE_H
#define TILEFLEET_CONFINE_H

#include <stdint.h>

/* Limit this process for good, in two steps. The first: no core files, no file grows, `memory_bytes` of
 * address space (0: any), no new privileges, and no file is opened where the kernel has Landlock. Threads
 * that start after it are limited, too. */
void confine(uint64_t memory_bytes);

/* The second, for all threads: where the kernel filters system calls, those that calls.c does not list end
 * the process with SIGSYS. Nothing can be opened or started any more. */
void confine_calls(void);

/* The limits that hold, as a JSON list. */
const char *confine_limits(void);

#endif
