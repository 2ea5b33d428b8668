/* The thread pool behind TVMBackendParallelLaunch.
 *
 * The calling thread runs task 0 and workers run the others, each pinned to its own CPU of the process's
 * affinity mask. Workers start before a candidate is loaded, which can start none; on a simulated board, where
 * each thread costs an emulator, at the first launch. Between launches they spin for some tens of microseconds,
 * because layers follow each other closely, and then sleep. */
#ifndef TILEFLEET_THREADS_H
#define TILEFLEET_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* TVMParallelGroupEnv. */
typedef struct {
  void *sync_handle;
  int32_t num_task;
} ParallelEnv;

typedef int (*ParallelTask)(int task_id, ParallelEnv *env, void *data);

/* Set the pool's size, 0 meaning one thread a CPU of the affinity mask, and pin the calling thread to the
 * mask's first CPU. Call once, before any launch. */
void threads_configure(int count);

/* Start the workers and wait until each has opened what it needs. A failure is told by the first launch. */
void threads_start(void);

/* The pool's size. */
int threads_count(void);

/* Whether its workers are there. */
bool threads_started(void);

/* The first CPU of the affinity mask. */
int threads_first_cpu(void);

/* Whether this CPU is one that the pool's threads are pinned to. */
bool threads_use_cpu(int cpu);

/* Whether there are more threads than CPUs. */
bool threads_crowded(void);

/* How long the workers have waited for a CPU since they started, as far as the kernel tells. */
int64_t threads_waited_ns(void);

/* TVMBackendParallelLaunch: run `task` with ids 0..num_task-1 at the same time and wait for all; num_task 0
 * means one a thread. 0, or -1 and a pending error when a task failed or the launch is not possible. */
int threads_launch(ParallelTask task, void *data, int num_task);

/* TVMBackendParallelBarrier: wait until every task of the launch has come here as often as this one. */
int threads_barrier(int task_id, ParallelEnv *env);

#endif
