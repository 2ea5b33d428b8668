/* A block alone is bound by its busiest port, as in OSACA (Laukemann et al., PMBS 2018), a turn of a loop by that and
 * by what dispatch.c says. */
#include "loops.h"

#include <stdlib.h>

#include "dispatch.h"
#include "in_order.h"
#include "values.h"

/* Hints that a thread waits for another one: yield of AArch64, pause of RISC-V. */
static const uint32_t YIELD = 0xd503203f, PAUSE = 0x0100000f;

/* Whether a block of `count` instructions ends in a jump to its first one. */
static bool repeats(uint32_t word, size_t count) {
  int32_t offset = 0; /* in instructions */
  if ((word & 0xff000010) == 0x54000000 || (word & 0x7e000000) == 0x34000000) offset = (int32_t)(word << 8) >> 13;
  else if ((word & 0x7e000000) == 0x36000000) offset = (int32_t)(word << 13) >> 18;
  else if ((word & 0xfc000000) == 0x14000000) offset = (int32_t)(word << 6) >> 6;
  return count && offset == 1 - (int32_t)count;
}

/* Mark the loads of a loop that wait for what they loaded in the last turn: for one load at a time, follow what
 * depends on it until it is executed again. */
static void mark_chained(const PriceTable *table, Block *block) {
  for (size_t load = 0; load < block->num_steps; load++) {
    bool waits[REGISTERS] = {false}, depends = true;
    if (!block->steps[load].price->loads) continue;
    for (size_t n = load; n <= load + block->num_steps; n++) {
      const Step *step = block->steps + n % block->num_steps;
      const Price *price = step->price;
      for (size_t o = 0; n > load && o < price->num_operands; o++)
        for (unsigned i = 0; i < price->operands[o].count; i++) {
          int number = values_register(table, price->operands + o, step->word, i);
          depends = depends || (price->operands[o].use != 'w' && number >= 0 && waits[number]);
        }
      if (n == load + block->num_steps) break;
      for (size_t o = 0; o < price->num_operands; o++)
        for (unsigned i = 0; i < price->operands[o].count; i++) {
          int number = values_register(table, price->operands + o, step->word, i);
          bool written = price->operands[o].use == 'w' || price->operands[o].use == 'a';
          if (written && number >= 0) waits[number] = depends;
        }
      depends = false;
    }
    block->steps[load].chained = depends;
  }
}

static Block *make(const PriceTable *table, const uint32_t *words, size_t count, unsigned type) {
  Block *block = calloc(1, sizeof *block + count * sizeof *block->steps);
  if (!block) return NULL;
  bool by_type = false;
  block->num_steps = count;
  block->leaves = VECTOR_TYPES;
  for (size_t i = 0; i < count; i++) {
    const Price *price = price_of(table, words[i], type);
    block->steps[i] = (Step){price, words[i], false};
    block->pauses |= words[i] == YIELD || words[i] == PAUSE;
    block->loads += price->loads, block->stores += price->stores, block->unknown += price->unknown;
    for (size_t r = 0; r < table->num_resources; r++) block->use[r] += price->use[r];
    by_type = by_type || (block->leaves == VECTOR_TYPES && (price->when || price->unknown));
    unsigned after = table->vector_type ? table->vector_type(words[i], type) : VECTOR_TYPES;
    if (after < VECTOR_TYPES) block->leaves = type = after;
  }
  for (size_t r = 0; r < table->num_resources; r++)
    if (block->use[r] > block->ticks) block->ticks = block->use[r];
  if (!table->window) block->ticks = in_order_block(table, block);
  else if (repeats(words[count - 1], count)) mark_chained(table, block);
  if (by_type && table->vector_type) block->by_type = calloc(VECTOR_TYPES, sizeof(Block *));
  return block;
}

Block *block_make(const PriceTable *table, const uint32_t *words, size_t count) {
  return make(table, words, count, 0);
}

Block *block_typed(const PriceTable *table, Block *block, unsigned type) {
  if (!block->by_type) return block;
  if (!block->by_type[type]) {
    uint32_t *words = malloc(block->num_steps * sizeof *words);
    if (!words) abort();
    for (size_t i = 0; i < block->num_steps; i++) words[i] = block->steps[i].word;
    Block *made = block->by_type[type] = make(table, words, block->num_steps, type);
    if (!made) abort();
    made->start = block->start, made->end = block->end, made->jump = block->jump;
    free(words);
  }
  return block->by_type[type];
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What the jump at a block's end takes; nothing where it is not taken. */
static uint64_t jump_ticks(const PriceTable *table, const Block *block, const Block *next) {
  bool taken = next->start != block->end || (block->jump != JUMP_IF && block->jump != JUMP_NONE);
  return taken ? table->taken[block->jump] : 0;
}

uint64_t block_ticks_before(const PriceTable *table, const Block *block, const Block *next) {
  return most(block->ticks, jump_ticks(table, block, next));
}

uint64_t loop_ticks(const PriceTable *table, Block *const *blocks, size_t count) {
  uint64_t ticks = 0;
  for (size_t b = 0; b < count; b++)
    ticks += jump_ticks(table, blocks[b], blocks[(b + 1) % count]);
  if (!table->window) return most(ticks, in_order_turn(table, blocks, count));
  for (size_t r = 0; r < table->num_resources; r++) {
    uint64_t use = 0;
    for (size_t b = 0; b < count; b++) use += blocks[b]->use[r];
    ticks = most(ticks, use);
  }
  return most(ticks, dispatch_turn(table, blocks, count));
}
