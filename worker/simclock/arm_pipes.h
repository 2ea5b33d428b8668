/* What the classifiers of both Arm instruction sets share: the widths of a Cortex-A57's and A72's pipes. */
#ifndef TILEFLEET_ARM_PIPES_H
#define TILEFLEET_ARM_PIPES_H

#include "classify.h"

enum { LOAD_BYTES = 16, STORE_BYTES = 8 };

static inline unsigned bits(uint32_t word, unsigned low, unsigned count) {
  return word >> low & ((1u << count) - 1);
}

/* One instruction that loads `bytes` side by side. */
static inline void add_load(Usage *usage, uint32_t bytes) {
  usage->loads++;
  usage->slots[PIPE_LOAD] += (bytes + LOAD_BYTES - 1) / LOAD_BYTES;
}

static inline void add_store(Usage *usage, uint32_t bytes) {
  usage->stores++;
  usage->slots[PIPE_STORE] += (bytes + STORE_BYTES - 1) / STORE_BYTES;
}

#endif
