#include "usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "arch.h"
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

static int stat_file = -1;
static char stat_text[ARCH_MAX_THREADS * 128 + 1024];

void usage_open(void) { stat_file = open("/proc/stat", O_RDONLY | O_CLOEXEC); }

int64_t stolen_ns(void) {
  ssize_t length = pread(stat_file, stat_text, sizeof stat_text - 1, 0);
  if (length <= 0) return 0;
  stat_text[length] = 0;
  long long ticks = 0, steal;
  int cpu;
  for (const char *line = stat_text, *next; !strncmp(line, "cpu", 3); line = next + 1) {
    if (sscanf(line, "cpu%d %*d %*d %*d %*d %*d %*d %*d %lld", &cpu, &steal) == 2 && threads_use_cpu(cpu))
      ticks += steal;
    next = strchr(line, '\n');
    if (!next) break;
  }
  return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

bool stolen_disturbed(int64_t taken_ns, int64_t wall_ns) {
  return (double)taken_ns > LOST_SHARE * (double)wall_ns;
}
