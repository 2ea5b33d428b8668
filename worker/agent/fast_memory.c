#include "fast_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "simulation.h"
#include "workspace.h"

enum { MAX_BLOCKS = 32 };

typedef struct {
  size_t begin, end;
} Block;

/* One thread at a time: boards with fast memory are simulated, and those have one. */
static char *memory;
static size_t size;
static Block blocks[MAX_BLOCKS]; /* in order */
static int count;

int fast_memory_open(size_t bytes) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return -1;
  memory = mapped;
  size = bytes;
  simulation_fast_memory(memory, size);
  return 0;
}

bool fast_memory_is_there(void) { return size; }

static size_t taken(void) {
  size_t sum = 0;
  for (int i = 0; i < count; i++) sum += blocks[i].end - blocks[i].begin;
  return sum;
}

void *fast_memory_take(uint64_t bytes) {
  int at = 0;
  size_t begin = 0;
  while (at < count && bytes > blocks[at].begin - begin) begin = blocks[at++].end;
  if (count == MAX_BLOCKS || bytes > size - begin) {
    error_set("out of fast memory: %llu bytes are asked for, and %zu of %zu are taken", (unsigned long long)bytes,
              taken(), size);
    return NULL;
  }
  size_t whole = ((size_t)bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
  memmove(blocks + at + 1, blocks + at, (size_t)(count++ - at) * sizeof *blocks);
  blocks[at] = (Block){begin, begin + whole};
  return memory + begin;
}

void fast_memory_give(void *block) {
  size_t begin = (size_t)((char *)block - memory);
  for (int i = 0; i < count; i++)
    if (blocks[i].begin == begin) {
      memmove(blocks + i, blocks + i + 1, (size_t)(--count - i) * sizeof *blocks);
      return;
    }
}

void fast_memory_clear(void) { count = 0; }
