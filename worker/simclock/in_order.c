#include "in_order.h"

#include "values.h"

enum { TURNS = 8 };

typedef struct {
  Value values[REGISTERS];
  uint64_t begun, free[RESOURCES]; /* when the last instruction began, and when each resource is free again */
} Core;

static void execute(const PriceTable *table, const Block *block, Core *core) {
  for (size_t i = 0; i < block->num_steps; i++) {
    const Price *price = block->steps[i].price;
    uint32_t word = block->steps[i].word;
    uint64_t ready = values_ready(table, price, word, core->values, true);
    if (ready > core->begun) core->begun = ready;
    for (size_t r = 0; r < table->num_resources; r++)
      if (price->use[r] && core->free[r] > core->begun) core->begun = core->free[r];
    for (size_t r = 0; r < table->num_resources; r++)
      if (price->use[r]) core->free[r] = core->begun + price->use[r];
    values_write(table, price, word, core->begun, core->begun, core->values);
  }
}

uint64_t in_order_block(const PriceTable *table, const Block *block) {
  Core core = {0};
  uint64_t ticks = 0;
  execute(table, block, &core);
  for (size_t r = 0; r < table->num_resources; r++)
    if (core.free[r] > ticks) ticks = core.free[r];
  return ticks;
}

uint64_t in_order_turn(const PriceTable *table, Block *const *blocks, size_t count) {
  Core core = {0};
  uint64_t half = 0;
  for (int turn = 0; turn < 2 * TURNS; turn++) {
    if (turn == TURNS) half = core.begun;
    for (size_t b = 0; b < count; b++) execute(table, blocks[b], &core);
  }
  return (core.begun - half) / TURNS;
}
