/* Memory beside the caches that code fills itself (Hexagon's VTCM): nothing in it takes a place in a cache.
 *
 * Vectors in it cost what their instruction takes, and nothing else. Loads and stores of scalar registers cost
 * fast_cycles each, an option that boards with such memory have: no cache holds what lies there. */
#ifndef TILEFLEET_FAST_MEMORY_H
#define TILEFLEET_FAST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "caches.h"

/* What a scalar access costs, in ticks. */
void fast_memory_configure(uint64_t scalar_ticks);

/* It is [address, address + bytes) from here on. */
void fast_memory_place(uint64_t address, uint64_t bytes);

/* Access [address, address + bytes); adds to `cost`. False, and nothing is added, where other memory is. */
bool fast_memory_access(uint64_t address, unsigned bytes, bool is_vector, MemoryCost *cost);

#endif
