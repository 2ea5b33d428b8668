/* Where queues have no end, pipes hold nobody up here: loops.c has what the busiest one needs. */
#include "dispatch.h"

#include <string.h>

#include "simulation_page.h"
#include "values.h"

enum { TURNS = 24, SPAN = 1 << 11, CYCLE = SIMULATION_TICKS_PER_CYCLE };

/* A pipe, cycle by cycle (`used` of `cycle`), and when the last ones that waited for it began, latest first. */
typedef struct {
  uint64_t cycle[SPAN];
  uint16_t used[SPAN];
  uint64_t begun[LARGEST_QUEUE];
} Pipe;

typedef struct {
  Value values[REGISTERS];
  Pipe pipes[RESOURCES];
  uint64_t left[LARGEST_WINDOW]; /* when each of the last instructions left the window */
  uint64_t enters, retired, count;
} Core;

static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t room(const Pipe *pipe, uint64_t cycle) {
  return pipe->cycle[cycle % SPAN] == cycle ? CYCLE - pipe->used[cycle % SPAN] : CYCLE;
}

/* Take `use` ticks from `cycle` on. */
static void take(Pipe *pipe, uint64_t cycle, uint64_t use) {
  for (; use; cycle++) {
    uint64_t free = room(pipe, cycle), taken = free < use ? free : use;
    pipe->used[cycle % SPAN] = (uint16_t)(CYCLE - free + taken);
    pipe->cycle[cycle % SPAN] = cycle;
    use -= taken;
  }
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The places that an instruction has in a pipe's queue: one a cycle, and no more than it has pieces. A division has
 * few, however long it takes. */
static uint64_t entries_of(uint64_t use, uint64_t pieces, uint64_t queue) {
  return least(least((use + CYCLE - 1) / CYCLE, most(1, pieces)), queue);
}

/* One of those that wait for the pipe begins. */
static void leave_queue(Pipe *pipe, uint64_t queue, uint64_t at) {
  uint64_t place = queue - 1;
  if (at <= pipe->begun[place]) return;
  for (; place && pipe->begun[place - 1] < at; place--) pipe->begun[place] = pipe->begun[place - 1];
  pipe->begun[place] = at;
}

static uint64_t waiting(const Pipe *pipe, uint64_t queue, uint64_t at) {
  uint64_t count = 0;
  while (count < queue && pipe->begun[count] > at) count++;
  return count;
}

/* Ticks of each pipe with a queue, and the pieces in each. What may go to either of two pipes goes to the emptier
 * queue, what takes both has a half in each. */
static uint64_t bind(const PriceTable *table, const Price *price, const Core *core, uint64_t *use) {
  uint64_t pieces = price->use[0] / table->slot;
  for (size_t r = 1; r < table->num_resources; r++) use[r] = table->queues[r] ? price->use[r] : 0;
  for (size_t e = 0; e < table->num_either; e++) {
    const Either *either = table->either + e;
    size_t one = either->pipes[0], other = either->pipes[1];
    uint64_t ticks = price->use[either->group];
    if (!ticks || use[one] || use[other]) continue;
    if (ticks > CYCLE / 2) {
      use[one] = use[other] = ticks, pieces /= 2;
    } else {
      uint64_t queue = table->queues[one];
      bool first = waiting(core->pipes + one, queue, core->enters) <= waiting(core->pipes + other, queue, core->enters);
      use[first ? one : other] = 2 * ticks;
    }
  }
  return pieces;
}

/* When the instruction begins that has what it waits for at `ready`: the older ones have chosen before. */
static uint64_t begin(const PriceTable *table, const uint64_t *use, uint64_t pieces, uint64_t ready, Pipe *pipes) {
  uint64_t cycle = ready / CYCLE;
  for (size_t r = 1; r < table->num_resources; r++)
    if (use[r] && !room(pipes + r, cycle)) cycle++, r = 0;
  uint64_t start = most(ready, cycle * CYCLE);
  for (size_t r = 1; r < table->num_resources; r++) {
    if (!use[r]) continue;
    take(pipes + r, cycle, use[r]);
    uint64_t queue = table->queues[r], entries = entries_of(use[r], pieces, queue);
    for (uint64_t entry = 0; entry < entries; entry++) leave_queue(pipes + r, queue, start + entry * CYCLE);
  }
  return start;
}

static void execute(const PriceTable *table, const Step *step, Core *core) {
  const Price *price = step->price;
  uint64_t *left = core->left + core->count++ % table->window, free = *left, use[RESOURCES];
  uint64_t pieces = bind(table, price, core, use);
  for (size_t r = 1; r < table->num_resources; r++)
    if (use[r]) {
      uint64_t queue = table->queues[r];
      free = most(free, core->pipes[r].begun[queue - entries_of(use[r], pieces, queue)]);
    }
  core->enters = most(core->enters + price->use[0], free);
  uint64_t ready = most(core->enters, values_ready(table, price, step->word, core->values, false));
  uint64_t start = begin(table, use, pieces, ready, core->pipes);
  values_write(table, price, step->word, core->enters, start, core->values);
  core->retired = most(core->retired, start + price->latency);
  *left = core->retired;
}

uint64_t dispatch_turn(const PriceTable *table, Block *const *blocks, size_t count) {
  static _Thread_local Core core;
  uint64_t half = 0, turns = 0, steps = 0;
  memset(&core, 0, sizeof core);
  for (size_t b = 0; b < count; b++) steps += blocks[b]->num_steps;
  turns = most(8, most(TURNS, 4 * table->window / steps));
  for (uint64_t turn = 0; turn < 2 * turns; turn++) {
    if (turn == turns) half = core.retired;
    for (size_t b = 0; b < count; b++)
      for (size_t i = 0; i < blocks[b]->num_steps; i++) execute(table, blocks[b]->steps + i, &core);
  }
  return (core.retired - half) / turns;
}
