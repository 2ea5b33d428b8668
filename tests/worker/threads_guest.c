/* threads_guest PAGE THREADS: the simulated ticks of five pieces of work that so many threads share: sums in registers,
 * a walk through 4 MB, five that change them, turns with a lock that all want, and 40 walks that change 400 KB. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulation_page.h"

enum { BYTES = 4 << 20, FEW_BYTES = 400 << 10, LINE = 64, STEPS = 1500000, TURNS = 20, MOST = 8 };

static const volatile SimulationPage *page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *memory;
static long threads;

static uint64_t ticks(SimulationRequest request) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)request, 0L, 0L);
  return page->counters.ticks;
}

static void spend(long steps) {
  for (; steps; steps--) __asm__ volatile("" : "+r"(steps));
}

static void *compute(void *id) {
  (void)id;
  spend(STEPS / threads);
  return NULL;
}

static void *walk(void *id) {
  volatile unsigned char *from = memory + BYTES / threads * (long)id;
  for (long at = 0; at < BYTES / threads; at += LINE) (void)from[at];
  return NULL;
}

static void change_bytes(long id, long bytes, int walks) {
  volatile unsigned char *from = memory + bytes / threads * id;
  for (; walks; walks--)
    for (long at = 0; at < bytes / threads; at += LINE) from[at]++;
}

static void *change(void *id) {
  change_bytes((long)id, BYTES, 5);
  return NULL;
}

static void *change_few(void *id) {
  change_bytes((long)id, FEW_BYTES, 40);
  return NULL;
}

static void *take_turns(void *id) {
  (void)id;
  for (int i = 0; i < TURNS; i++) {
    pthread_mutex_lock(&lock);
    spend(5000);
    pthread_mutex_unlock(&lock);
    spend(1000);
  }
  return NULL;
}

static void measure(void *(*work)(void *)) {
  pthread_t made[MOST];
  ticks(SIMULATION_RESET);
  uint64_t began = ticks(SIMULATION_PUBLISH);
  for (long id = 1; id < threads; id++)
    if (pthread_create(made + id, NULL, work, (void *)id)) exit(2);
  work(0);
  for (long id = 1; id < threads; id++) pthread_join(made[id], NULL);
  printf("%llu\n", (unsigned long long)(ticks(SIMULATION_PUBLISH) - began));
}

int main(int count, char **given) {
  int file = count == 3 ? open(given[1], O_RDONLY) : -1;
  void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return 1;
  page = mapped;
  threads = strtol(given[2], NULL, 10);
  memory = malloc(BYTES);
  if (!memory || threads < 1 || threads > MOST) return 1;
  memset(memory, 1, BYTES);
  measure(compute);
  measure(walk);
  measure(change);
  measure(take_turns);
  measure(change_few);
  return 0;
}
