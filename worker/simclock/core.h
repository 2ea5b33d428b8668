/* A core of the board. Each thread of the guest has one to itself. */
#ifndef TILEFLEET_CORE_H
#define TILEFLEET_CORE_H

#include <pthread.h>

#include "caches.h"
#include "simulation_page.h"
#include "turns.h"

typedef enum {
  CORE_ABSENT, /* no thread */
  CORE_READY,  /* runs, or waits for its turn */
  CORE_ASLEEP, /* until another thread wakes it */
  CORE_AWAY,   /* in a system call that ends when the world wants it */
} CoreState;

typedef struct {
  SimulationCounters counters; /* without those of the memory */
  MemoryCost memory;
  Turns turns;
  CoreCaches *caches;
  /* Of schedule.c and waits.c. */
  unsigned cpu;
  CoreState state;
  pthread_cond_t turn;
  uint64_t address, since, spins, spins_until; /* what it sleeps on, in which order, and how long it spins before */
  uint64_t exit_address;                       /* what is cleared, and woken, at its end */
  uint32_t *changed;                           /* the word that is changed for the time of a call */
  uint64_t mask_address;                       /* where a call tells which CPUs it may use */
} Core;

static inline uint64_t core_now(const Core *core) { return core->counters.ticks + core->memory.ticks; }

#endif
