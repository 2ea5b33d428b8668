/* Which loop is running: the blocks that were executed last, and what their turns cost. */
#ifndef TILEFLEET_TURNS_H
#define TILEFLEET_TURNS_H

#include "loops.h"

/* Forget what was executed. */
void turns_reset(void);

/* A block as it is executed now, with vectors of the type that the blocks before left. */
Block *turns_enter(const PriceTable *table, Block *block);

/* Ticks of executing a block now, after those before it. */
uint64_t turns_execute(const PriceTable *table, Block *block);

#endif
