/* Streams of a core that computes while their lines come: it asks for a line before it uses it. A line that is stored
 * leaves while the core goes on. */
#ifndef TILEFLEET_AHEAD_H
#define TILEFLEET_AHEAD_H

#include <stdint.h>

typedef struct {
  uint64_t loaded, stored; /* when the last line is there that was loaded, or has left that was stored */
  uint64_t written;        /* when memory takes the last line that the core pushed out */
  uint64_t last, run;      /* the line that was stored to, and how many in order came before it */
} Ahead;

/* How many lines are under way at most. */
void ahead_configure(uint64_t lines);

/* The ticks that a core waits at `now` for a line whose transfer takes `ticks`, of a stream that began at `since`. */
uint64_t ahead_load(Ahead *ahead, uint64_t ticks, uint64_t since, uint64_t now);

/* The same for a store to a line that is not there. */
uint64_t ahead_store(Ahead *ahead, uint64_t ticks, uint64_t now);

/* A store to a line: how many in order were stored to before it. */
uint64_t ahead_run(Ahead *ahead, uint64_t line);

/* Memory takes a line at `at` that the core pushed out. */
void ahead_write(Ahead *ahead, uint64_t at);

/* The ticks that a core waits at `now` for the lines that it pushed out. */
uint64_t ahead_written(const Ahead *ahead, uint64_t now);

#endif
