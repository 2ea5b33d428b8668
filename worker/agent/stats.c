#include "stats.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "confine.h"
#include "simulation.h"
#include "threads.h"
#include "timer.h"

static int frequency = -1, temperature = -1; /* files of one number; -1 where the board does not tell */

void stats_open(void) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", threads_first_cpu());
  frequency = open(path, O_RDONLY | O_CLOEXEC);
  temperature = open("/sys/class/thermal/thermal_zone0/temp", O_RDONLY | O_CLOEXEC);
}

/* The number that a file has now; 0 when there is none. */
static double read_number(int file) {
  char text[32] = "";
  return pread(file, text, sizeof text - 1, 0) > 0 ? strtod(text, NULL) : 0;
}

/* `"name": value`, null for what is not known. */
static void format_number(char *text, size_t bytes, const char *name, double value) {
  if (value > 0) snprintf(text, bytes, "\"%s\": %.1f", name, value);
  else snprintf(text, bytes, "\"%s\": null", name);
}

static void format_simulated(char *text, size_t bytes) {
  const TimedCounters *timed = timed_counters();
  const SimulationCounters *c = &timed->counters;
  snprintf(text, bytes,
           "{\"simulated\": true, \"clock\": \"%s\", \"agent\": \"%s\", \"threads\": %d, \"limits\": %s, "
           "\"temperature_c\": null, \"frequency_mhz\": null, \"calls\": %llu, \"cycles\": %llu, "
           "\"instructions\": %llu, \"loads\": %llu, \"stores\": %llu, \"l1_misses\": %llu, \"l2_misses\": %llu, \"unpriced\": %llu}",
           simulation_clock(), AGENT_VERSION, threads_count(), confine_limits(), (unsigned long long)timed->calls,
           (unsigned long long)(c->ticks / SIMULATION_TICKS_PER_CYCLE), (unsigned long long)c->instructions,
           (unsigned long long)c->loads, (unsigned long long)c->stores, (unsigned long long)c->l1_misses,
           (unsigned long long)c->l2_misses, (unsigned long long)c->unpriced);
}

void stats_format(char *text, size_t bytes) {
  if (simulation_active()) {
    format_simulated(text, bytes);
    return;
  }
  char mhz[64], degrees[64];
  format_number(mhz, sizeof mhz, "frequency_mhz", read_number(frequency) / 1e3);
  format_number(degrees, sizeof degrees, "temperature_c", read_number(temperature) / 1e3);
  snprintf(text, bytes,
           "{\"simulated\": false, \"clock\": \"wall\", \"agent\": \"%s\", \"threads\": %d, \"limits\": %s, %s, %s}",
           AGENT_VERSION, threads_count(), confine_limits(), mhz, degrees);
}
