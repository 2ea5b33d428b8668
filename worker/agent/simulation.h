/* The agent's side of a simulated board (simulation_page.h): an emulator's plugin counts the cycles. */
#ifndef TILEFLEET_SIMULATION_H
#define TILEFLEET_SIMULATION_H

#include <stdbool.h>
#include <stddef.h>

#include "simulation_page.h"

enum { SIMULATION_ALIGNMENT = 4096 }; /* of memory whose place in a page must always be the same */

/* Use the clock that publishes in the file at `path`; 0, or -1 when there is none. Before any session. */
int simulation_open(const char *path);

/* Whether this board is simulated. Without, none of the functions below may be called. */
bool simulation_active(void);

/* The clock's name, and its ticks a second. */
const char *simulation_clock(void);
double simulation_frequency(void);

/* The counters now. */
SimulationCounters simulation_read(void);

/* Empty the simulated caches, and let what is touched from here on lie as if nothing had been before. */
void simulation_reset(void);

/* Take [data, data + bytes) out of the simulated caches. */
void simulation_evict(const void *data, size_t bytes);

/* Let the clock take the calling thread for one that spins so long when it sleeps the next time. */
void simulation_spin(double seconds);

/* Let the clock charge [data, data + bytes) as memory beside the caches. */
void simulation_fast_memory(const void *data, size_t bytes);

#endif
