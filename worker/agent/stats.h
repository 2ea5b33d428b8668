/* What a board says about itself. */
#ifndef TILEFLEET_STATS_H
#define TILEFLEET_STATS_H

#include <stddef.h>

#define AGENT_VERSION "1"

/* Open the files that tell the clock and the temperature; call once, before a session is confined. */
void stats_open(void);

/* Write a JSON object: simulated, clock, agent, threads, the limits that hold for candidates (confine.h),
 * temperature_c and frequency_mhz (null where the board does not tell, and on a simulated one). On a simulated
 * board also what was counted in the last timed repeat: calls, cycles, instructions, loads, stores, l1_misses,
 * l2_misses, unpriced (instructions that the clock's table of measured prices lacks). */
void stats_format(char *text, size_t bytes);

#endif
