/* Encodings: Qualcomm Hexagon V67 Programmer's Reference Manual, chapter 10 "Instruction encoding", and
 * Hexagon V66 HVX Programmer's Reference Manual. QEMU translates a packet as one instruction. */
#include <string.h>

#include "classify.h"

/* Two instructions in one word: how many of them load and store, by the duplex class. */
static void classify_duplex(uint32_t word, Usage *usage) {
  static const uint8_t loads[16] = {2, 2, 2, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0};
  static const uint8_t stores[16] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 1, 1, 2, 0};
  unsigned kind = (word >> 29) << 1 | (word >> 13 & 1);
  usage->loads += loads[kind];
  usage->stores += stores[kind];
}

static void classify_word(uint32_t word, Usage *usage) {
  bool load = false, store = false;
  switch (word >> 28) {
    case 1:
      if (word >> 27 & 1) usage->slots[PIPE_VECTOR]++; /* HVX arithmetic */
      return;
    case 2: /* HVX loads and stores; they do not use the L1 cache */
      if (!(word >> 27 & 1)) return;
      usage->beyond_l1 = true;
      store = word >> 21 & 1;
      load = !store;
      break;
    case 3: /* register offsets, predicated forms, and operations on memory */
      if ((word >> 25 & 7) == 7) load = store = true;
      else store = (word >> 24 & 15) == 4 || (word >> 24 & 15) == 5 || (word >> 24 & 15) == 11 ||
                   (word >> 25 & 7) == 6;
      load = load || !store;
      break;
    case 4: /* predicated, and relative to the global pointer */
      load = word >> 24 & 1;
      store = !load;
      break;
    case 9: load = true; break;
    case 10: store = true; break;
    default: return;
  }
  usage->loads += load;
  usage->stores += store;
}

/* Slots are words of the packet. */
void classify_hexagon(const uint8_t *code, size_t bytes, Usage *usage) {
  for (size_t at = 0; at + 4 <= bytes; at += 4) {
    uint32_t word;
    memcpy(&word, code + at, sizeof word);
    if ((word >> 14 & 3) == 0) classify_duplex(word, usage);
    else classify_word(word, usage);
  }
}

const Isa isa_hexagon = {classify_hexagon, UINT32_MAX, NULL, NULL};
