/* Encodings: Arm Architecture Reference Manual for A-profile, F4.1 "A32 instruction set encoding". Pipes are
 * those of LLVM's model of the core; its model of it for A32 (ARMScheduleA57.td) charges vectors of 64 and
 * of 128 bits alike. What it says of loads and stores of several registers, one slot each, holds here too. */
#include <string.h>

#include "classify.h"

enum { LOAD_BYTES = 16, STORE_BYTES = 8 }; /* a slot's; of vectors it is 64 bits, as in Cortex-A57 and A72 */

static unsigned bits(uint32_t word, unsigned low, unsigned count) {
  return word >> low & ((1u << count) - 1);
}

/* One instruction that loads `bytes` side by side. */
static void add_load(Usage *usage, uint32_t bytes) {
  usage->loads++;
  usage->slots[PIPE_LOAD] += (bytes + LOAD_BYTES - 1) / LOAD_BYTES;
}

static void add_store(Usage *usage, uint32_t bytes) {
  usage->stores++;
  usage->slots[PIPE_STORE] += (bytes + STORE_BYTES - 1) / STORE_BYTES;
}

enum { ALWAYS = 15, PC = 15 }; /* the condition that marks the instructions without one; a register */

static void add_vectors(Usage *usage, bool wide) { usage->slots[PIPE_VECTOR] += wide ? 2 : 1; }

/* Load or store of `slots` registers. */
static void add_registers(Usage *usage, bool load, uint32_t slots) {
  if (load) usage->loads++;
  else usage->stores++;
  usage->slots[load ? PIPE_LOAD : PIPE_STORE] += slots;
}

/* VLD1 to VLD4 and VST1 to VST4. */
static void classify_structures(uint32_t word, Usage *usage) {
  static const uint8_t registers[16] = {4, 4, 4, 4, 3, 3, 3, 1, 2, 2, 2};
  bool load = bits(word, 21, 1), lane = bits(word, 23, 1); /* one lane, or one element to all lanes */
  uint32_t bytes = lane ? 8u : 8u * registers[bits(word, 8, 4)];
  if (!load) add_store(usage, bytes);
  else add_load(usage, bytes);
  if (load && lane) add_vectors(usage, false);
}

static void classify_two_registers(uint32_t word, Usage *usage) {
  bool quad = bits(word, 6, 1), moves = bits(word, 16, 2) == 2;
  unsigned kind = bits(word, 7, 4);
  bool both = moves && kind < 4;                /* VSWP, VTRN, VUZP, VZIP write both registers */
  bool half = moves && kind >= 4 && kind < 7;   /* VMOVN, VQMOVN, VQMOVUN, VSHLL */
  add_vectors(usage, quad && !half);
  if (both) add_vectors(usage, quad);
}

/* Vectors: what reads or writes half as many bits as the other side (VMULL, VADDW, VMOVN) takes one slot. */
static void classify_vectors(uint32_t word, Usage *usage) {
  bool quad = bits(word, 6, 1);
  unsigned kind = bits(word, 8, 4);
  if (!bits(word, 23, 1)) { /* three registers */
    add_vectors(usage, quad);
  } else if (bits(word, 4, 1)) { /* an immediate, or a shift by one; with bit 7 by 64-bit elements */
    bool shift = bits(word, 19, 3) || bits(word, 7, 1);
    bool half = shift && (kind == 8 || kind == 9 || kind == 10); /* VSHRN.., VQSHRN.., VSHLL, VMOVL */
    add_vectors(usage, quad && !half);
  } else if (bits(word, 20, 2) != 3) { /* three registers of different widths; with bit 6 by a lane */
    bool half = !quad || (kind < 12 && bits(kind, 1, 1)); /* VMULL, VMLAL and the like */
    add_vectors(usage, bits(word, 24, 1) && !half);
  } else if (!bits(word, 24, 1)) { /* VEXT */
    add_vectors(usage, quad);
  } else if (!bits(word, 11, 1)) {
    classify_two_registers(word, usage);
  } else { /* VTBL, VTBX, and VDUP of a lane */
    add_vectors(usage, quad && kind >= 12);
  }
}

/* Scalar floats, and moves between them and the integer registers. */
static void classify_floats(uint32_t word, Usage *usage) {
  bool divides = (word & 0x0fb00c50) == 0x0e800800 || (word & 0x0fbf0cd0) == 0x0eb108c0; /* VDIV, VSQRT */
  bool duplicates = (word & 0x0f900f50) == 0x0e800b10;                                   /* VDUP of an integer */
  bool conditional = bits(word, 28, 4) != ALWAYS;                                        /* VMAXNM is not */
  if (divides && conditional) usage->slots[PIPE_DIVIDE]++;
  else add_vectors(usage, duplicates && bits(word, 21, 1));
}

static void classify_coprocessor(uint32_t word, Usage *usage) {
  if (bits(word, 24, 2) == 3) { /* SVC */
    usage->slots[PIPE_BRANCH]++;
  } else if (bits(word, 10, 2) != 2) { /* neither floats nor vectors */
    if (bits(word, 28, 4) == ALWAYS) add_vectors(usage, bits(word, 6, 1)); /* VSDOT, VCMLA and the like */
    else usage->slots[PIPE_INTEGER]++;
  } else if (bits(word, 25, 1) || bits(word, 21, 4) == 2) { /* the latter moves two integer registers */
    classify_floats(word, usage);
  } else {
    bool one = bits(word, 24, 1) && !bits(word, 21, 1); /* VLDR, VSTR; the others VLDM, VSTM, VPUSH */
    add_registers(usage, bits(word, 20, 1), one ? 1 : (bits(word, 0, 8) + 1) / 2); /* halves of doubles */
  }
}

static void classify_unconditional(uint32_t word, Usage *usage) {
  if (bits(word, 25, 3) == 1) classify_vectors(word, usage);
  else if (bits(word, 24, 4) == 4 && !bits(word, 20, 1)) classify_structures(word, usage);
  else if (bits(word, 26, 2) == 3) classify_coprocessor(word, usage);
  else if (bits(word, 26, 2) == 1 && bits(word, 20, 3) % 4 == 1) add_load(usage, 1); /* PLD, PLI */
  else if (bits(word, 25, 3) == 5) usage->slots[PIPE_BRANCH]++;                      /* BLX */
  else usage->slots[PIPE_INTEGER]++;
}

/* Halves, signed bytes, pairs, and exclusive accesses. A pair is as wide as a slot of the store pipe. */
static void classify_small_memory(uint32_t word, Usage *usage) {
  bool load = bits(word, 20, 1), pair = !load && bits(word, 5, 2) == 2; /* LDRD */
  add_registers(usage, load || pair, pair ? 2 : 1);
}

/* Arithmetic, whose result may be the place to go on. */
static void classify_arithmetic(uint32_t word, Usage *usage) {
  bool compares = bits(word, 23, 2) == 2, jumps = (word & 0x0fffffd0) == 0x012fff10; /* BX, BLX */
  usage->slots[jumps || (!compares && bits(word, 12, 4) == PC) ? PIPE_BRANCH : PIPE_INTEGER]++;
}

/* Knows A32, not T32. */
void classify_arm(const uint8_t *code, size_t bytes, Usage *usage) {
  uint32_t word;
  if (bytes != sizeof word) { /* T32, which neither agents nor candidates are built for */
    usage->slots[PIPE_INTEGER]++;
    return;
  }
  memcpy(&word, code, sizeof word);
  if (bits(word, 28, 4) == ALWAYS) {
    classify_unconditional(word, usage);
    return;
  }
  bool multiplies = bits(word, 24, 4) == 0 && bits(word, 4, 4) == 9;
  switch (bits(word, 25, 3)) {
    case 0:
      if (multiplies) usage->slots[PIPE_INTEGER]++;
      else if (bits(word, 7, 1) && bits(word, 4, 1)) classify_small_memory(word, usage);
      else classify_arithmetic(word, usage);
      break;
    case 1:
      classify_arithmetic(word, usage);
      break;
    case 2:
      add_registers(usage, bits(word, 20, 1), 1);
      break;
    case 3:
      if (!bits(word, 4, 1)) add_registers(usage, bits(word, 20, 1), 1);
      else if ((word & 0x0fd0f0f0) == 0x0710f010) usage->slots[PIPE_DIVIDE]++; /* SDIV, UDIV */
      else usage->slots[PIPE_INTEGER]++;
      break;
    case 4:
      add_registers(usage, bits(word, 20, 1), (uint32_t)__builtin_popcount(word & 0xffff));
      break;
    case 5:
      usage->slots[PIPE_BRANCH]++;
      break;
    default:
      classify_coprocessor(word, usage);
      break;
  }
}

const Isa isa_arm = {classify_arm, UINT32_MAX, NULL, NULL};
