/* Instructions of boards with this set cost what the board's table of prices says (prices.h). */
#include "classify.h"

/* Arm Architecture Reference Manual for A-profile, C4.1.86 "Branches, Exception Generating and System". */
static JumpKind jump(uint32_t word) {
  if ((word & 0xff000000) == 0x54000000 || (word & 0x7c000000) == 0x34000000) return JUMP_IF; /* B.cond; CBZ, TBZ */
  if ((word & 0xfffffc1f) == 0xd61f0000) return JUMP_ANYWHERE;                              /* BR */
  if ((word & 0xfffffc1f) == 0xd63f0000) return JUMP_CALL;                                  /* BLR */
  if ((word & 0xfffffc1f) == 0xd65f0000) return JUMP_BACK;                                  /* RET */
  return (word & 0x7c000000) == 0x14000000 ? JUMP_ALWAYS : JUMP_NONE;                       /* B, BL */
}

const Isa isa_aarch64 = {NULL, UINT64_MAX, jump, NULL};
