/* What a board says about itself. */
#ifndef TILEFLEET_STATS_H
#define TILEFLEET_STATS_H

#include <stddef.h>

#define AGENT_VERSION "1"

/* Write a JSON object: simulated, clock, agent, threads, cpu_mhz, temperature_c (null where unknown). */
void stats_format(char *text, size_t bytes);

#endif
