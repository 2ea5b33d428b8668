/* Encodings: Power ISA 3.1, appendix F "Opcode maps". */
#include <string.h>

#include "classify.h"

typedef enum { LOAD, STORE, OTHER } Access;

/* Primary opcode 31: by the extended opcode. */
static Access access_31(unsigned extended) {
  switch (extended) {
    case 7: case 12: case 13: case 20: case 21: case 23: case 39: case 45: case 52: case 53: case 55: case 71:
    case 76: case 77: case 84: case 87: case 103: case 109: case 116: case 119: case 268: case 269: case 276:
    case 279: case 300: case 301: case 311: case 332: case 333: case 341: case 343: case 359: case 364: case 373:
    case 375: case 524: case 532: case 534: case 535: case 567: case 588: case 599: case 631: case 780: case 781:
    case 790: case 812: case 813: case 844: case 855: case 876: case 887:
      return LOAD;
    case 135: case 140: case 141: case 149: case 150: case 151: case 167: case 173: case 181: case 183: case 199:
    case 205: case 214: case 215: case 231: case 237: case 247: case 396: case 397: case 407: case 429: case 439:
    case 461: case 487: case 652: case 660: case 662: case 663: case 694: case 695: case 716: case 726: case 727:
    case 759: case 908: case 909: case 918: case 940: case 941: case 972: case 983: case 1004:
      return STORE;
    default:
      return OTHER;
  }
}

static Access access_of(uint32_t word) {
  unsigned opcode = word >> 26;
  if (opcode == 31) return access_31(word >> 1 & 1023);
  if (opcode == 6) return word & 15 ? STORE : LOAD;                 /* lxvp, stxvp */
  if (opcode == 61) return (word & 7) == 1 ? LOAD : STORE;          /* lxv, stxv, stxsd, stxssp */
  if (opcode < 32 || opcode > 62 || opcode == 59 || opcode == 60) return OTHER;
  bool store = (opcode >= 36 && opcode <= 39) || opcode == 44 || opcode == 45 || opcode == 47 ||
               (opcode >= 52 && opcode <= 55) || opcode == 62;
  return store ? STORE : LOAD;
}

/* The second word of a prefixed load or store whose opcode means something else without the prefix. */
static Access access_prefixed(unsigned opcode) {
  switch (opcode) {
    case 41: case 42: case 43: case 50: case 51: case 56: case 57: case 58: return LOAD;
    case 46: case 47: case 54: case 55: case 60: case 61: case 62: return STORE;
    default: return OTHER;
  }
}

static bool divides(uint32_t word) {
  unsigned opcode = word >> 26, extended = word >> 1 & 1023;
  if (opcode == 31) { /* div*, mod* */
    unsigned low = extended & 511;
    return low == 457 || low == 459 || low == 489 || low == 491 || low == 265 || low == 267;
  }
  if (opcode == 59 || opcode == 63) return (extended & 31) == 18 || (extended & 31) == 22; /* fdiv, fsqrt */
  if (opcode != 60) return false;
  unsigned xx3 = word >> 3 & 255, xx2 = word >> 2 & 511;
  return xx3 == 24 || xx3 == 56 || xx3 == 88 || xx3 == 120 || xx2 == 11 || xx2 == 75 || xx2 == 139 || xx2 == 203;
}

/* xvf32gerpp and the like: opcode 59, not one of the scalar conversions that share it. */
static bool is_matrix(uint32_t word) {
  unsigned kind = word >> 3 & 7, extended = word >> 1 & 1023;
  return word >> 26 == 59 && (kind == 2 || kind == 3) && extended != 846 && extended != 974;
}

/* Moves between accumulators and vectors: 4 vectors go out in two turns, all else takes one. */
static uint32_t accumulator_moves(uint32_t word) {
  if (word >> 26 != 31 || (word >> 1 & 1023) != 177) return 0;
  return (word >> 16 & 31) == 0 ? 2 : 1; /* xxmfacc; xxmtacc, xxsetaccz */
}

static bool is_branch(uint32_t word) {
  unsigned opcode = word >> 26, extended = word >> 1 & 1023;
  return opcode == 16 || opcode == 18 || (opcode == 19 && (extended == 16 || extended == 528 || extended == 560));
}

/* Slots are instructions. */
void classify_ppc64(const uint8_t *code, size_t bytes, Usage *usage) {
  uint32_t word;
  memcpy(&word, code, sizeof word);
  Access access = access_of(word);
  if (word >> 26 == 1 && bytes >= 8) {
    unsigned kind = word >> 24 & 3; /* 0: has opcodes of its own */
    memcpy(&word, code + 4, sizeof word);
    access = kind == 0 ? access_prefixed(word >> 26) : access_of(word);
  }
  unsigned opcode = word >> 26;
  usage->loads += access == LOAD;
  usage->stores += access == STORE;
  if (access == LOAD) usage->slots[PIPE_LOAD]++;
  else if (access == STORE) usage->slots[PIPE_STORE]++;
  else if (is_matrix(word)) usage->slots[PIPE_MATRIX]++;
  else if (accumulator_moves(word)) usage->slots[PIPE_MATRIX] += accumulator_moves(word);
  else if (divides(word)) usage->slots[PIPE_DIVIDE]++;
  else if (opcode == 4 || opcode == 59 || opcode == 60 || opcode == 63) usage->slots[PIPE_VECTOR]++;
  else if (is_branch(word)) usage->slots[PIPE_BRANCH]++;
  else usage->slots[PIPE_INTEGER]++;
}

const Isa isa_ppc64 = {classify_ppc64, UINT64_MAX, NULL, NULL};
