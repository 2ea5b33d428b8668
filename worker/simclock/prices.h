/* What each instruction costs on one core: a table of measured figures that the board gives to the clock.
 *
 * A line of the table's file is one of
 *   resources NAME...                    what instructions compete for, the first is the front end
 *   window INSTRUCTIONS                  how many instructions are in flight; 0: they begin in their order
 *   queues ENTRIES...                    how many instructions wait for each; 0: as many as like
 *   either GROUP ONE OTHER               the numbers of a resource and of the two pipes that it stands for
 *   taken TICKS...                       what a jump that is taken takes at least, by kind (jumps.h)
 *   guess TICKS                          what a wrong guess of where a jump goes costs
 *   zero NUMBER                          the integer register that nothing waits for
 *   when TYPES                           the prices after it are for these vector types, a set of bits; 0: for all
 *   price MASK VALUE LATENCY FORWARD FAMILY LOADS STORES USE... : OPERAND...
 *   other MASK VALUE ...                 the same, of instructions that nobody measured
 * in order of precedence: the first one with word & MASK == VALUE holds. LATENCY, FORWARD (to the accumulator
 * of an instruction of the same FAMILY, 0 for none) and USE of each resource are ticks. An operand is a bank
 * (x, v, s for scalar floats with registers of their own, f for flags), what happens (r read, l one of the first
 * 16 read, w written, a read and written with FORWARD, c read with FORWARD, b a base that moves on a cycle
 * later), the bit of its register's number (of three bits after a q, for registers 8 to 15; 32 and more are the
 * number itself and 32), and how many registers follow one another: "vw0+4". */
#ifndef TILEFLEET_PRICES_H
#define TILEFLEET_PRICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jumps.h"

enum { RESOURCES = 12, OPERANDS = 8, LARGEST_WINDOW = 512, LARGEST_QUEUE = 32, EITHERS = 4 };

/* The number of an operand's register is first + (word >> shift & mask). */
typedef struct {
  char bank, use;
  uint8_t shift, mask, first, count;
} Operand;

typedef struct {
  uint32_t mask, value, when, latency, forward, family, loads, stores, use[RESOURCES], num_operands;
  bool unknown; /* nobody measured it */
  Operand operands[OPERANDS];
} Price;

/* What takes the group alone goes to either of its pipes. */
typedef struct {
  size_t group, pipes[2];
} Either;

/* How vectors are divided into elements after an instruction, by how they were before. */
typedef unsigned (*VectorType)(uint32_t word, unsigned type);
enum { VECTOR_TYPES = 32 };

typedef struct {
  Price *prices;
  size_t num_prices, num_resources;
  uint64_t window, guess, zero, taken[JUMP_KINDS], queues[RESOURCES];
  uint64_t slot; /* the least that an instruction takes of the front end */
  Either either[EITHERS];
  size_t num_either;
  VectorType vector_type; /* NULL where instructions cost the same for all */
} PriceTable;

/* Read a table; false, with a complaint, where it is none. */
bool prices_read(const char *path, PriceTable *table);

/* The price of an instruction. */
const Price *price_of(const PriceTable *table, uint32_t word, unsigned type);

#endif
