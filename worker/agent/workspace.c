#include "workspace.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "arch.h"
#include "error.h"
#include "simulation.h"

enum { KEPT_BLOCKS = 32 };

/* Precedes every block, in a whole alignment unit so that the block itself stays aligned. */
typedef struct {
  size_t bytes;
} Header;

typedef struct {
  Header *blocks[KEPT_BLOCKS];
  int count;
  unsigned long cleared; /* how often that was asked for */
} Kept;

static ARCH_THREAD_LOCAL Kept mine;
static atomic_ulong allocations, clears; /* of all threads */

/* What the calling thread keeps, less what was to be freed. */
static Kept *kept_by_me(void) {
  Kept *kept = &mine;
  unsigned long asked = atomic_load(&clears);
  if (kept->cleared != asked) {
    while (kept->count) free(kept->blocks[--kept->count]);
    kept->cleared = asked;
  }
  return kept;
}

static Header *allocate(uint64_t bytes) {
  size_t alignment = simulation_active() ? (size_t)SIMULATION_ALIGNMENT : (size_t)WORKSPACE_ALIGNMENT;
  void *memory = NULL;
  if (bytes > SIZE_MAX - WORKSPACE_ALIGNMENT ||
      posix_memalign(&memory, alignment, (size_t)bytes + WORKSPACE_ALIGNMENT)) {
    error_set("out of memory: a workspace of %llu bytes", (unsigned long long)bytes);
    return NULL;
  }
  Header *header = memory;
  header->bytes = (size_t)bytes;
  return header;
}

void *workspace_take(uint64_t bytes) {
  Kept *kept = kept_by_me();
  int best = -1;
  for (int i = 0; i < kept->count; i++)
    if (kept->blocks[i]->bytes >= bytes && (best < 0 || kept->blocks[i]->bytes < kept->blocks[best]->bytes)) best = i;
  Header *header;
  if (best >= 0) {
    header = kept->blocks[best];
    kept->blocks[best] = kept->blocks[--kept->count];
  } else {
    header = allocate(bytes);
    if (!header) return NULL;
    atomic_fetch_add(&allocations, 1);
  }
  return (char *)header + WORKSPACE_ALIGNMENT;
}

void workspace_give(void *block) {
  if (!block) return;
  Kept *kept = kept_by_me();
  Header *header = (Header *)((char *)block - WORKSPACE_ALIGNMENT);
  if (kept->count == KEPT_BLOCKS) {
    free(header);
    return;
  }
  kept->blocks[kept->count++] = header;
}

void workspace_clear(void) {
  atomic_fetch_add(&clears, 1);
  kept_by_me();
}

unsigned long workspace_allocations(void) { return atomic_load(&allocations); }
