#include "workspace.h"

#include <stddef.h>
#include <stdlib.h>

#include "error.h"

enum { KEPT_BLOCKS = 32 };

/* Precedes every block, in a whole alignment unit so that the block itself stays aligned. */
typedef struct {
  size_t bytes;
} Header;

static _Thread_local Header *kept[KEPT_BLOCKS];
static _Thread_local int num_kept;

void *workspace_take(uint64_t bytes) {
  int best = -1;
  for (int i = 0; i < num_kept; i++)
    if (kept[i]->bytes >= bytes && (best < 0 || kept[i]->bytes < kept[best]->bytes)) best = i;
  if (best >= 0) {
    Header *header = kept[best];
    kept[best] = kept[--num_kept];
    return (char *)header + WORKSPACE_ALIGNMENT;
  }
  void *memory = NULL;
  if (bytes > SIZE_MAX - WORKSPACE_ALIGNMENT ||
      posix_memalign(&memory, WORKSPACE_ALIGNMENT, (size_t)bytes + WORKSPACE_ALIGNMENT)) {
    error_set("out of memory: a workspace of %llu bytes", (unsigned long long)bytes);
    return NULL;
  }
  ((Header *)memory)->bytes = (size_t)bytes;
  return (char *)memory + WORKSPACE_ALIGNMENT;
}

void workspace_give(void *block) {
  if (!block) return;
  Header *header = (Header *)((char *)block - WORKSPACE_ALIGNMENT);
  if (num_kept == KEPT_BLOCKS) {
    free(header);
    return;
  }
  kept[num_kept++] = header;
}
