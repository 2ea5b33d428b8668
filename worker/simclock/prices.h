/* What each instruction costs on one core: a table of measured figures that the board gives to the clock.
 *
 * A line of the table's file is one of
 *   resources NAME...                    what instructions compete for, the first is the front end
 *   window INSTRUCTIONS                  how many instructions are in flight
 *   taken TICKS                          what a jump back takes of a loop's time at least
 *   price MASK VALUE LATENCY FORWARD FAMILY LOADS STORES USE... : OPERAND...
 * in order of precedence: the first price with word & MASK == VALUE holds. LATENCY, FORWARD (to the accumulator
 * of an instruction of the same FAMILY, 0 for none) and USE of each resource are ticks. An operand is a bank
 * (x, v, f for flags), what happens (r read, l one of the first 16 read, w written, a read and written with FORWARD, c read with FORWARD,
 * b a base that moves on a cycle later), the bit of its register's number, and how many registers follow one
 * another: "vw0+4". Prices of MASK 0 stand for a class of instructions that
 * nobody measured; FAMILY names the class there. */
#ifndef TILEFLEET_PRICES_H
#define TILEFLEET_PRICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RESOURCES = 12, OPERANDS = 8, LARGEST_WINDOW = 512 };

typedef struct {
  char bank, use;
  uint8_t shift, count;
} Operand;

typedef struct {
  uint32_t mask, value, latency, forward, family, loads, stores, use[RESOURCES], num_operands;
  Operand operands[OPERANDS];
} Price;

typedef enum { CLASS_INTEGER, CLASS_BRANCH, CLASS_LOAD, CLASS_STORE, CLASS_VECTOR, CLASS_DIVIDE, CLASSES } Class;

typedef struct {
  Price *prices;
  size_t num_prices, num_resources;
  Price classes[CLASSES]; /* for instructions without a price */
  uint64_t window, taken;
} PriceTable;

/* Read a table; false, with a complaint, where it is none. */
bool prices_read(const char *path, PriceTable *table);

/* The price of an instruction; one of the classes where nobody measured it. */
const Price *price_of(const PriceTable *table, uint32_t word);

#endif
