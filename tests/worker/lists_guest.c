/* lists_guest PAGE: cycles that a load under a simulated clock takes beyond one from L1, by the KB that it is somewhere
 * in; each waits for the one before, as in tinymembench's test of latencies. "several" is the same in 4 MB after a
 * second core ran. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation_page.h"

enum { LINE = 64, LEAST = 16 << 10, MOST = 8 << 20, SEVERAL = 4 << 20, LOADS = 1 << 17 };

static char memory[MOST] __attribute__((aligned(4096)));
static const volatile SimulationPage *page;

static uint64_t ticks(SimulationRequest request) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)request, 0L, 0L);
  return page->counters.ticks;
}

/* The loaded values are zero; the processor does not know that. */
static void load_anywhere(long bytes, long loads) {
  uint64_t draw = 1, at, value;
  __asm__ volatile("1:\nmadd %0, %0, %5, %6\nand %1, %7, %0, lsr #20\nldr %2, [%4, %1]\nadd %0, %0, %2\n"
                   "subs %3, %3, #1\nb.ne 1b\n"
                   : "+&r"(draw), "=&r"(at), "=&r"(value), "+&r"(loads)
                   : "r"(memory), "r"(6364136223846793005u), "r"(1442695040888963407u), "r"(bytes - LINE)
                   : "cc", "memory");
}

/* The cycles that a load takes. */
static double cycles(long bytes, long loads) {
  uint64_t began = ticks(SIMULATION_PUBLISH);
  load_anywhere(bytes, loads);
  return (double)(ticks(SIMULATION_PUBLISH) - began) / SIMULATION_TICKS_PER_CYCLE / loads;
}

static void *load_once(void *none) {
  load_anywhere(LEAST, 1);
  return none;
}

int main(int count, char **given) {
  int file = count == 2 ? open(given[1], O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 1;
  page = mapped;
  double inside = 0;
  for (long bytes = LEAST; bytes <= MOST; bytes *= bytes == LEAST ? 64 : 2) {
    ticks(SIMULATION_RESET);
    load_anywhere(bytes, LOADS);
    double taken = cycles(bytes, LOADS);
    if (bytes == LEAST) inside = taken;
    else printf("%s\"%ld\": %.2f", bytes == LEAST * 64 ? "{" : ", ", bytes >> 10, taken - inside);
  }
  pthread_t thread;
  ticks(SIMULATION_RESET);
  if (pthread_create(&thread, NULL, load_once, NULL) || pthread_join(thread, NULL)) return 1;
  load_anywhere(SEVERAL, LOADS);
  printf(", \"several\": %.2f}\n", cycles(SEVERAL, LOADS) - inside);
  return 0;
}
