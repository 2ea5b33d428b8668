#include "workspace.h"

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
  unsigned long allocations;
} Kept;

static ARCH_THREAD_LOCAL Kept mine;

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
  Kept *kept = &mine;
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
    kept->allocations++;
  }
  return (char *)header + WORKSPACE_ALIGNMENT;
}

void workspace_give(void *block) {
  if (!block) return;
  Kept *kept = &mine;
  Header *header = (Header *)((char *)block - WORKSPACE_ALIGNMENT);
  if (kept->count == KEPT_BLOCKS) {
    free(header);
    return;
  }
  kept->blocks[kept->count++] = header;
}

void workspace_clear(void) {
  Kept *kept = &mine;
  while (kept->count) free(kept->blocks[--kept->count]);
}

unsigned long workspace_allocations(void) { return mine.allocations; }
