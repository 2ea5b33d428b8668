/* A simulated board's fast memory (Hexagon's VTCM): scratch memory of a fixed size, of which candidates take
 * blocks. The clock charges accesses by where they go, so what does not fit never comes from elsewhere. */
#ifndef TILEFLEET_FAST_MEMORY_H
#define TILEFLEET_FAST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Have `bytes` of it, and tell the clock where; 0, or -1 without memory. Before any session. */
int fast_memory_open(size_t bytes);

/* Whether this board has any. */
bool fast_memory_is_there(void);

/* A block of at least `bytes`, aligned to WORKSPACE_ALIGNMENT; NULL and a pending error where it does not fit. */
void *fast_memory_take(uint64_t bytes);

/* Give a block back. */
void fast_memory_give(void *block);

/* Give all blocks back. */
void fast_memory_clear(void);

#endif
