#include "schedule.h"

#include <stdlib.h>

#include "emulator.h"

enum { CORES = 1024, QUANTUM = 500 * SIMULATION_TICKS_PER_CYCLE };
static const uint64_t QUIET = (uint64_t)30000000 * SIMULATION_TICKS_PER_CYCLE; /* longer than peers spin */

Core *schedule_running;
uint64_t schedule_limit = UINT64_MAX;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for states and turns */
static Core *cores[CORES];
static unsigned num_cores; /* there ever were */
static unsigned num_threads;
static uint64_t start_ticks;
static pthread_key_t ending;
static void (*at_end)(Core *);

static bool possible(void) {
  return &guest_base && qemu_get_cpu && cpu_restore_state && cpu_exec_start && cpu_exec_end && cpu_loop_exit_noexc;
}

/* The one that is behind, or NULL; the lower number of two. */
static Core *behind(const Core *but) {
  Core *found = NULL;
  for (unsigned i = 0; i < num_cores; i++)
    if (cores[i] && cores[i] != but && cores[i]->state == CORE_READY && (!found || core_now(cores[i]) < core_now(found)))
      found = cores[i];
  return found;
}

static void limit(void) {
  Core *next = behind(schedule_running);
  schedule_limit = next ? core_now(next) + QUANTUM : UINT64_MAX;
}

static void give(void) {
  schedule_running = behind(NULL);
  if (!schedule_running) return;
  limit();
  pthread_cond_signal(&schedule_running->turn);
}

static void await(Core *core) {
  while (schedule_running != core) pthread_cond_wait(&core->turn, &lock);
}

static void pass_to(Core *core, uint64_t at) {
  if (core_now(core) < at) core->counters.ticks = at - core->memory.ticks;
}

/* Only the forking thread lives on. */
static void on_fork(void) {
  pthread_mutex_init(&lock, NULL);
  for (unsigned i = 0; i < num_cores; i++)
    if (cores[i] && cores[i] != schedule_running) cores[i]->state = CORE_ABSENT;
  num_threads = 1;
  schedule_limit = UINT64_MAX;
}

static void on_end(void *ended) {
  Core *core = ended;
  pthread_mutex_lock(&lock);
  core->state = CORE_ABSENT;
  num_threads--;
  pthread_mutex_unlock(&lock);
  at_end(core);
  pthread_mutex_lock(&lock);
  give();
  pthread_mutex_unlock(&lock);
}

void schedule_configure(uint64_t ticks) {
  start_ticks = ticks;
  pthread_key_create(&ending, on_end);
  pthread_atfork(NULL, NULL, on_fork);
}

Core *schedule_core(unsigned cpu) { return cores[cpu]; }

bool schedule_several(void) { return num_threads > 1 && possible(); }

void schedule_each(void (*visit)(Core *core, void *data), void *data) {
  for (unsigned i = 0; i < num_cores; i++)
    if (cores[i] && cores[i]->cpu == i) visit(cores[i], data);
}

void schedule_begin(unsigned cpu) {
  if (cpu >= CORES) abort();
  pthread_mutex_lock(&lock);
  if (cpu >= num_cores) num_cores = cpu + 1;
  num_threads++;
  if (!cores[cpu] && schedule_running && !possible()) {
    cores[cpu] = schedule_running; /* threads are one core that nobody orders */
    pthread_mutex_unlock(&lock);
    return;
  }
  Core *core = cores[cpu];
  if (!core) {
    core = cores[cpu] = calloc(1, sizeof *core);
    if (!core || !(core->caches = caches_of_core())) abort();
    core->cpu = cpu;
    pthread_cond_init(&core->turn, NULL);
  }
  turns_forget(&core->turns);
  core->state = CORE_READY;
  core->exit_address = core->spins = 0;
  if (schedule_running) {
    pass_to(core, core_now(schedule_running) + start_ticks);
    limit();
  } else {
    schedule_running = core;
  }
  pthread_mutex_unlock(&lock);
}

void schedule_turn(Core *core, uintptr_t host_pc) {
  pthread_mutex_lock(&lock);
  if (schedule_running == core || !schedule_running) give();
  if (schedule_running == core) {
    pthread_mutex_unlock(&lock);
    return;
  }
  CPUState *state = qemu_get_cpu((int)core->cpu);
  cpu_restore_state(state, host_pc, true);
  cpu_exec_end(state);
  await(core);
  pthread_mutex_unlock(&lock);
  cpu_exec_start(state);
  cpu_loop_exit_noexc(state);
}

void schedule_pause(Core *core) {
  if (schedule_limit == UINT64_MAX) return;
  pass_to(core, schedule_limit - QUANTUM + 1);
  schedule_limit = 0;
}

void schedule_yield(Core *core) {
  pthread_mutex_lock(&lock);
  Core *next = behind(core);
  if (next) pass_to(core, core_now(next) + 1);
  give();
  await(core);
  pthread_mutex_unlock(&lock);
}

void schedule_leave(Core *core, CoreState state) {
  pthread_mutex_lock(&lock);
  core->state = state;
  give();
  pthread_mutex_unlock(&lock);
}

void schedule_return(Core *core) {
  pthread_mutex_lock(&lock);
  if (core->state == CORE_AWAY) {
    if (schedule_running) pass_to(core, core_now(schedule_running));
    core->state = CORE_READY;
    /* Whoever runs goes on until its limit at most. */
    if (schedule_running) limit();
  }
  if (!schedule_running) give();
  await(core);
  pthread_mutex_unlock(&lock);
}

void schedule_wake(Core *core, uint64_t at) {
  pthread_mutex_lock(&lock);
  pass_to(core, at);
  core->state = CORE_READY;
  if (schedule_running) limit();
  pthread_mutex_unlock(&lock);
}

void schedule_end(Core *core, void (*on_end_of)(Core *)) {
  at_end = on_end_of;
  pthread_setspecific(ending, core);
}

void schedule_quiet(Core *core) {
  uint64_t began = core_now(core), latest = began;
  pass_to(core, began + QUIET);
  schedule_yield(core);
  pthread_mutex_lock(&lock);
  if (!behind(core)) {
    for (unsigned i = 0; i < num_cores; i++)
      if (cores[i] && cores[i] != core && core_now(cores[i]) > latest) latest = core_now(cores[i]);
    core->counters.ticks = latest - core->memory.ticks;
  }
  pthread_mutex_unlock(&lock);
}
