/* The system calls that a candidate may make: all others end its process with SIGSYS. */
#ifndef TILEFLEET_CALLS_H
#define TILEFLEET_CALLS_H

#include <linux/filter.h>

enum { MAX_PROGRAM = 128 };

/* Write the filter for process `self` and return its length; 0 where nobody says how calls are numbered. */
unsigned short calls_program(struct sock_filter code[MAX_PROGRAM], unsigned self);

/* Filter the calls of all threads of this process for good. 0, or -1 where the kernel does not. */
int calls_filter(void);

#endif
