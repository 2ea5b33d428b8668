/* Scratch memory of candidates.
 *
 * A kernel takes and gives back the same buffers in every call. Fresh pages would be faulted in, zeroed and
 * timed each time, so given-back blocks are kept, a short list a thread, and handed out again. */
#ifndef TILEFLEET_WORKSPACE_H
#define TILEFLEET_WORKSPACE_H

#include <stdint.h>

enum { WORKSPACE_ALIGNMENT = 128 };

/* A block of at least `bytes`, aligned to WORKSPACE_ALIGNMENT; NULL and a pending error without memory. */
void *workspace_take(uint64_t bytes);

/* Give a block back, on any thread. */
void workspace_give(void *block);

/* Free the blocks that this thread keeps: the next ones do not depend on what ran before. */
void workspace_clear(void);

/* How many blocks were allocated anew so far. */
unsigned long workspace_allocations(void);

#endif
