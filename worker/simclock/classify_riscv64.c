/* Encodings: RISC-V Unprivileged ISA, "RV32/64G Instruction Set Listings" and the chapters on "C" and "V".
 *
 * Slots of the load pipe are half vectors, for loads and stores, which share it; all others are instructions.
 * A vector instruction counts as one of one register: its group's length is in a register that is not seen. */
#include <string.h>

#include "classify.h"

enum { VECTOR_SLOTS = 2 };

static unsigned bits(uint32_t word, unsigned low, unsigned count) { return word >> low & ((1u << count) - 1); }

static void add_load(Usage *usage, uint32_t slots) {
  usage->loads++;
  usage->slots[PIPE_LOAD] += slots;
}

static void add_store(Usage *usage, uint32_t slots) {
  usage->stores++;
  usage->slots[PIPE_LOAD] += slots;
}

static void classify_compressed(uint32_t word, Usage *usage) {
  unsigned quadrant = bits(word, 0, 2), kind = bits(word, 13, 3);
  bool jumps = quadrant == 1 ? kind >= 5 : quadrant == 2 && kind == 4 && !bits(word, 2, 5) && bits(word, 7, 5);
  if (jumps) usage->slots[PIPE_BRANCH]++;
  else if (quadrant == 1 || kind == 0 || kind == 4) usage->slots[PIPE_INTEGER]++;
  else if (kind < 4) add_load(usage, 1);
  else add_store(usage, 1);
}

/* LOAD-FP and STORE-FP: scalars by their size, else as many vectors as the instruction has fields. */
static uint32_t float_slots(uint32_t word) {
  unsigned width = bits(word, 12, 3);
  return width >= 1 && width <= 4 ? 1 : VECTOR_SLOTS * (bits(word, 29, 3) + 1);
}

static void classify_atomic(uint32_t word, Usage *usage) {
  enum { LOAD_RESERVED = 2, STORE_CONDITIONAL = 3 };
  if (bits(word, 27, 5) != STORE_CONDITIONAL) add_load(usage, 1);
  if (bits(word, 27, 5) != LOAD_RESERVED) add_store(usage, 1);
}

static void classify_float(uint32_t word, Usage *usage) {
  unsigned operation = bits(word, 27, 5);
  if (operation == 3 || operation == 11) usage->slots[PIPE_DIVIDE]++; /* fdiv, fsqrt */
  else if (operation >= 24) usage->slots[PIPE_INTEGER]++;             /* from and to integers */
  else usage->slots[PIPE_VECTOR]++;
}

static void classify_vector(uint32_t word, Usage *usage) {
  enum { FLOATS = 1, INTEGERS = 2, IMMEDIATE = 3, CONFIGURE = 7, BY_SCALAR = 4 };
  unsigned category = bits(word, 12, 3), operation = bits(word, 26, 6), operands = category & ~BY_SCALAR;
  bool divides = operation >= 32 && operation < 34 && operands == FLOATS;
  divides |= operation >= 32 && operation < 36 && operands == INTEGERS;
  divides |= operation == 19 && category == FLOATS && !bits(word, 15, 5); /* vfsqrt */
  if (category == CONFIGURE) usage->slots[PIPE_INTEGER]++;
  else if (divides) usage->slots[PIPE_DIVIDE]++;
  else if (operation == 39 && category == IMMEDIATE) usage->slots[PIPE_VECTOR] += bits(word, 15, 3) + 1; /* vmv2r */
  else usage->slots[PIPE_VECTOR]++;
}

static void classify(const uint8_t *code, size_t bytes, Usage *usage) {
  uint32_t word = 0;
  memcpy(&word, code, bytes < sizeof word ? bytes : sizeof word);
  if (bits(word, 0, 2) != 3) {
    classify_compressed(word, usage);
    return;
  }
  switch (bits(word, 0, 7)) {
    case 0x03: add_load(usage, 1); break;
    case 0x07: add_load(usage, float_slots(word)); break;
    case 0x23: add_store(usage, 1); break;
    case 0x27: add_store(usage, float_slots(word)); break;
    case 0x2f: classify_atomic(word, usage); break;
    case 0x63: case 0x67: case 0x6f: usage->slots[PIPE_BRANCH]++; break;
    case 0x43: case 0x47: case 0x4b: case 0x4f: usage->slots[PIPE_VECTOR]++; break; /* fmadd and the like */
    case 0x53: classify_float(word, usage); break;
    case 0x57: classify_vector(word, usage); break;
    case 0x33: case 0x3b: /* div, rem */
      usage->slots[bits(word, 25, 7) == 1 && bits(word, 12, 3) >= 4 ? PIPE_DIVIDE : PIPE_INTEGER]++;
      break;
    default: usage->slots[PIPE_INTEGER]++;
  }
}

const Isa isa_riscv64 = {classify, UINT64_MAX};
