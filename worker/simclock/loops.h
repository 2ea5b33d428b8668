/* What a block of code costs alone, and what a turn of a loop costs: the most of what its resources need, what
 * its chains of results need, and what the instructions in flight allow. */
#ifndef TILEFLEET_LOOPS_H
#define TILEFLEET_LOOPS_H

#include "jumps.h"
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
  uint64_t start, end; /* its place in memory */
  JumpKind jump;       /* that ends it */
  uint32_t number;     /* by the order of first execution in a numbering */
  uint32_t numbering;
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

/* Ticks of a block before `next`: no less than a jump takes where it goes on elsewhere. */
uint64_t block_ticks_before(const PriceTable *table, const Block *block, const Block *next);

/* Ticks of a turn of the loop through `count` blocks, in the steady state. */
uint64_t loop_ticks(const PriceTable *table, Block *const *blocks, size_t count);

#endif
