/* The model is that of OSACA (Laukemann et al., PMBS 2018: throughput bound by ports, then the longest
 * loop-carried chain), and a limited window as in Karkhanis and Smith (ISCA 2004). */
#include "loops.h"

#include <stdlib.h>
#include <string.h>

#include "simulation_page.h"

enum { BANK = 32, FLAGS = 64, REGISTERS = 65, ZERO = 31, TURNS = 48 };

/* When the value of each register is there, and when for an accumulator of the same family. */
typedef struct {
  uint64_t at, forward_at;
  uint32_t family;
} Value;

/* The register's number, FLAGS or, where nothing waits for it, -1. */
static int register_of(const Operand *operand, uint32_t word, unsigned i) {
  if (operand->bank == 'f') return FLAGS;
  int number = (int)((word >> operand->shift) + i) & (operand->use == 'l' ? 15 : 31);
  if (operand->bank == 'v') return BANK + number;
  return number == ZERO ? -1 : number; /* the zero register; a stack pointer seldom changes */
}

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
static void mark_chained(Block *block) {
  for (size_t load = 0; load < block->num_steps; load++) {
    bool waits[REGISTERS] = {false}, depends = true;
    if (!block->steps[load].price->loads) continue;
    for (size_t n = load; n <= load + block->num_steps; n++) {
      const Step *step = block->steps + n % block->num_steps;
      const Price *price = step->price;
      for (size_t o = 0; n > load && o < price->num_operands; o++)
        for (unsigned i = 0; i < price->operands[o].count; i++) {
          int number = register_of(price->operands + o, step->word, i);
          depends = depends || (price->operands[o].use != 'w' && number >= 0 && waits[number]);
        }
      if (n == load + block->num_steps) break;
      for (size_t o = 0; o < price->num_operands; o++)
        for (unsigned i = 0; i < price->operands[o].count; i++) {
          int number = register_of(price->operands + o, step->word, i);
          bool written = price->operands[o].use == 'w' || price->operands[o].use == 'a';
          if (written && number >= 0) waits[number] = depends;
        }
      depends = false;
    }
    block->steps[load].chained = depends;
  }
}

Block *block_make(const PriceTable *table, const uint32_t *words, size_t count) {
  Block *block = calloc(1, sizeof *block + count * sizeof *block->steps);
  if (!block) return NULL;
  block->num_steps = count;
  for (size_t i = 0; i < count; i++) {
    const Price *price = price_of(table, words[i]);
    block->steps[i] = (Step){price, words[i], false};
    block->loads += price->loads, block->stores += price->stores, block->unknown += !price->mask;
    for (size_t r = 0; r < table->num_resources; r++) block->use[r] += price->use[r];
  }
  for (size_t r = 0; r < table->num_resources; r++)
    if (block->use[r] > block->ticks) block->ticks = block->use[r];
  if (repeats(words[count - 1], count)) mark_chained(block);
  return block;
}

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t ready(const Step *step, const Value *values) {
  uint64_t at = 0;
  for (size_t o = 0; o < step->price->num_operands; o++) {
    const Operand *operand = step->price->operands + o;
    if (operand->use == 'w') continue;
    for (unsigned i = 0; i < operand->count; i++) {
      int number = register_of(operand, step->word, i);
      if (number < 0) continue;
      const Value *value = values + number;
      bool forwards = (operand->use == 'a' || operand->use == 'c') && step->price->forward && value->family == step->price->family;
      at = most(at, forwards ? value->forward_at : value->at);
    }
  }
  return at;
}

static void write(const Step *step, uint64_t start, Value *values) {
  const Price *price = step->price;
  for (size_t o = 0; o < price->num_operands; o++) {
    const Operand *operand = price->operands + o;
    if (strchr("rcl", operand->use)) continue;
    bool moved = operand->use == 'b';
    uint64_t latency = moved ? SIMULATION_TICKS_PER_CYCLE : price->latency;
    for (unsigned i = 0; i < operand->count; i++) {
      int number = register_of(operand, step->word, i);
      if (number >= 0) values[number] = (Value){start + latency, start + (price->forward && !moved ? price->forward : latency), price->family};
    }
  }
}

/* Ticks of a turn that only chains and the window limit. */
static uint64_t chain_ticks(const PriceTable *table, Block *const *blocks, size_t count, size_t steps) {
  Value values[REGISTERS] = {0};
  uint64_t done[LARGEST_WINDOW] = {0}, enters = 0, retired = 0, half = 0, window = table->window;
  uint64_t turns = most(8, most(TURNS / 2, 4 * window / steps)), n = 0;
  for (uint64_t turn = 0; turn < 2 * turns; turn++) {
    if (turn == turns) half = retired;
    for (size_t b = 0; b < count; b++)
      for (size_t i = 0; i < blocks[b]->num_steps; i++, n++) {
        const Step *step = blocks[b]->steps + i;
        enters = most(enters + step->price->use[0], done[n % window]);
        uint64_t start = most(enters, ready(step, values));
        write(step, start, values);
        retired = most(retired, start + step->price->latency);
        done[n % window] = retired;
      }
  }
  return (retired - half) / turns;
}

uint64_t loop_ticks(const PriceTable *table, Block *const *blocks, size_t count) {
  uint64_t ticks = table->taken;
  size_t steps = 0;
  for (size_t b = 0; b < count; b++) steps += blocks[b]->num_steps;
  for (size_t r = 0; r < table->num_resources; r++) {
    uint64_t use = 0;
    for (size_t b = 0; b < count; b++) use += blocks[b]->use[r];
    ticks = most(ticks, use);
  }
  return most(ticks, chain_ticks(table, blocks, count, steps));
}
