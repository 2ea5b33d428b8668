/* memory_guest PAGE: cycles a turn of four loops under a simulated clock: a list walked through memory, loads of
 * lines far from one another that do not wait for each other, loads of one line after another, and the same beside a
 * chain of 16 additions. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation_page.h"

enum { TURNS = 1 << 15, STEP = 4096 + 64, MEMORY = TURNS * STEP };

static char memory[MEMORY];
static const SimulationPage *page;

static uint64_t ticks(SimulationRequest request) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)request, 0L, 0L);
  return ((volatile const SimulationPage *)page)->counters.ticks;
}

#define MEASURE(name, body)                                                                                    \
  do {                                                                                                         \
    uint64_t began = ticks(SIMULATION_RESET);                                                                  \
    register char *at __asm__("x0") = memory;                                                                  \
    register long left __asm__("x1") = TURNS;                                                                  \
    __asm__ volatile("mov x2, %2\n1:\n" body "subs x1, x1, #1\nb.ne 1b\n"                                      \
                     : "+r"(at), "+r"(left)                                                                    \
                     : "r"((long)STEP)                                                                         \
                     : "x2", "x3", "x4", "cc", "memory");                                                            \
    printf("\"%s\": %.3f", name, (double)(ticks(SIMULATION_PUBLISH) - began) / SIMULATION_TICKS_PER_CYCLE / TURNS); \
  } while (0)

int main(int count, char **given) {
  int file = count == 2 ? open(given[1], O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 1;
  page = mapped;
  for (long i = 0; i < TURNS; i++) *(char **)(memory + i * STEP) = memory + (i + 1) % TURNS * STEP;
  putchar('{');
  MEASURE("list", "ldr x0, [x0]\n");
  fputs(", ", stdout);
  MEASURE("apart", "ldr x3, [x0]\nadd x0, x0, x2\n");
  fputs(", ", stdout);
  MEASURE("stream", "ldr x3, [x0]\nadd x0, x0, #64\n");
  fputs(", ", stdout);
  MEASURE("beside", "ldr x3, [x0]\nadd x0, x0, #64\n.rept 16\nadd x4, x4, #1\n.endr\n");
  puts("}");
  return 0;
}
