/* What an instruction occupies in a core. */
#ifndef TILEFLEET_CLASSIFY_H
#define TILEFLEET_CLASSIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jumps.h"
#include "prices.h"

/* The pipes of a core that instructions compete for. */
typedef enum { PIPE_INTEGER, PIPE_BRANCH, PIPE_LOAD, PIPE_STORE, PIPE_VECTOR, PIPE_MATRIX, PIPE_DIVIDE, PIPES } Pipe;

/* Slots taken of each pipe; how many a pipe has a cycle is the board's. Loads and stores are also counted
 * as instructions. */
typedef struct {
  uint32_t slots[PIPES], loads, stores;
  bool beyond_l1; /* its memory accesses go to L2 at once */
} Usage;

/* Add what one instruction (on Hexagon: one packet) of `bytes` at `code` takes. */
typedef void (*Classify)(const uint8_t *code, size_t bytes, Usage *usage);

/* An instruction set: classify_NAME.c defines isa_NAME, and is all there is to add for another one. */
typedef struct {
  Classify classify; /* NULL where boards have tables of prices */
  uint64_t last_address;
  JumpKind (*jump)(uint32_t word); /* what an instruction is at the end of a block */
  VectorType vector_type; /* NULL where instructions cost the same for all vectors */
} Isa;

#endif
