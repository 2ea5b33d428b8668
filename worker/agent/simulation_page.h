/* What a simulated board's agent and the QEMU plugin that is its clock (worker/simclock) tell each other.
 *
 * The agent asks by a system call that does nothing else, getpid, with SIMULATION_CALL as first argument and
 * a SimulationRequest as second; the plugin answers in a page of memory that both have mapped. */
#ifndef TILEFLEET_SIMULATION_PAGE_H
#define TILEFLEET_SIMULATION_PAGE_H

#include <stdint.h>

enum { SIMULATION_CALL = 0x53494d43, SIMULATION_VERSION = 2, SIMULATION_PAGE_BYTES = 4096 };
enum { SIMULATION_TICKS_PER_CYCLE = 240 }; /* so that 2 to 6, 8 and 10 instructions a cycle cost whole ticks */

typedef enum {
  SIMULATION_PUBLISH, /* write the counters */
  SIMULATION_RESET,   /* empty the caches and forget where memory lies */
  SIMULATION_EVICT,   /* take [third argument, + fourth argument bytes) out of the caches */
  SIMULATION_SPIN,    /* the thread spins for [third argument] ticks before it sleeps the next time */
  /* fast memory { */
  SIMULATION_FAST_MEMORY, /* [third argument, + fourth argument bytes) is fast memory */
  /* } fast memory */
} SimulationRequest;

/* Since the emulator started: the time of the thread that asks, all else of all threads. */
typedef struct {
  uint64_t ticks, instructions, loads, stores, l1_misses, l2_misses;
  uint64_t unpriced; /* instructions that no table has, and that cost what their kind does */
} SimulationCounters;

typedef struct {
  uint64_t version, ticks_per_second;
  char clock[64]; /* the clock's name, ends with 0 */
  SimulationCounters counters;
} SimulationPage;

#endif
