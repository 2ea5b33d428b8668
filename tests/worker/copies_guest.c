/* copies_guest PAGE: cycles of a line under a simulated clock, in memory: read, filled, copied, and copied by way of a
 * buffer of 2 KB, as tinymembench does all of them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation_page.h"

enum { BYTES = 16 << 20, LINE = 64, BURST = 2048 };

static char from[BYTES] __attribute__((aligned(4096))), to[BYTES] __attribute__((aligned(4096)));
static char buffer[BURST] __attribute__((aligned(4096)));
static const volatile SimulationPage *page;

static uint64_t ticks(SimulationRequest request) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)request, 0L, 0L);
  return page->counters.ticks;
}

#define LINES(body)                                                                              \
  __asm__ volatile("1:\n" body "subs %2, %2, #64\nb.ne 1b\n"                                     \
                   : "+r"(out), "+r"(in), "+r"(bytes)                                            \
                   :                                                                             \
                   : "v0", "v1", "v2", "v3", "cc", "memory")
#define LOAD "ldp q0, q1, [%1], #32\nldp q2, q3, [%1], #32\n"
#define STORE "stp q0, q1, [%0], #32\nstp q2, q3, [%0], #32\n"

static void read_all(char *out, const char *in, long bytes) { LINES(LOAD); }
static void fill(char *out, const char *in, long bytes) { LINES(STORE); }
static void copy(char *out, const char *in, long bytes) { LINES(LOAD STORE); }
static void copy_in_bursts(char *out, const char *in, long bytes) {
  for (long at = 0; at < bytes; at += BURST) {
    copy(buffer, in + at, BURST);
    copy(out + at, buffer, BURST);
  }
}

static const struct {
  const char *name;
  void (*run)(char *, const char *, long);
} kinds[] = {{"read", read_all}, {"fill", fill}, {"copy", copy}, {"bursts", copy_in_bursts}};

int main(int count, char **given) {
  int file = count == 2 ? open(given[1], O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 1;
  page = mapped;
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    ticks(SIMULATION_RESET);
    kinds[i].run(to, from, BYTES);
    uint64_t began = ticks(SIMULATION_PUBLISH);
    kinds[i].run(to, from, BYTES);
    double taken = (double)(ticks(SIMULATION_PUBLISH) - began) / SIMULATION_TICKS_PER_CYCLE;
    printf("%s\"%s\": %.3f", i ? ", " : "{", kinds[i].name, taken / (BYTES / LINE));
  }
  puts("}");
  return 0;
}
