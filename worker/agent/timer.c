#include "timer.h"

#include <alloca.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arch.h"
#include "clock.h"
#include "error.h"
#include "threads.h"
#include "usage.h"
#include "workspace.h"

enum { MAX_REPEAT = 1000000 };
static const int64_t MAX_NUMBER = 1000000000;
static const double GOLDEN_RATIO = 1.618;
/* Stolen time is told in steps of some milliseconds: over a shorter span it says little. */
static const int64_t STEAL_SPAN_NS = 30000000;

int preparation_parse(const char *name, Preparation *preparation) {
  if (!*name) *preparation = PREPARE_NOTHING;
  else if (!strcmp(name, "tilefleet.cold_weights")) *preparation = PREPARE_COLD_WEIGHTS;
  else if (!strcmp(name, "cache_flush_cpu_non_first_arg")) *preparation = PREPARE_COLD_NON_FIRST;
  else return error_set("time_evaluator: this board has no f_preproc %s", name);
  return 0;
}

int timing_check(const Timing *t) {
  if (t->number < 1 || t->number > MAX_NUMBER)
    return error_set("time_evaluator: number %lld", (long long)t->number);
  if (t->repeat < 1 || t->repeat > MAX_REPEAT)
    return error_set("time_evaluator: repeat %lld", (long long)t->repeat);
  if (t->cache_flush_bytes < 0 || t->cache_flush_bytes > (int64_t)1 << 30)
    return error_set("time_evaluator: cache_flush_bytes %lld", (long long)t->cache_flush_bytes);
  return 0;
}

static void flush(const void *data, size_t bytes) {
  if (simulation_active()) simulation_evict(data, bytes);
  else arch_flush_cache(data, bytes);
}

static void flush_arguments(const Value *args, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++)
    if (args[i].type == TYPE_TENSOR)
      flush((char *)args[i].tensor->data + args[i].tensor->byte_offset, tensor_bytes(args[i].tensor));
}

static void prepare(Preparation preparation, const Value *args, int32_t num_args) {
  if (preparation == PREPARE_COLD_WEIGHTS) flush_arguments(args, 1, num_args < 2 ? num_args : 2);
  if (preparation == PREPARE_COLD_NON_FIRST) flush_arguments(args, 1, num_args);
}

static int call(int64_t number, PackedFunction function, const Value *args, int32_t num_args) {
  for (int64_t i = 0; i < number; i++) {
    Value result = {.type = TYPE_NONE};
    if (function(NULL, args, num_args, &result)) return -1;
  }
  return 0;
}

/* Make a repeat long enough: time `number` calls, with more of them each round until it is. */
static int time_repeat(const Timing *t, int64_t *number, PackedFunction function, const Value *args,
                       int32_t num_args, char *flush_buffer, double *seconds, bool *disturbed) {
  int64_t elapsed_ns = 0;
  int64_t zero_times = 0;
  do {
    if (elapsed_ns > 0) {
      double call_ms = (double)elapsed_ns / 1e6 / (double)*number;
      double needed = (double)t->min_repeat_ms / call_ms + 1, grown = (double)*number * GOLDEN_RATIO;
      double next = needed > grown ? needed : grown;
      *number = next < (double)MAX_NUMBER ? (int64_t)next : MAX_NUMBER;
    }
    if (flush_buffer) memset(flush_buffer, (int)zero_times + 1, (size_t)t->cache_flush_bytes);
    Usage before = usage_now();
    int64_t start = clock_ns();
    if (call(*number, function, args, num_args)) return -1;
    elapsed_ns = clock_ns() - start;
    Usage after = usage_now();
    *disturbed = usage_disturbed(&before, &after, elapsed_ns);
    if (elapsed_ns == 0) zero_times++;
  } while ((double)elapsed_ns < (double)t->min_repeat_ms * 1e6 && zero_times < t->limit_zero_time_iterations &&
           *number < MAX_NUMBER);
  *seconds = (double)elapsed_ns / 1e9 / (double)*number;
  return 0;
}

/* Of the last timing: whether each repeat was disturbed. */
static char *disturbances;

const char *timed_disturbances(void) { return disturbances ? disturbances : ""; }

static TimedCounters timed;

const TimedCounters *timed_counters(void) { return &timed; }

static int simulate_repeat(const Timing *t, PackedFunction function, const Value *args, int32_t num_args,
                           char *flush_buffer, double *seconds) {
  if (flush_buffer) memset(flush_buffer, 1, (size_t)t->cache_flush_bytes);
  SimulationCounters start = simulation_read();
  if (call(t->number, function, args, num_args)) return -1;
  SimulationCounters end = simulation_read();
  timed = (TimedCounters){.counters = {.ticks = end.ticks - start.ticks,
                                       .instructions = end.instructions - start.instructions,
                                       .loads = end.loads - start.loads,
                                       .stores = end.stores - start.stores,
                                       .l1_misses = end.l1_misses - start.l1_misses,
                                       .l2_misses = end.l2_misses - start.l2_misses,
                                       .unpriced = end.unpriced - start.unpriced},
                          .calls = t->number};
  *seconds = (double)timed.counters.ticks / simulation_frequency() / (double)t->number;
  return 0;
}

/* Run and time with the stack beginning at a page's end, everything else that is touched at a fixed place in
 * its page, the workspaces new, and the caches empty before the warm-up: the same trial then makes the same
 * accesses in every session, and gets the bit-same time. */
static __attribute__((noinline)) int simulate(const Timing *anywhere, PackedFunction function, const Value *args,
                                              int32_t num_args, char *flush_buffer, double *seconds) {
  Timing timing = *anywhere, *t = &timing;
  workspace_clear();
  unsigned long allocations;
  bool started;
  do { /* once more with the workspaces and the threads that the first call made: that is not the trial's */
    allocations = workspace_allocations();
    started = threads_started();
    simulation_reset();
    if (call(1, function, args, num_args)) return -1;
  } while (workspace_allocations() != allocations || threads_started() != started);
  for (int64_t i = 0; i < t->repeat; i++) {
    prepare(t->preparation, args, num_args);
    if (simulate_repeat(t, function, args, num_args, flush_buffer, seconds + i)) return -1;
  }
  return 0;
}

static int simulate_on_new_page(const Timing *t, PackedFunction function, const Value *args, int32_t num_args,
                                char *flush_buffer, double *seconds) {
  char here;
  volatile char *rest = alloca(((uintptr_t)&here & (SIMULATION_ALIGNMENT - 1)) + 1);
  *rest = 0; /* so that it is not optimised away */
  return simulate(t, function, args, num_args, flush_buffer, seconds);
}

static int measure(const Timing *t, PackedFunction function, const Value *args, int32_t num_args,
                   char *flush_buffer, double *seconds) {
  free(disturbances);
  disturbances = calloc((size_t)t->repeat + 1, 1);
  if (!disturbances) return error_set("time_evaluator: no memory for %lld repeats", (long long)t->repeat);
  int64_t number = t->number, first = 0;
  int status = call(1, function, args, num_args);
  int64_t span_start = clock_ns(), stolen = stolen_ns();
  for (int64_t i = 0; i < t->repeat && !status; i++) {
    prepare(t->preparation, args, num_args);
    bool disturbed = false;
    status = time_repeat(t, &number, function, args, num_args, flush_buffer, seconds + i, &disturbed);
    disturbances[i] = disturbed ? '1' : '0';
    int64_t span = clock_ns() - span_start;
    if (span >= STEAL_SPAN_NS || i == t->repeat - 1) {
      int64_t stolen_before = stolen;
      stolen = stolen_ns();
      if (stolen_disturbed(stolen - stolen_before, span)) memset(disturbances + first, '1', (size_t)(i + 1 - first));
      first = i + 1;
      span_start += span;
    }
    if (t->cooldown_interval_ms > 0 && t->repeats_to_cooldown > 0 && i % t->repeats_to_cooldown == 0) {
      struct timespec pause = {.tv_sec = t->cooldown_interval_ms / 1000,
                               .tv_nsec = t->cooldown_interval_ms % 1000 * 1000000};
      nanosleep(&pause, NULL);
    }
  }
  return status;
}

int timing_run(const Timing *t, PackedFunction function, const Value *args, int32_t num_args,
               double *seconds) {
  char *flush_buffer = NULL;
  if (t->cache_flush_bytes &&
      posix_memalign((void **)&flush_buffer, SIMULATION_ALIGNMENT, (size_t)t->cache_flush_bytes))
    return error_set("time_evaluator: no memory for cache_flush_bytes");
  int status = simulation_active() ? simulate_on_new_page(t, function, args, num_args, flush_buffer, seconds)
                                   : measure(t, function, args, num_args, flush_buffer, seconds);
  free(flush_buffer);
  return status;
}
