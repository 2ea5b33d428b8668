/* The memory that all cores share: how many lines it moves in a time. */
#ifndef TILEFLEET_BUS_H
#define TILEFLEET_BUS_H

#include <stdbool.h>
#include <stdint.h>

/* What keeps the memory busy, in ticks. */
typedef struct {
  uint64_t read, write; /* a line; where reading takes none, the memory never is the limit */
  uint64_t row;         /* what a line takes more where its bank has another row open */
} BusModel;

void bus_configure(const BusModel *model);

/* Forget what was moved; windows begin at `now`. */
void bus_reset(uint64_t now);

/* Move a line of `row` at `now`: the ticks until it can begin. */
uint64_t bus_move(uint64_t row, bool written, uint64_t now);

#endif
