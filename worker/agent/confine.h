/* What a session's process may not do: a candidate is code that a stranger's model steered. */
#ifndef TILEFLEET_CONFINE_H
#define TILEFLEET_CONFINE_H

#include <stdint.h>

/* Limit this process for good: no core files, none written, `memory_bytes` of address space (0: any), no
 * new privileges, and, where the kernel filters system calls, no network, no programs, no other processes.
 * What a filter forbids ends the process with SIGSYS. */
void confine(uint64_t memory_bytes);

/* The limits that hold, as a JSON list. */
const char *confine_limits(void);

#endif
