#include "threads.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"
#include "clock.h"
#include "error.h"
#include "simulation.h"

enum { MAX_THREADS = ARCH_MAX_THREADS, LINE = 128, WORKER_STACK = 4 << 20 };
static const double SPIN_SECONDS = 50e-6;

/* One counter a cache line, so that threads waiting on different ones do not disturb each other. */
typedef struct {
  _Alignas(LINE) atomic_int value;
} Counter;

static int cpus[MAX_THREADS], num_cpus;
static int num_threads = 1;
static bool started;
static ARCH_THREAD_LOCAL bool is_worker;

/* The launch under way. Written by the launching thread before `generation` moves on; every worker reads it
 * and signs off, also when it has no task, so that the next launch cannot overtake a slow reader. */
static struct {
  ParallelTask task;
  void *data;
  ParallelEnv env;
} job;
static Counter generation, working, failed, sleeping, ready;
static Counter arrived[MAX_THREADS]; /* at the barrier, by task */
static atomic_int schedstats[MAX_THREADS]; /* of the workers; 0 where there is none */

static void pin_to(int cpu) {
  if (simulation_active()) return; /* emulators share the host: its scheduler knows better */
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set); /* the calling thread; where it is refused, times are noisier */
}

void threads_configure(int count) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  for (int cpu = 0; cpu < CPU_SETSIZE && num_cpus < MAX_THREADS; cpu++)
    if (CPU_ISSET(cpu, &set)) cpus[num_cpus++] = cpu;
  if (!num_cpus) num_cpus = 1; /* no such call here: CPU 0 */
  num_threads = count > 0 ? count : num_cpus;
  if (num_threads > MAX_THREADS) num_threads = MAX_THREADS;
  pin_to(cpus[0]);
}

int threads_count(void) { return num_threads; }

bool threads_started(void) { return started; }

int threads_first_cpu(void) { return cpus[0]; }

bool threads_use_cpu(int cpu) {
  for (int i = 0; i < num_cpus && i < num_threads; i++)
    if (cpus[i] == cpu) return true;
  return false;
}

bool threads_crowded(void) { return num_threads > num_cpus; }

int64_t threads_waited_ns(void) {
  long long sum = 0, waited;
  char text[96] = "";
  for (int id = 1; started && id < num_threads; id++) {
    int file = atomic_load(&schedstats[id]);
    if (file > 0 && pread(file, text, sizeof text - 1, 0) > 0 && sscanf(text, "%*d %lld", &waited) == 1)
      sum += waited;
  }
  return sum;
}

static void futex(atomic_int *word, int operation, int value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Sleep until a launch after `seen`, unless it has come meanwhile. */
static void sleep_until_launch(int seen) {
  atomic_fetch_add(&sleeping.value, 1);
  futex(&generation.value, FUTEX_WAIT, seen);
  atomic_fetch_sub(&sleeping.value, 1);
}

/* The same on a simulated board, whose clock takes the first part of a sleep for spinning: wall time is not its time. */
static int await_simulated_launch(int seen) {
  int now;
  while ((now = atomic_load(&generation.value)) == seen) {
    simulation_spin(SPIN_SECONDS);
    sleep_until_launch(seen);
  }
  return now;
}

/* Wait until a launch after `seen` and return its number. */
static int await_launch(int seen) {
  if (simulation_active()) return await_simulated_launch(seen);
  /* A spinning thread would hold the CPU of a working one. */
  double until = threads_crowded() ? 0 : clock_seconds() + SPIN_SECONDS;
  int now;
  for (unsigned i = 0; (now = atomic_load(&generation.value)) == seen; i++) {
    if (i % 64 == 0 && clock_seconds() > until) sleep_until_launch(seen);
    arch_pause();
  }
  return now;
}

static void run_task(int id) {
  if (job.task(id, &job.env, job.data)) atomic_store(&failed.value, 1);
}

static void *worker(void *argument) {
  int id = (int)(intptr_t)argument;
  pin_to(cpus[id % num_cpus]);
  is_worker = true;
  atomic_store(&schedstats[id], open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  atomic_fetch_add(&ready.value, 1);
  for (int seen = 0;;) {
    seen = await_launch(seen);
    if (id < job.env.num_task) run_task(id);
    atomic_fetch_sub(&working.value, 1);
  }
  return NULL;
}

static int start_workers(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, WORKER_STACK); /* musl's default of 128 KiB is small for kernels */
  for (intptr_t id = 1; id < num_threads; id++) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, worker, (void *)id))
      return error_set("cannot start thread %d of %d", (int)id, num_threads);
  }
  pthread_attr_destroy(&attributes);
  started = true;
  return 0;
}

void threads_start(void) {
  if (num_threads == 1 || simulation_active() || start_workers()) return;
  while (atomic_load(&ready.value) < num_threads - 1) sched_yield();
}

/* Spin, and after a while let others have the CPU. */
static void wait_step(unsigned step) {
  if (step < 4096) arch_pause();
  else sched_yield();
}

int threads_launch(ParallelTask task, void *data, int num_task) {
  if (num_task == 0) num_task = num_threads;
  if (is_worker) return error_set("a parallel loop inside a parallel loop is not supported");
  if (num_task < 0 || num_task > num_threads)
    return error_set("%d parallel tasks asked for, this board has %d threads", num_task, num_threads);
  if (num_threads > 1 && !started && (!simulation_active() || start_workers()))
    return error_set("the %d threads of this session did not start", num_threads);
  job.task = task;
  job.data = data;
  job.env = (ParallelEnv){.sync_handle = arrived, .num_task = num_task};
  for (int i = 0; i < num_task; i++) atomic_store_explicit(&arrived[i].value, 0, memory_order_relaxed);
  atomic_store(&failed.value, 0);
  atomic_store(&working.value, num_threads - 1);
  atomic_fetch_add(&generation.value, 1);
  if (atomic_load(&sleeping.value)) futex(&generation.value, FUTEX_WAKE, INT_MAX);
  is_worker = true; /* task 0 must not launch either */
  run_task(0);
  is_worker = false;
  for (unsigned step = 0; atomic_load(&working.value); step++) wait_step(step);
  return atomic_load(&failed.value) ? error_set("a parallel task failed") : 0;
}

int threads_barrier(int task_id, ParallelEnv *env) {
  Counter *counters = env->sync_handle;
  int mine = atomic_fetch_add(&counters[task_id].value, 1) + 1;
  for (int i = 0; i < env->num_task; i++)
    for (unsigned step = 0; atomic_load(&counters[i].value) < mine; step++) wait_step(step);
  return 0;
}
