#include "turns.h"

#include <string.h>

enum { REMEMBERED = 1 << 13 };

/* What a turn of a loop costs more (or, as a negative number, less) than its blocks do alone. */
typedef struct {
  Block *blocks[LONGEST_TURN];
  size_t count;
  int64_t more;
} Loop;

static Loop remembered[REMEMBERED];
static uint32_t numberings = 1, numbered; /* how often blocks are numbered, and the last number */

void turns_forget(Turns *turns) {
  memset(turns->last, 0, sizeof turns->last);
  turns->since = 0;
  memset(&turns->jumps, 0, sizeof turns->jumps);
  numberings++;
  numbered = 0;
}

static int64_t more_of(const PriceTable *table, Block *const *last, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; i++) hash = (hash ^ (uint64_t)(uintptr_t)last[i]) * 0x9e3779b97f4a7c15u;
  Loop *loop = remembered + (hash >> 40) % REMEMBERED;
  if (loop->count == count && !memcmp(loop->blocks, last, count * sizeof *last)) return loop->more;
  Block *in_order[LONGEST_TURN];
  uint64_t alone = 0;
  for (size_t i = 0; i < count; i++) {
    in_order[i] = last[count - 1 - i];
  }
  for (size_t i = 0; i < count; i++) alone += block_ticks_before(table, in_order[i], in_order[(i + 1) % count]);
  *loop = (Loop){.count = count, .more = (int64_t)(loop_ticks(table, in_order, count) - alone)};
  memcpy(loop->blocks, last, count * sizeof *last);
  return loop->more;
}

Block *turns_enter(Turns *turns, const PriceTable *table, Block *block) {
  if (!table->vector_type) return block;
  block = block_typed(table, block, turns->type);
  if (block->leaves < VECTOR_TYPES) turns->type = block->leaves;
  return block;
}

static uint32_t number_of(Block *block) {
  if (block->numbering != numberings) block->numbering = numberings, block->number = ++numbered;
  return block->number;
}

/* What it costs to go from a block to the next, beyond what they cost. */
static uint64_t jump_from(Turns *turns, const PriceTable *table, Block *from, Block *to) {
  uint32_t number = number_of(to);
  if (!from) return 0;
  uint64_t ticks = block_ticks_before(table, from, to) - from->ticks;
  bool taken = to->start != from->end;
  bool missed = table->guess && jumps_miss(&turns->jumps, from->jump, number_of(from), number, taken);
  return missed ? ticks + table->guess : ticks;
}

uint64_t turns_execute(Turns *turns, const PriceTable *table, Block *block) {
  Block **last = turns->last;
  uint64_t ticks = block->ticks + jump_from(turns, table, last[0], block);
  turns->since++;
  for (size_t count = 1; count <= LONGEST_TURN && count <= turns->since; count++)
    if (last[count - 1] == block) {
      ticks += (uint64_t)more_of(table, last, count); /* modulo 2^64 where it is negative */
      turns->since = 0;
      break;
    }
  memmove(last + 1, last, (LONGEST_TURN - 1) * sizeof *last);
  last[0] = block;
  return ticks;
}
