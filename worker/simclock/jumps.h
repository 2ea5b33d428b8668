/* How a core guesses where code goes on: at a jump that depends on something it goes on with what it saw there
 * before, and starts again where that was wrong. */
#ifndef TILEFLEET_JUMPS_H
#define TILEFLEET_JUMPS_H

#include <stdbool.h>
#include <stdint.h>

/* What ends a block: nothing, a jump to one place, the way back to a caller (cores keep these), a jump that is
 * taken or not, one to where a register says, a call of that. */
typedef enum { JUMP_NONE, JUMP_ALWAYS, JUMP_BACK, JUMP_IF, JUMP_ANYWHERE, JUMP_CALL, JUMP_KINDS } JumpKind;

enum { JUMPS_KNOWN = 1 << 12 };

typedef struct {
  uint32_t key, next; /* where and after what, and the block that came next */
  bool sure;          /* twice in a row */
} Guess;

typedef struct {
  Guess after[JUMPS_KNOWN], alone[JUMPS_KNOWN]; /* by the last jumps, and without */
  uint32_t history;
} Jumps;

/* Go from the block `from`, which ends so, to `to`: whether the core guesses something else. Blocks have numbers
 * by the order in which they are first executed, from 1. */
bool jumps_miss(Jumps *jumps, JumpKind kind, uint32_t from, uint32_t to, bool taken);

#endif
