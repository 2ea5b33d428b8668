/* A core that begins instructions in the order of the code: each waits for the one before to begin, for its
 * sources, for the last value of the register that it writes, and for its pipes. */
#ifndef TILEFLEET_IN_ORDER_H
#define TILEFLEET_IN_ORDER_H

#include "loops.h"

/* Ticks of a block that nothing comes before. */
uint64_t in_order_block(const PriceTable *table, const Block *block);

/* Ticks of a turn of the loop through `count` blocks, in the steady state. */
uint64_t in_order_turn(const PriceTable *table, Block *const *blocks, size_t count);

#endif
