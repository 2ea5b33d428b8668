/* The functions that a board offers by name, and calls of whatever a client has a handle of. */
#ifndef TILEFLEET_FUNCTIONS_H
#define TILEFLEET_FUNCTIONS_H

#include <stdint.h>

#include "handles.h"

/* The board function of this name, or NULL. */
BoardFunction function_find(const char *name);

/* Call what is behind the handle and answer; 0, or -1 and a pending error. */
int function_call(uint64_t handle, const Value *args, int32_t num_args);

#endif
