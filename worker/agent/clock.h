/* The clock that runs on evenly, whatever the time of day is set to. */
#ifndef TILEFLEET_CLOCK_H
#define TILEFLEET_CLOCK_H

#include <stdint.h>

/* Since some fixed moment. */
int64_t clock_ns(void);
double clock_seconds(void);

#endif
