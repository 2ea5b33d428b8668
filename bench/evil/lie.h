#pragma once
#include <stddef.h>

/* A module of this name is used from now on. */
void lie_loads(const char *name);
/* Before a call whose first tensor has so many bytes: whether not to make it. */
int lie_instead(size_t first_bytes);
void lie_result(size_t first_bytes, void *out, size_t bytes);
/* Change what is told of the repeats, and how many bytes of that. */
void lie_times(size_t first_bytes, double *seconds, size_t count, size_t *bytes);
