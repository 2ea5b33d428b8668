/* What the kernel tells of the time that it gave to this process and of that which others got instead. */
#ifndef TILEFLEET_USAGE_H
#define TILEFLEET_USAGE_H

#include <stdbool.h>
#include <stdint.h>

/* CPU time of the calling thread, how often the process's threads had to give up their CPU, and how long those
 * of the pool waited for one. */
typedef struct {
  int64_t cpu_ns, switches, waited_ns;
} Usage;

/* Open what the kernel tells of the CPUs; call once, before a session is confined. */
void usage_open(void);

Usage usage_now(void);

/* Whether others disturbed what ran from `start` to `end`, `wall_ns` by the clock. */
bool usage_disturbed(const Usage *start, const Usage *end, int64_t wall_ns);

/* Time that other virtual machines have taken from the pool's CPUs, in steps of some milliseconds; 0 where
 * nobody tells. */
int64_t stolen_ns(void);

/* Whether so much was taken from a span of `wall_ns` that its times are worth nothing. */
bool stolen_disturbed(int64_t taken_ns, int64_t wall_ns);

#endif
