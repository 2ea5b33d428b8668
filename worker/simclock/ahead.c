#include "ahead.h"

static uint64_t most_lines;

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

void ahead_configure(uint64_t lines) { most_lines = lines; }

uint64_t ahead_load(Ahead *ahead, uint64_t ticks, uint64_t since, uint64_t now) {
  uint64_t before = most_lines * ticks, asked = now > before ? now - before : 0;
  ahead->loaded = later(ahead->loaded, later(asked, since)) + ticks;
  return ahead->loaded > now ? ahead->loaded - now : 0;
}

uint64_t ahead_store(Ahead *ahead, uint64_t ticks, uint64_t now) {
  uint64_t goes_on = now + most_lines * ticks; /* with all places taken */
  ahead->stored = later(ahead->stored, now) + ticks;
  return ahead->stored > goes_on ? ahead->stored - goes_on : 0;
}

uint64_t ahead_run(Ahead *ahead, uint64_t line) {
  if (line == ahead->last + 1) ahead->run++;
  else if (line != ahead->last) ahead->run = 0;
  ahead->last = line;
  return ahead->run;
}

void ahead_write(Ahead *ahead, uint64_t at) { ahead->written = later(ahead->written, at); }

uint64_t ahead_written(const Ahead *ahead, uint64_t now) { return ahead->written > now ? ahead->written - now : 0; }
