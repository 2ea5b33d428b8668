/* A core that takes instructions in their order and begins them when their sources and pipes are there: what its front
 * end, window, queues, pipes and chains of results allow together. */
#ifndef TILEFLEET_DISPATCH_H
#define TILEFLEET_DISPATCH_H

#include "loops.h"

/* Ticks of a turn of the loop through `count` blocks, in the steady state. Pipes count where they have queues. */
uint64_t dispatch_turn(const PriceTable *table, Block *const *blocks, size_t count);

#endif
