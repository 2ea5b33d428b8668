/* TVM's time evaluator. */
#ifndef TILEFLEET_TIMER_H
#define TILEFLEET_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "simulation.h"
#include "values.h"

/* What a simulated board counted in the last repeat that was timed, and how many calls that was. */
typedef struct {
  SimulationCounters counters;
  int64_t calls;
} TimedCounters;

const TimedCounters *timed_counters(void);

/* For each repeat that was timed last, '1' where others disturbed it, else '0'; empty on a simulated board,
 * whose clock nobody disturbs. */
const char *timed_disturbances(void);

/* What runs before each repeat. */
typedef enum {
  PREPARE_NOTHING,
  PREPARE_COLD_WEIGHTS,   /* "tilefleet.cold_weights": argument 1 leaves the caches */
  PREPARE_COLD_NON_FIRST, /* TVM's "cache_flush_cpu_non_first_arg" */
} Preparation;

/* The meaning of the numbers is that of tvm.runtime.Module.time_evaluator. A simulated board ignores
 * min_repeat_ms and the pauses: they are against noise, which its clock does not have. */
typedef struct {
  int64_t number, repeat, min_repeat_ms, limit_zero_time_iterations;
  int64_t cooldown_interval_ms, repeats_to_cooldown, cache_flush_bytes;
  Preparation preparation;
} Timing;

/* Find what a preparation's name stands for; 0, or -1 and a pending error. */
int preparation_parse(const char *name, Preparation *preparation);

/* Check the numbers; 0, or -1 and a pending error. */
int timing_check(const Timing *timing);

/* Call `function` unmeasured, then time it; `seconds` receives `repeat` means of a call. 0, or -1 and
 * a pending error. */
int timing_run(const Timing *timing, PackedFunction function, const Value *args, int32_t num_args,
               double *seconds);

#endif
