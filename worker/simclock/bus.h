/* What all cores share, and how many lines it moves in a time: the memory, and an L2. */
#ifndef TILEFLEET_BUS_H
#define TILEFLEET_BUS_H

#include <stdbool.h>
#include <stdint.h>

/* What keeps it busy, in ticks. */
typedef struct {
  uint64_t read, write; /* a line; where reading takes none, it never is the limit */
  uint64_t row;         /* of memory: what a line takes more where its bank has another row open */
  uint64_t shared_row;  /* the same where several cores want rows of that bank */
  /* ahead { */
  uint64_t turn; /* a line that is written after one that was read; not where lines come in order (no core) */
  /* } ahead */
} BusModel;

typedef struct Bus Bus;

/* NULL without memory. */
Bus *bus_make(const BusModel *model);

/* Forget what was moved; windows begin at `now`. */
void bus_reset(Bus *bus, uint64_t now);

/* Move a line of `row` for `core` at `now`: the ticks until it can begin. */
uint64_t bus_move(Bus *bus, const void *core, uint64_t row, bool written, uint64_t now);

#endif
