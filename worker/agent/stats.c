#include "stats.h"

#include <stdio.h>
#include <string.h>

#include "confine.h"
#include "simulation.h"
#include "threads.h"
#include "timer.h"

/* Read the number in a file of one number; 0 when there is none. */
static double read_number(const char *path) {
  FILE *file = fopen(path, "re");
  if (!file) return 0;
  double value;
  if (fscanf(file, "%lf", &value) != 1) value = 0;
  fclose(file);
  return value;
}

/* The present clock of the CPU that runs candidates, in MHz; 0 when the board does not tell. */
static double frequency_mhz(void) {
  char path[96];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", threads_first_cpu());
  return read_number(path) / 1e3;
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
           "\"instructions\": %llu, \"loads\": %llu, \"stores\": %llu, \"l1_misses\": %llu, \"l2_misses\": %llu}",
           simulation_clock(), AGENT_VERSION, threads_count(), confine_limits(), (unsigned long long)timed->calls,
           (unsigned long long)(c->ticks / SIMULATION_TICKS_PER_CYCLE), (unsigned long long)c->instructions,
           (unsigned long long)c->loads, (unsigned long long)c->stores, (unsigned long long)c->l1_misses,
           (unsigned long long)c->l2_misses);
}

void stats_format(char *text, size_t bytes) {
  if (simulation_active()) {
    format_simulated(text, bytes);
    return;
  }
  char mhz[64], temperature[64];
  format_number(mhz, sizeof mhz, "frequency_mhz", frequency_mhz());
  format_number(temperature, sizeof temperature, "temperature_c",
                read_number("/sys/class/thermal/thermal_zone0/temp") / 1e3);
  snprintf(text, bytes,
           "{\"simulated\": false, \"clock\": \"wall\", \"agent\": \"%s\", \"threads\": %d, \"limits\": %s, %s, %s}",
           AGENT_VERSION, threads_count(), confine_limits(), mhz, temperature);
}
