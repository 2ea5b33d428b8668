/* Time is cut into windows, and each moves as many lines as fit. What does not fit goes into the next one. Cores come
 * here a little out of order (schedule.c); a queue with one end would let the one that is behind wait for nothing.
 *
 * Memory has banks, each with one row open. Cores run for longer than a line takes (schedule.c), so the order of lines in
 * a window is not that of a board: where several rows of a bank are wanted in one window, their lines take turns, and each
 * opens its row anew. */
#include "bus.h"

#include <stdlib.h>
#include <string.h>

#include "simulation_page.h"

enum { WINDOWS = 256, LENGTH = 1000 * SIMULATION_TICKS_PER_CYCLE, BANK_BITS = 3 };

/* What was wanted of a bank in a window, and the ticks that its rows took for that. */
typedef struct {
  const void *core; /* who came first */
  uint64_t row, lines, opened;
  bool several_rows, several_cores;
} Bank;

typedef struct {
  uint64_t number, booked;
  Bank banks[1 << BANK_BITS];
} Window;

struct Bus {
  BusModel model;
  uint64_t origin;
  Window windows[WINDOWS];
  /* ahead { */
  bool reads; /* what moved last was read */
  /* } ahead */
};

Bus *bus_make(const BusModel *model) {
  Bus *bus = calloc(1, sizeof *bus);
  if (bus) bus->model = *model;
  return bus;
}

void bus_reset(Bus *bus, uint64_t now) {
  memset(bus->windows, 0, sizeof bus->windows);
  bus->origin = now;
}

/* Rows of one place in a page after the other are in any bank, as pages are anywhere in a real memory. */
static Bank *bank_of(Window *window, uint64_t row) {
  row = (row ^ row >> 15) * 0x9e3779b97f4a7c15u;
  row = (row ^ row >> 32) * 0xbf58476d1ce4e5b9u;
  return window->banks + (row >> (64 - BANK_BITS));
}

/* What opening rows takes for one line more. */
static uint64_t open_row(const BusModel *model, Bank *bank, const void *core, uint64_t row) {
  if (!bank->lines) bank->core = core, bank->row = row;
  if (bank->row != row && bank->row + 1 != row) { /* a stream that goes on leaves its row */
    bank->several_rows = true;
    bank->several_cores |= bank->core != core;
  }
  bank->row = row;
  bank->lines++;
  uint64_t each = bank->several_cores ? model->shared_row : model->row, before = bank->opened;
  if (bank->several_rows) bank->opened = bank->lines * each;
  return bank->opened - before;
}

uint64_t bus_move(Bus *bus, const void *core, uint64_t row, bool written, uint64_t time) {
  const BusModel *model = &bus->model;
  if (!model->read || time < bus->origin) return 0;
  uint64_t now = time - bus->origin;
  for (uint64_t number = now / LENGTH;; number++) {
    Window *window = bus->windows + number % WINDOWS;
    if (window->number > number) return 0; /* long ago for the others */
    if (window->number < number) {
      memset(window, 0, sizeof *window);
      window->number = number;
    }
    if (window->booked >= LENGTH) continue;
    window->booked += written ? model->write : model->read;
    /* ahead { */
    if (written && bus->reads && core) window->booked += model->turn;
    bus->reads = !written;
    /* } ahead */
    if (model->row) window->booked += open_row(model, bank_of(window, row), core, row);
    return number * LENGTH > now ? number * LENGTH - now : 0;
  }
}
