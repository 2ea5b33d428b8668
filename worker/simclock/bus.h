/* The memory that all cores share: how many lines it moves in a time. */
#ifndef TILEFLEET_BUS_H
#define TILEFLEET_BUS_H

#include <stdint.h>

/* What a line keeps the memory busy for, in ticks; 0: it never is the limit. */
void bus_configure(uint64_t line_ticks);

/* Forget what was moved; windows begin at `now`. */
void bus_reset(uint64_t now);

/* Move a line for `core` at `now`: the ticks until it can begin. A core alone is never held up. */
uint64_t bus_wait(const void *core, uint64_t now);

#endif
