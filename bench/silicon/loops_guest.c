/* Runs the loops that bench/silicon writes, under an emulator, and prints what the simulated clock counts.
 *
 * loops_guest PAGE: a line for each loop, its ticks and instructions in ITERATIONS turns, or "unknown" where
 * the emulated processor does not know an instruction. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation_page.h"

enum { WORDS = 512 };

/* In the assembly: the loops, their number, and what calls one with its registers as bench/silicon/loops.py
 * says. */
typedef void Code(void);
extern Code *const silicon_loops[];
extern const uint64_t silicon_count, silicon_iterations;
void silicon_run(Code *loop, uint64_t iterations, const uint64_t *zeros, uint64_t *scratch, uint64_t *pointers);

/* Loops may reach into a second page. */
static _Alignas(4096) uint64_t zeros[2 * WORDS], scratch[2 * WORDS], pointers[2 * WORDS];
static const SimulationPage *page;
static sigjmp_buf unknown;

static void on_unknown(int signal) { siglongjmp(unknown, signal); }

static SimulationCounters counters(void) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)SIMULATION_PUBLISH, 0L, 0L);
  return *(volatile const SimulationCounters *)&page->counters;
}

/* Two runs that differ by some iterations: what they have in common is not counted. All that is twice, so that
 * the caches have what measures. */
static void measure(Code *loop) {
  long long ticks = 0, instructions = 0;
  if (sigsetjmp(unknown, 1)) {
    puts("unknown");
    return;
  }
  for (int pass = 0; pass < 2; pass++) {
    SimulationCounters first = counters();
    silicon_run(loop, silicon_iterations, zeros, scratch, pointers);
    SimulationCounters second = counters();
    silicon_run(loop, 2 * silicon_iterations, zeros, scratch, pointers);
    SimulationCounters third = counters();
    ticks = (long long)(third.ticks - second.ticks) - (long long)(second.ticks - first.ticks);
    instructions = (long long)(third.instructions - second.instructions) -
                   (long long)(second.instructions - first.instructions);
  }
  printf("%lld %lld\n", ticks, instructions);
}

int main(int count, char **given) {
  int file = count == 2 ? open(given[1], O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) {
    fprintf(stderr, "usage: loops_guest PAGE\n");
    return 1;
  }
  page = mapped;
  for (int i = 0; i < 2 * WORDS; i++) pointers[i] = (uint64_t)pointers;
  struct sigaction action = {.sa_handler = on_unknown};
  sigaction(SIGILL, &action, NULL);
  for (uint64_t i = 0; i < silicon_count; i++) measure(silicon_loops[i]);
  return 0;
}
