/* Time is cut into windows, and each moves as many lines as fit. What does not fit goes into the next one. Cores come
 * here a little out of order (schedule.c); a queue with one end would let the one that is behind wait for nothing. */
#include "bus.h"

#include <stdbool.h>
#include <string.h>

#include "simulation_page.h"

enum { WINDOWS = 256, LENGTH = 1000 * SIMULATION_TICKS_PER_CYCLE };

static struct {
  uint64_t number, booked;
  const void *first;
  bool shared;
} windows[WINDOWS];
static uint64_t line_ticks, origin;

void bus_configure(uint64_t ticks) { line_ticks = ticks; }

void bus_reset(uint64_t now) {
  memset(windows, 0, sizeof windows);
  origin = now;
}

uint64_t bus_wait(const void *core, uint64_t time) {
  if (!line_ticks || time < origin) return 0;
  uint64_t now = time - origin;
  for (uint64_t number = now / LENGTH;; number++) {
    uint64_t i = number % WINDOWS;
    if (windows[i].number > number) return 0; /* long ago for the others */
    if (windows[i].number < number || !windows[i].first) {
      windows[i].number = number, windows[i].booked = 0, windows[i].first = core, windows[i].shared = false;
    }
    if (windows[i].first != core) windows[i].shared = true;
    if (windows[i].shared && windows[i].booked + line_ticks > LENGTH) continue;
    windows[i].booked += line_ticks;
    return number * LENGTH > now ? number * LENGTH - now : 0;
  }
}
