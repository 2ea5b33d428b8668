/* What a block of code costs alone, and what a turn of a loop costs: the most of what its resources need, what
 * its chains of results need, and what the instructions in flight allow. */
#ifndef TILEFLEET_LOOPS_H
#define TILEFLEET_LOOPS_H

#include "prices.h"

typedef struct {
  const Price *price;
  uint32_t word;
  bool chained; /* a load with an address that waits for what it loaded in the last turn */
} Step;

/* A piece of code up to a jump. */
typedef struct Block {
  uint64_t ticks; /* alone: its busiest resource */
  uint64_t use[RESOURCES];
  uint64_t loads, stores, unknown;
  struct Block **by_type; /* for vectors of each type, made when it is needed; NULL where it is the same for all */
  unsigned leaves;        /* the type of vectors after it; VECTOR_TYPES where it stays */
  bool pauses;            /* says that its thread waits for another one */
  size_t num_steps;
  Step steps[];
} Block;

/* A block of `count` instructions at `words`, to be freed never; NULL without memory. */
Block *block_make(const PriceTable *table, const uint32_t *words, size_t count);

/* The block as it is where vectors have this type. */
Block *block_typed(const PriceTable *table, Block *block, unsigned type);

/* Ticks of a turn of the loop through `count` blocks, in the steady state. */
uint64_t loop_ticks(const PriceTable *table, Block *const *blocks, size_t count);

#endif
