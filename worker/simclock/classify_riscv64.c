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

const Isa isa_riscv64 = {NULL, UINT64_MAX, vector_type};
