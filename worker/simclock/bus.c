/* Time is cut into windows, and each moves as many lines as fit. What does not fit goes into the next one. Cores come
 * here a little out of order (schedule.c); a queue with one end would let the one that is behind wait for nothing.
 *
 * Memory has banks, each with one row open. Cores run for longer than a line takes (schedule.c), so the order of lines in
 * a window is not that of a board: where several rows of a bank are wanted in one window, their lines take turns, and each
 * opens its row anew. */
#include "bus.h"

#include <string.h>

#include "simulation_page.h"

static const uint64_t NOT_ONE = UINT64_MAX;
enum { WINDOWS = 256, LENGTH = 1000 * SIMULATION_TICKS_PER_CYCLE, BANK_BITS = 3 };

static struct {
  uint64_t number, booked;
  struct {
    uint64_t row, lines; /* the only one wanted so far, and how often; NOT_ONE in place of the row */
  } banks[1 << BANK_BITS];
} windows[WINDOWS];
static BusModel model;
static uint64_t origin;

void bus_configure(const BusModel *wanted) { model = *wanted; }

void bus_reset(uint64_t now) {
  memset(windows, 0, sizeof windows);
  origin = now;
}

/* Rows of one place in a page after the other are in any bank, as pages are anywhere in a real memory. */
static uint64_t bank_of(uint64_t row) {
  row = (row ^ row >> 15) * 0x9e3779b97f4a7c15u;
  row = (row ^ row >> 32) * 0xbf58476d1ce4e5b9u;
  return row >> (64 - BANK_BITS);
}

/* What one line more of `row` takes in window `i`. */
static uint64_t take(uint64_t i, uint64_t row, bool written) {
  uint64_t bank = bank_of(row), ticks = written ? model.write : model.read, *only = &windows[i].banks[bank].row;
  if (*only == NOT_ONE) return ticks + model.row;
  if (windows[i].banks[bank].lines && *only != row && *only + 1 != row) { /* a stream that goes on leaves its row */
    *only = NOT_ONE;
    return ticks + model.row * (windows[i].banks[bank].lines + 1);
  }
  *only = row;
  windows[i].banks[bank].lines++;
  return ticks;
}

uint64_t bus_move(uint64_t row, bool written, uint64_t time) {
  if (!model.read || time < origin) return 0;
  uint64_t now = time - origin;
  for (uint64_t number = now / LENGTH;; number++) {
    uint64_t i = number % WINDOWS;
    if (windows[i].number > number) return 0; /* long ago for the others */
    if (windows[i].number < number) {
      memset(windows + i, 0, sizeof *windows);
      windows[i].number = number;
    }
    if (windows[i].booked >= LENGTH) continue;
    windows[i].booked += take(i, row, written);
    return number * LENGTH > now ? number * LENGTH - now : 0;
  }
}
