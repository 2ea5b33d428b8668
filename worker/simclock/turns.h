/* Which loop is running: the blocks that were executed last, and what their turns cost. */
#ifndef TILEFLEET_TURNS_H
#define TILEFLEET_TURNS_H

#include "loops.h"

/* Forget what was executed. */
void turns_reset(void);

/* Ticks of executing a block now, after those before it. */
uint64_t turns_execute(const PriceTable *table, Block *block);

#endif
