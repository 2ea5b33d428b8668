#include "fast_memory.h"

enum { VECTOR = 128 }; /* bytes */

static uint64_t begin, size, scalar_ticks;

void fast_memory_configure(uint64_t ticks) { scalar_ticks = ticks; }

void fast_memory_place(uint64_t address, uint64_t bytes) {
  begin = address;
  size = bytes;
}

/* QEMU tells of a vector's access piece by piece. In a packet with a vector and a scalar access both are said to be
 * a vector's; but one that is not VECTOR bytes on end is the scalar one, as becomes clear when the next begins. */
static void in_vector_packet(uint64_t address, unsigned bytes, MemoryCost *cost) {
  static uint64_t next, length;
  if (address != next || length == VECTOR) {
    if (length && length < VECTOR) cost->ticks += scalar_ticks;
    length = 0;
  }
  length += bytes;
  next = address + bytes;
}

bool fast_memory_access(uint64_t address, unsigned bytes, bool is_vector, MemoryCost *cost) {
  if (address - begin >= size) return false;
  if (is_vector) in_vector_packet(address, bytes, cost);
  else cost->ticks += scalar_ticks;
  return true;
}
