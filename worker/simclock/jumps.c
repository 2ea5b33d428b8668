/* Two tables, of a jump after the last ones and of a jump alone, as in McFarling's combining predictor (1993);
 * the first one counts where it knows the jump. */
#include "jumps.h"

enum { REMEMBERED = 16 }; /* outcomes; assumed. A place that a register told is two. */

static uint32_t mixed(uint32_t a, uint32_t b) {
  uint64_t hash = (((uint64_t)a << 32) | b) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(hash >> 32);
}

/* What was guessed, and learn what is right. */
static uint32_t learn(Guess *guess, uint32_t key, uint32_t next) {
  uint32_t guessed = guess->key == key ? guess->next : 0;
  if (guess->key != key) *guess = (Guess){key, next, false};
  else if (guess->next == next) guess->sure = true;
  else if (guess->sure) guess->sure = false;
  else guess->next = next;
  return guessed;
}

bool jumps_miss(Jumps *jumps, JumpKind kind, uint32_t from, uint32_t to, bool taken) {
  if (kind < JUMP_IF) return false;
  uint32_t key = mixed(from, jumps->history & ((1u << REMEMBERED) - 1));
  uint32_t after = learn(jumps->after + key % JUMPS_KNOWN, key, to);
  uint32_t alone = learn(jumps->alone + mixed(from, 0) % JUMPS_KNOWN, from, to);
  uint32_t guessed = after ? after : alone;
  if (kind == JUMP_IF) jumps->history = jumps->history << 1 | taken;
  else jumps->history = jumps->history << 2 | (mixed(to, 0) & 3); /* what came is forgotten after the last ones */
  return guessed ? guessed != to : kind != JUMP_IF || taken;
}
