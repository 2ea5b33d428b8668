/* Which loop is running: the blocks that were executed last, and what their turns cost. */
#ifndef TILEFLEET_TURNS_H
#define TILEFLEET_TURNS_H

#include "loops.h"

enum { LONGEST_TURN = 16 };

/* What a core has executed. */
typedef struct {
  Block *last[LONGEST_TURN]; /* the last one first */
  Jumps jumps;
  size_t since;              /* blocks since the last turn that was charged */
  unsigned type;             /* of vectors, as the last block left it */
} Turns;

/* Forget which loop it is in. */
void turns_forget(Turns *turns);

/* A block as it is executed now, with vectors of the type that the blocks before left. */
Block *turns_enter(Turns *turns, const PriceTable *table, Block *block);

/* Ticks of executing a block now, after those before it. */
uint64_t turns_execute(Turns *turns, const PriceTable *table, Block *block);

#endif
