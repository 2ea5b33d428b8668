/* The data caches of a simulated board: two levels or three, least recently used, and a prefetcher of streams.
 *
 * Addresses are first renamed: the page touched first since the last reset becomes frame 0, the next one
 * frame 1. So times depend on the order in which a candidate touches pages, never on where the emulator or
 * the allocator happened to put them. */
#ifndef TILEFLEET_CACHES_H
#define TILEFLEET_CACHES_H

#include <stdbool.h>
#include <stdint.h>

#include "bus.h"

typedef struct {
  uint64_t bytes, ways;
} CacheShape;

typedef struct {
  CacheShape l1, l2, l3; /* l3.bytes is 0 where there is none */
  bool l2_shared; /* by all cores, as the last cache always is */
  uint64_t line_bytes;
  /* What a line costs, in ticks, beyond the issue of its load: out of order, and as part of a stream. */
  uint64_t l2_ticks, l3_ticks, memory_ticks, l2_stream_ticks, l3_stream_ticks, memory_stream_ticks;
  /* Of a core that goes on after a miss: for how many instructions, and with how many misses at once; 0 where
   * the core waits. */
  uint64_t window, in_flight;
  /* ahead { */
  uint64_t lines_ahead; /* of a stream, while the core computes; 0 where it waits for each */
  /* } ahead */
  /* exclusive { */
  bool l3_exclusive; /* while one core alone runs, L3 has what its L2 pushed out, and gives it back without keeping it */
  /* } exclusive */
  BusModel bus, l2_bus; /* of the memory, and of an L2 that all cores share */
} MemoryModel;

typedef struct {
  uint64_t ticks, l1_misses, l2_misses;
} MemoryCost;

/* Who accesses memory, and when. */
typedef struct {
  bool beyond_l1; /* goes to L2 at once */
  bool chained;   /* the address waits for the last value that was loaded here */
  bool stores;
  uint64_t ticks, instructions; /* so far, without the ticks that memory costs */
} Access;

/* Take the model's shape; false when it is not possible (sizes that are no power of two, no memory). */
bool caches_configure(const MemoryModel *model);

/* The caches, streams and misses under way of one core. */
typedef struct CoreCaches CoreCaches;

/* Those of one more core; NULL without memory. */
CoreCaches *caches_of_core(void);

/* Access [address, address + bytes), all in one or two lines. Adds to `cost`. */
void caches_access(CoreCaches *mine, uint64_t address, unsigned bytes, const Access *access, MemoryCost *cost);

/* Wait for what is under way; adds to `cost`. */
void caches_settle(CoreCaches *mine, const Access *access, MemoryCost *cost);

/* Empty everything at `now`, and start the renaming again. */
void caches_reset(uint64_t now);

/* Take the lines of [address, address + bytes) out of all caches. */
void caches_evict(uint64_t address, uint64_t bytes);

#endif
