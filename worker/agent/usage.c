#include "usage.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "threads.h"

/* So much of a repeat may be lost. */
static const double LOST_SHARE = 0.03;
/* What a switch costs beside the time away: the caches are another's. */
enum { SWITCH_NS = 100000 };

Usage usage_now(void) {
  struct timespec cpu;
  struct rusage self;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  getrusage(RUSAGE_SELF, &self);
  return (Usage){.cpu_ns = (int64_t)cpu.tv_sec * 1000000000 + cpu.tv_nsec,
                 .switches = self.ru_nivcsw,
                 .waited_ns = threads_waited_ns()};
}

bool usage_disturbed(const Usage *start, const Usage *end, int64_t wall_ns) {
  if (threads_crowded()) return false; /* they disturb each other, always */
  int64_t lost_ns = wall_ns - (end->cpu_ns - start->cpu_ns) + end->waited_ns - start->waited_ns +
                    (end->switches - start->switches) * SWITCH_NS;
  return (double)lost_ns > LOST_SHARE * (double)wall_ns;
}

int64_t stolen_ns(void) {
  FILE *file = fopen("/proc/stat", "re");
  if (!file) return 0;
  char line[512];
  long long ticks = 0, steal;
  int cpu;
  while (fgets(line, sizeof line, file) && !strncmp(line, "cpu", 3))
    if (sscanf(line, "cpu%d %*d %*d %*d %*d %*d %*d %*d %lld", &cpu, &steal) == 2 && threads_use_cpu(cpu))
      ticks += steal;
  fclose(file);
  return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

bool stolen_disturbed(int64_t taken_ns, int64_t wall_ns) {
  return (double)taken_ns > LOST_SHARE * (double)wall_ns;
}
