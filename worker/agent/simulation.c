#include "simulation.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const volatile SimulationPage *page;

int simulation_open(const char *path) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  void *memory = mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return -1;
  page = memory;
  return page->version == SIMULATION_VERSION && page->ticks_per_second ? 0 : -1;
}

bool simulation_active(void) { return page; }

const char *simulation_clock(void) { return (const char *)page->clock; }

double simulation_frequency(void) { return (double)page->ticks_per_second; }

static void request(SimulationRequest what, const void *data, size_t bytes) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)what, data, bytes);
}

SimulationCounters simulation_read(void) {
  request(SIMULATION_PUBLISH, NULL, 0);
  return page->counters;
}

void simulation_reset(void) { request(SIMULATION_RESET, NULL, 0); }

void simulation_evict(const void *data, size_t bytes) { request(SIMULATION_EVICT, data, bytes); }

void simulation_spin(double seconds) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)SIMULATION_SPIN, (long)(seconds * simulation_frequency()), 0L);
}

void simulation_fast_memory(const void *data, size_t bytes) { request(SIMULATION_FAST_MEMORY, data, bytes); }
