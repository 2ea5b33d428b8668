/* Encodings: Arm Architecture Reference Manual for A-profile, C4.1 "A64 instruction set encoding". */
#include <string.h>

#include "arm_pipes.h"

/* LD1 to LD4 and ST1 to ST4: the bytes moved. */
static uint32_t structure_bytes(uint32_t word) {
  static const uint8_t registers[16] = {[0] = 4, [2] = 4, [4] = 3, [6] = 3, [7] = 1, [8] = 2, [10] = 2};
  if (bits(word, 24, 1)) return 8; /* one lane, or one element to all lanes */
  return registers[bits(word, 12, 4)] * (bits(word, 30, 1) ? 16u : 8u);
}

static void classify_memory(uint32_t word, Usage *usage) {
  bool vector = bits(word, 26, 1), load = bits(word, 22, 1);
  uint32_t size = 1u << bits(word, 30, 2), moved = size;
  switch (bits(word, 27, 3)) {
    case 1: /* SIMD structures, exclusives */
      if (vector) moved = structure_bytes(word);
      if (vector && load && bits(word, 24, 1)) usage->slots[PIPE_VECTOR]++; /* into a lane or to all lanes */
      break;
    case 3: /* literal */
      load = true;
      moved = vector ? 4u << bits(word, 30, 2) : 8;
      break;
    case 5: /* pair */
      moved = 2 * (vector ? 4u << bits(word, 30, 2) : bits(word, 31, 1) ? 8u : 4u);
      break;
    case 7: /* one register; for vectors bit 23 is the size's high bit, for integers a sign-extending load */
      if (vector && bits(word, 23, 1)) moved = 16;
      if (!vector && bits(word, 23, 1)) load = true;
      break;
    default:
      break;
  }
  if (load) add_load(usage, moved);
  else add_store(usage, moved);
}

static bool divides(uint32_t word) {
  return (word & 0xbfa0fc00) == 0x2e20fc00 ||                                         /* FDIV, vector */
         (word & 0xbfbffc00) == 0x2ea1f800 ||                                         /* FSQRT, vector */
         (word & 0xff20fc00) == 0x1e201800 || (word & 0xff3ffc00) == 0x1e21c000 ||    /* scalar */
         (word & 0x7fe0f800) == 0x1ac00800;                                           /* UDIV, SDIV */
}

/* Slots of a vector and a store pipe are 64 bits wide, of a load pipe 128, as in Cortex-A57 and A72. */
void classify_aarch64(const uint8_t *code, size_t bytes, Usage *usage) {
  (void)bytes;
  uint32_t word;
  memcpy(&word, code, sizeof word);
  unsigned group = bits(word, 25, 4);
  if (divides(word)) usage->slots[PIPE_DIVIDE]++;
  else if ((group & 5) == 4) classify_memory(word, usage);
  else if ((group & 7) == 7) /* scalar forms and 64-bit vectors take one slot, 128-bit vectors two */
    usage->slots[PIPE_VECTOR] += bits(word, 28, 1) || !bits(word, 30, 1) ? 1 : 2;
  else if ((group & 14) == 10) usage->slots[PIPE_BRANCH]++;
  else usage->slots[PIPE_INTEGER]++;
}

const Isa isa_aarch64 = {classify_aarch64, UINT64_MAX};
