#include "stats.h"

#include <stdio.h>
#include <string.h>

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
static double cpu_mhz(void) {
  char line[256];
  snprintf(line, sizeof line, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", threads_first_cpu());
  double khz = read_number(line);
  if (khz > 0) return khz / 1e3;
  FILE *file = fopen("/proc/cpuinfo", "re");
  if (!file) return 0;
  double mhz = 0, value;
  int cpu = -1;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "processor : %d", &cpu) == 1) continue;
    if (cpu == threads_first_cpu() && sscanf(line, "cpu MHz : %lf", &value) == 1) mhz = value;
  }
  fclose(file);
  return mhz;
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
           "{\"simulated\": true, \"clock\": \"%s\", \"agent\": \"%s\", \"threads\": %d, \"cpu_mhz\": %.1f, "
           "\"temperature_c\": null, \"calls\": %llu, \"cycles\": %llu, \"instructions\": %llu, \"loads\": %llu, "
           "\"stores\": %llu, \"l1_misses\": %llu, \"l2_misses\": %llu}",
           simulation_clock(), AGENT_VERSION, threads_count(),
           simulation_frequency() / SIMULATION_TICKS_PER_CYCLE / 1e6, (unsigned long long)timed->calls,
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
  format_number(mhz, sizeof mhz, "cpu_mhz", cpu_mhz());
  format_number(temperature, sizeof temperature, "temperature_c",
                read_number("/sys/class/thermal/thermal_zone0/temp") / 1e3);
  snprintf(text, bytes,
           "{\"simulated\": false, \"clock\": \"wall\", \"agent\": \"%s\", \"threads\": %d, %s, %s}", AGENT_VERSION,
           threads_count(), mhz, temperature);
}
