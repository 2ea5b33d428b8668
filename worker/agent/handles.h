/* What a client holds by handle: modules and functions. A handle is a small number, checked at every use. */
#ifndef TILEFLEET_HANDLES_H
#define TILEFLEET_HANDLES_H

#include <stdint.h>

#include "loader.h"
#include "timer.h"
#include "values.h"

/* A function of the board itself: answers through reply.h and returns 0, or returns -1 with a pending error. */
typedef int (*BoardFunction)(const Value *args, int32_t num_args);

typedef enum { OBJECT_FREE, OBJECT_MODULE, OBJECT_BOARD_FUNCTION, OBJECT_KERNEL, OBJECT_EVALUATOR } ObjectKind;

typedef struct {
  ObjectKind kind;
  int uses;        /* by the client, and by functions of a module */
  uint64_t module; /* of a kernel or an evaluator: kept loaded as long as they live */
  union {
    Image *image;
    BoardFunction board_function;
    struct {
      PackedFunction function;
      Timing timing; /* of an evaluator */
    };
  };
} Object;

/* Keep an object and return its handle, or 0 and a pending error. */
uint64_t handle_new(Object object);

/* The object behind a handle, or NULL and a pending error. */
Object *handle_find(uint64_t handle);

/* The module behind a handle, or NULL and a pending error. */
Object *handle_find_module(uint64_t handle);

/* Give up one use; the last one unloads a module. 0, or -1 and a pending error. */
int handle_release(uint64_t handle);

#endif
