/* The registers of a core: when the value of each is there. */
#ifndef TILEFLEET_VALUES_H
#define TILEFLEET_VALUES_H

#include "prices.h"

enum { REGISTERS = 97 };

typedef struct {
  uint64_t at, forward_at; /* the latter is for an accumulator of the same family */
  uint32_t family;
} Value;

/* The number of an operand's register, the i-th of those that follow one another; -1 where nothing waits. */
int values_register(const PriceTable *table, const Operand *operand, uint32_t word, unsigned i);

/* When an instruction has what it waits for; `overwritten` values, too, in a core that has one of each. */
uint64_t values_ready(const PriceTable *table, const Price *price, uint32_t word, const Value *values, bool overwritten);

/* It starts. A base moves on without what else it waits for (data that are stored), from when it `entered`. */
void values_write(const PriceTable *table, const Price *price, uint32_t word, uint64_t entered, uint64_t start,
                  Value *values);

#endif
