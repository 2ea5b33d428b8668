"""A pool of pthreads in C, which runs loops in parallel for a library: in its example, and in its wheel."""

from __future__ import annotations

POOL = """\
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* The caller and `others` more threads. Who waits looks for a while before it sleeps, and lets others run
 * meanwhile: a model's loops follow each other faster than a thread wakes. */
enum { MOST_OTHERS = @OTHERS@, LOOKS = 2000 };

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t begun, done;
  pthread_t threads[MOST_OTHERS];
  int others, ends;
  void (*task)(void *data, size_t index);
  void *data;
  size_t count, next;
  atomic_size_t left;
  atomic_uint round;
} Pool;

/* With the lock: takes one index after the other. */
static void pool_work(Pool *pool) {
  while (pool->next < pool->count) {
    size_t index = pool->next++;
    pthread_mutex_unlock(&pool->lock);
    pool->task(pool->data, index);
    pthread_mutex_lock(&pool->lock);
    if (--pool->left == 0) pthread_cond_signal(&pool->done);
  }
}

static void *pool_thread(void *given) {
  Pool *pool = given;
  unsigned seen = 0;
  pthread_mutex_lock(&pool->lock);
  while (!pool->ends) {
    seen = pool->round;
    pool_work(pool);
    pthread_mutex_unlock(&pool->lock);
    for (int look = 0; look < LOOKS && pool->round == seen; look++) sched_yield();
    pthread_mutex_lock(&pool->lock);
    while (pool->round == seen) pthread_cond_wait(&pool->begun, &pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  return 0;
}

static void pool_parallel_for(void *given, void (*task)(void *data, size_t index), void *data, size_t count) {
  Pool *pool = given;
  pthread_mutex_lock(&pool->lock);
  pool->task = task, pool->data = data, pool->count = count, pool->next = 0;
  pool->left = count;
  pool->round++;
  pthread_cond_broadcast(&pool->begun);
  pool_work(pool);
  pthread_mutex_unlock(&pool->lock);
  for (int look = 0; look < LOOKS && pool->left; look++) sched_yield();
  pthread_mutex_lock(&pool->lock);
  while (pool->left) pthread_cond_wait(&pool->done, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}

/* A system that gives fewer threads gets a pool of fewer. */
static void pool_begin(Pool *pool, int others) {
  *pool = (Pool){.others = 0};
  pthread_mutex_init(&pool->lock, 0);
  pthread_cond_init(&pool->begun, 0);
  pthread_cond_init(&pool->done, 0);
  while (pool->others < others && pool->others < MOST_OTHERS &&
         !pthread_create(&pool->threads[pool->others], 0, pool_thread, pool))
    pool->others++;
}
"""

POOL_END = """\
static void pool_end(Pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->ends = 1, pool->round++;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->others; i++) pthread_join(pool->threads[i], 0);
}
"""


def pool(threads: int) -> str:
    """The C of a pool for ``threads``, the caller's included: ``Pool``, ``pool_begin``, and
    ``pool_parallel_for``, which one thread at a time may call. ``POOL_END`` has what ends it.
    """
    return POOL.replace("@OTHERS@", str(max(1, threads - 1)))
