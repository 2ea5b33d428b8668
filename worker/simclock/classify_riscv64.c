/* Instructions of boards with this set cost what the board's table of prices says (prices.h), by the type of
 * vectors that VSETVLI and VSETIVLI set. Encodings: RISC-V "V" Vector Extension 1.0, "Configuration-setting
 * instructions". */
#include "classify.h"

enum { LENGTHS = 7, ELEMENT_32 = 2, ONE_REGISTER = 3 };

/* Lengths of a group are numbered from an eighth of a register to 8; a type is that and 7 times the element. */
static unsigned vector_type(uint32_t word, unsigned type) {
  (void)type;
  bool immediate = (word & 0x8000707f) == 0x00007057 || (word & 0xc000707f) == 0xc0007057;
  unsigned length = ((word >> 20 & 7) + ONE_REGISTER) & 7, element = word >> 23 & 7;
  if ((word & 0xfe00707f) == 0x80007057) return ELEMENT_32 * LENGTHS + ONE_REGISTER; /* VSETVL: not seen here */
  return immediate && length < LENGTHS && element < 4 ? element * LENGTHS + length : VECTOR_TYPES;
}

static JumpKind jump(uint32_t word) {
  enum { RETURN_ADDRESS = 1 };
  bool compressed = (word & 3) != 3;
  if ((word & 0x7f) == 0x63 || (compressed && (word & 0xc003) == 0xc001)) return JUMP_IF; /* C.BEQZ, C.BNEZ */
  if ((word & 0x7f) == 0x6f || (compressed && (word & 0xe003) == 0xa001)) return JUMP_ALWAYS;
  unsigned target = compressed ? word >> 7 & 31 : word >> 15 & 31;
  bool calls = compressed ? word >> 12 & 1 : word >> 7 & 31;
  if ((word & 0x7f) != 0x67 && !(compressed && (word & 0xe07f) == 0x8002 && target)) return JUMP_NONE;
  return calls ? JUMP_CALL : target == RETURN_ADDRESS ? JUMP_BACK : JUMP_ANYWHERE;
}

const Isa isa_riscv64 = {NULL, UINT64_MAX, jump, vector_type};
