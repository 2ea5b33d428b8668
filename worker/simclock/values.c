#include "values.h"

#include <string.h>

#include "simulation_page.h"

enum { BANK = 32, FLAGS = 96 };

int values_register(const PriceTable *table, const Operand *operand, uint32_t word, unsigned i) {
  if (operand->bank == 'f') return FLAGS;
  unsigned number = (operand->first + (word >> operand->shift & operand->mask) + i) % BANK;
  if (operand->bank == 'v') return (int)(BANK + number);
  if (operand->bank == 's') return (int)(2 * BANK + number);
  return number == table->zero ? -1 : (int)number;
}

uint64_t values_ready(const PriceTable *table, const Price *price, uint32_t word, const Value *values, bool overwritten) {
  uint64_t ready = 0;
  for (size_t o = 0; o < price->num_operands; o++) {
    const Operand *operand = price->operands + o;
    if (operand->use == 'w' && !overwritten) continue;
    for (unsigned i = 0; i < operand->count; i++) {
      int number = values_register(table, operand, word, i);
      if (number < 0) continue;
      const Value *value = values + number;
      bool forwards = (operand->use == 'a' || operand->use == 'c') && price->forward && value->family == price->family;
      uint64_t at = forwards ? value->forward_at : value->at;
      if (at > ready) ready = at;
    }
  }
  return ready;
}

void values_write(const PriceTable *table, const Price *price, uint32_t word, uint64_t entered, uint64_t start,
                  Value *values) {
  for (size_t o = 0; o < price->num_operands; o++) {
    const Operand *operand = price->operands + o;
    if (strchr("rcl", operand->use)) continue;
    for (unsigned i = 0; i < operand->count; i++) {
      int number = values_register(table, operand, word, i);
      uint64_t forward = price->forward ? price->forward : price->latency;
      if (number < 0) continue;
      if (operand->use == 'b') {
        uint64_t moved = (values[number].at > entered ? values[number].at : entered) + SIMULATION_TICKS_PER_CYCLE;
        values[number] = (Value){moved, moved, 0};
      } else {
        values[number] = (Value){start + price->latency, start + forward, price->family};
      }
    }
  }
}
