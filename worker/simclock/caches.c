#include "caches.h"

#include <stdlib.h>
#include <string.h>
/* ahead { */
#include "ahead.h"
/* } ahead */

enum { PAGE_BITS = 12, TRANSLATIONS = 1024, STREAMS = 8, FIRST_PAGES = 1 << 12 };
static const uint64_t NOTHING = UINT64_MAX;
/* ahead { */
/* The bytes that a core stores in order until it no longer reads lines before it stores to them, and until they go to
 * memory as they come. */
enum { WHOLE_BYTES = 4 << 10, TO_MEMORY_BYTES = 1 << 20 };
/* } ahead */

/* Lines by set, the most recently used first: each twice its number, plus one where it was written. */
typedef struct {
  uint64_t *lines;
  uint64_t sets, ways;
} Cache;

typedef struct {
  uint64_t page, frame; /* page is NOTHING where the entry is empty */
} Renaming;

/* Where lines come from. */
typedef struct {
  uint64_t ticks, stream_ticks;
} Level;

/* Misses that are under way together: when the first one began and ends. */
typedef struct {
  uint64_t instruction, ticks, until, misses;
} Flight;

struct CoreCaches {
  Cache l1, l2; /* l2 may be that of all cores */
  Flight flight;
  uint64_t next_of_stream[STREAMS]; /* the line that would continue each stream */
  unsigned oldest_stream;
  /* ahead { */
  Ahead *ahead;            /* NULL where the core waits for each line */
  uint64_t since[STREAMS]; /* when each stream began */
  /* } ahead */
  /* exclusive { */
  bool ran; /* since the last reset */
  /* } exclusive */
  CoreCaches *next;
};

static MemoryModel model;
static Level from_l2, from_l3, from_memory;
static unsigned line_bits;
static Cache shared_l2, l3;
static Bus *memory, *l2_bus;
static CoreCaches *all;
/* exclusive { */
static unsigned cores_that_ran;
/* } exclusive */
static Renaming *renamings;                /* a hash table, open addressing */
static uint64_t num_slots, num_renamings;  /* a power of two; at most half of the slots are used */
static Renaming recent[TRANSLATIONS];      /* in front of the table, by the page's low bits */

static bool is_power_of_two(uint64_t value) { return value && !(value & (value - 1)); }

static void cache_clear(Cache *cache) {
  if (cache->lines) memset(cache->lines, 0xff, cache->sets * cache->ways * sizeof *cache->lines);
}

static bool cache_configure(Cache *cache, CacheShape shape) {
  if (!shape.ways || shape.bytes % (shape.ways * model.line_bytes)) return false;
  *cache = (Cache){.sets = shape.bytes / shape.ways / model.line_bytes, .ways = shape.ways};
  cache->lines = malloc(cache->sets * cache->ways * sizeof *cache->lines);
  cache_clear(cache);
  return is_power_of_two(cache->sets) && cache->lines;
}

static void core_clear(CoreCaches *core) {
  cache_clear(&core->l1);
  cache_clear(&core->l2);
  memset(core->next_of_stream, 0xff, sizeof core->next_of_stream);
  core->oldest_stream = 0;
  core->flight.misses = 0;
  /* exclusive { */
  core->ran = false;
  /* } exclusive */
  /* ahead { */
  if (core->ahead) *core->ahead = (Ahead){0};
  /* } ahead */
}

CoreCaches *caches_of_core(void) {
  CoreCaches *core = calloc(1, sizeof *core);
  if (!core || !cache_configure(&core->l1, model.l1)) return NULL;
  core->l2 = shared_l2;
  if (!model.l2_shared && !cache_configure(&core->l2, model.l2)) return NULL;
  /* ahead { */
  if (model.lines_ahead && !(core->ahead = calloc(1, sizeof *core->ahead))) return NULL;
  /* } ahead */
  memset(core->next_of_stream, 0xff, sizeof core->next_of_stream);
  core->next = all;
  return all = core;
}

bool caches_configure(const MemoryModel *wanted) {
  model = *wanted;
  if (!is_power_of_two(model.line_bytes) || model.line_bytes > 1 << PAGE_BITS) return false;
  from_l2 = (Level){model.l2_ticks, model.l2_stream_ticks};
  from_l3 = (Level){model.l3_ticks, model.l3_stream_ticks};
  from_memory = (Level){model.memory_ticks, model.memory_stream_ticks};
  /* ahead { */
  ahead_configure(model.lines_ahead);
  /* } ahead */
  memory = bus_make(&model.bus);
  l2_bus = bus_make(&model.l2_bus);
  line_bits = (unsigned)__builtin_ctzll(model.line_bytes);
  num_slots = FIRST_PAGES * 2;
  renamings = malloc(num_slots * sizeof *renamings);
  Cache l1;
  if (!memory || !l2_bus || !renamings || !cache_configure(&l1, model.l1) || !cache_configure(&shared_l2, model.l2)) return false;
  free(l1.lines);
  if (model.l3.bytes && !cache_configure(&l3, model.l3)) return false;
  caches_reset(0);
  return true;
}

void caches_reset(uint64_t now) {
  bus_reset(memory, now);
  bus_reset(l2_bus, now);
  for (CoreCaches *core = all; core; core = core->next) core_clear(core);
  cache_clear(&l3);
  /* exclusive { */
  cores_that_ran = 0;
  /* } exclusive */
  memset(renamings, 0xff, num_slots * sizeof *renamings);
  memset(recent, 0xff, sizeof recent);
  num_renamings = 0;
}

/* The slot that holds `page`, or the free one where it belongs. */
static Renaming *slot_of(uint64_t page) {
  uint64_t at = (page * 0x9e3779b97f4a7c15u) >> 32;
  while (renamings[at & (num_slots - 1)].page != page && renamings[at & (num_slots - 1)].page != NOTHING) at++;
  return renamings + (at & (num_slots - 1));
}

static void grow(void) {
  Renaming *old = renamings;
  uint64_t old_slots = num_slots;
  num_slots *= 2;
  renamings = malloc(num_slots * sizeof *renamings);
  if (!renamings) abort();
  memset(renamings, 0xff, num_slots * sizeof *renamings);
  for (uint64_t i = 0; i < old_slots; i++)
    if (old[i].page != NOTHING) *slot_of(old[i].page) = old[i];
  free(old);
}

static uint64_t frame_of(uint64_t page) {
  Renaming *last = recent + page % TRANSLATIONS;
  if (last->page == page) return last->frame;
  Renaming *slot = slot_of(page);
  if (slot->page == NOTHING) {
    if (num_renamings * 2 >= num_slots) {
      grow();
      slot = slot_of(page);
    }
    *slot = (Renaming){page, num_renamings++};
  }
  *last = *slot;
  return slot->frame;
}

static uint64_t line_in(uint64_t frame, uint64_t address) {
  return (frame << (PAGE_BITS - line_bits)) | (address & ((1 << PAGE_BITS) - 1)) >> line_bits;
}

/* Use a line: whether it was there, and now it is. Where not, `*left` is the written line that it pushes out, or
 * NOTHING. */
static bool cache_use(Cache *cache, uint64_t line, bool written, uint64_t *left) {
  uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways, way = 0;
  while (way < cache->ways - 1 && set[way] >> 1 != line) way++;
  uint64_t last = set[way];
  bool hit = last >> 1 == line;
  if (!hit) *left = last != NOTHING && (last & 1) ? last >> 1 : NOTHING;
  if (way) memmove(set + 1, set, way * sizeof *set);
  set[0] = line << 1 | written | (hit & last);
  return hit;
}

/* Write a line that is there; false where it is not. */
static bool cache_write(Cache *cache, uint64_t line) {
  uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways;
  for (uint64_t way = 0; way < cache->ways; way++)
    if (set[way] >> 1 == line) {
      set[way] |= 1;
      return true;
    }
  return false;
}

/* exclusive { */
/* A line as the cache has it, or NOTHING. */
static uint64_t cache_has(const Cache *cache, uint64_t line) {
  const uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways;
  for (uint64_t way = 0; way < cache->ways; way++)
    if (set[way] >> 1 == line) return set[way];
  return NOTHING;
}

/* What a line pushes out that comes now, or NOTHING. */
static uint64_t cache_pushes_out(const Cache *cache, uint64_t line) {
  const uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways;
  return cache_has(cache, line) == NOTHING ? set[cache->ways - 1] : NOTHING;
}

/* } exclusive */
static void cache_drop(Cache *cache, uint64_t line) {
  uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways;
  for (uint64_t way = 0; way < cache->ways; way++)
    if (set[way] >> 1 == line) {
      memmove(set + way, set + way + 1, (cache->ways - 1 - way) * sizeof *set);
      set[cache->ways - 1] = NOTHING;
    }
}

/* Whether the line continues a stream of missed lines; one that does not begins a new stream. */
static bool is_streamed(CoreCaches *mine, uint64_t line) {
  for (int i = 0; i < STREAMS; i++)
    if (mine->next_of_stream[i] == line) {
      mine->next_of_stream[i] = line + 1;
      return true;
    }
  mine->next_of_stream[mine->oldest_stream] = line + 1;
  mine->oldest_stream = (mine->oldest_stream + 1) % STREAMS;
  return false;
}

/* ahead { */
/* The stream that a line continues, or the one that is forgotten for it. */
static unsigned stream_of(const CoreCaches *mine, uint64_t line) {
  unsigned i = 0;
  while (i < STREAMS && mine->next_of_stream[i] != line) i++;
  return i < STREAMS ? i : mine->oldest_stream;
}

/* What a core waits for a line of a stream, or for one that it stores to. */
static uint64_t wait_ahead(const CoreCaches *mine, const Level *level, uint64_t since, bool stores, uint64_t now) {
  if (stores) return ahead_store(mine->ahead, level->stream_ticks, now);
  if (level == &from_l2) return from_l2.stream_ticks;
  return from_l2.stream_ticks + ahead_load(mine->ahead, level->stream_ticks, since, now + from_l2.stream_ticks);
}

/* } ahead */
/* Wait for the misses in flight: until the first one is there, unless the window was full before. */
void caches_settle(CoreCaches *mine, const Access *access, MemoryCost *cost) {
  Flight *flight = &mine->flight;
  uint64_t now = access->ticks + cost->ticks, passed = access->instructions - flight->instruction;
  if (!flight->misses) return;
  uint64_t at = passed > model.window ? flight->ticks + (now - flight->ticks) * model.window / passed : now;
  if (flight->until > at) cost->ticks += flight->until - at;
  flight->misses = 0;
}

/* A line that the core needs. It goes on for a window of instructions, with some misses in flight at once. */
static void fetch(CoreCaches *mine, Level *level, const Access *access, MemoryCost *cost) {
  Flight *flight = &mine->flight;
  bool joins = flight->misses && flight->misses < model.in_flight && !access->chained &&
               access->instructions - flight->instruction < model.window;
  if (!joins) caches_settle(mine, access, cost);
  uint64_t now = access->ticks + cost->ticks;
  if (joins) {
    uint64_t transferred = flight->ticks + ++flight->misses * level->stream_ticks;
    if (transferred > flight->until) flight->until = transferred;
  } else if (access->chained || !model.window) {
    cost->ticks += level->ticks;
  } else {
    *flight = (Flight){access->instructions, now, now + level->ticks, 1};
  }
}

/* Others lose their copies of a line that is written. */
static void take_from_others(CoreCaches *mine, uint64_t line) {
  for (CoreCaches *core = all; core; core = core->next) {
    if (core == mine) continue;
    cache_drop(&core->l1, line);
    if (!model.l2_shared) cache_drop(&core->l2, line);
  }
}

static uint64_t row_of(uint64_t line) { return line >> (PAGE_BITS - line_bits); }

/* A written line leaves a cache for the next one that has it, or for memory, which nobody waits for. */
static void write_back(const CoreCaches *mine, Cache *const *next, uint64_t line, uint64_t now) {
  if (line == NOTHING) return;
  for (; *next; next++)
    if (cache_write(*next, line)) return;
  /* ahead { */
  if (mine->ahead) {
    bool in_order = mine->ahead->run >= TO_MEMORY_BYTES >> line_bits;
    ahead_write(mine->ahead, now + bus_move(memory, in_order ? NULL : mine, row_of(line), true, now));
    return;
  }
  /* } ahead */
  bus_move(memory, mine, row_of(line), true, now);
}

/* exclusive { */
static bool l3_is_exclusive(CoreCaches *mine) {
  if (!mine->ran) cores_that_ran++;
  mine->ran = true;
  return model.l3_exclusive && cores_that_ran == 1;
}

/* L3 takes a line as an L2 had it, and pushes out another one. */
static void l3_take(const CoreCaches *mine, uint64_t entry, uint64_t now) {
  uint64_t left;
  if (entry == NOTHING || cache_use(&l3, entry >> 1, entry & 1, &left)) return;
  write_back(mine, (Cache *const[]){NULL}, left, now);
}

/* Whether L3 has a line, which goes to L2. */
static bool l3_gives(CoreCaches *mine, uint64_t line) {
  uint64_t entry = cache_has(&l3, line);
  if (entry == NOTHING) return false;
  cache_drop(&l3, line);
  if (entry & 1) cache_write(&mine->l2, line);
  return true;
}

/* } exclusive */
/* A line goes from an L2 that several cores use to one of them, and the one that it pushes out goes back. */
static uint64_t share_l2(const CoreCaches *mine, bool pushes_out, uint64_t now) {
  if (!all->next) return 0;
  if (pushes_out) bus_move(l2_bus, mine, 0, true, now);
  return bus_move(l2_bus, mine, 0, false, now);
}

static void access_line(CoreCaches *mine, uint64_t address, const Access *access, MemoryCost *cost) {
  uint64_t line = line_in(frame_of(address >> PAGE_BITS), address), left;
  /* exclusive { */
  bool exclusive = l3_is_exclusive(mine);
  /* } exclusive */
  if (access->stores && all->next) take_from_others(mine, line);
  /* ahead { */
  bool whole = mine->ahead && access->stores && ahead_run(mine->ahead, address >> line_bits) >= WHOLE_BYTES >> line_bits;
  /* } ahead */
  if (!access->beyond_l1 && cache_use(&mine->l1, line, access->stores, &left)) return;
  uint64_t now = access->ticks + cost->ticks;
  Cache *const beyond[] = {&mine->l2, l3.lines ? &l3 : NULL, NULL};
  if (!access->beyond_l1) {
    write_back(mine, beyond, left, now);
    cost->ticks += share_l2(mine, left != NOTHING, now);
    cost->l1_misses++;
  }
  /* exclusive { */
  uint64_t moves = exclusive ? cache_pushes_out(&mine->l2, line) : NOTHING;
  /* } exclusive */
  bool hit = cache_use(&mine->l2, line, access->beyond_l1 && access->stores, &left);
  /* exclusive { */
  if (exclusive) l3_take(mine, moves, now);
  else
  /* } exclusive */
  if (!hit) write_back(mine, beyond + 1, left, now);
  if (hit && access->beyond_l1) return;
  /* ahead { */
  unsigned stream = stream_of(mine, line);
  /* } ahead */
  bool streamed = is_streamed(mine, line);
  Level *level = &from_l2;
  if (!hit) {
    cost->l2_misses++;
    level = &from_memory;
    /* exclusive { */
    if (exclusive) level = l3_gives(mine, line) ? &from_l3 : &from_memory;
    else
    /* } exclusive */
    if (l3.lines && cache_use(&l3, line, false, &left)) level = &from_l3;
    else if (l3.lines) write_back(mine, beyond + 2, left, now);
    /* A stream of stores writes whole lines, which nobody reads first. */
    if (level == &from_memory && !(streamed && access->stores))
      cost->ticks += bus_move(memory, mine, row_of(line), false, now);
  }
  /* ahead { */
  if (!streamed) mine->since[stream] = now;
  if (mine->ahead && level == &from_memory && streamed && access->stores && !whole)
    cost->ticks += bus_move(memory, mine, row_of(line), false, now);
  if (mine->ahead) cost->ticks += ahead_written(mine->ahead, access->ticks + cost->ticks);
  if (mine->ahead && (streamed || access->stores)) {
    cost->ticks += wait_ahead(mine, level, mine->since[stream], access->stores, access->ticks + cost->ticks);
    return;
  }
  /* } ahead */
  if (streamed || (access->stores && model.window)) cost->ticks += level->stream_ticks;
  else fetch(mine, level, access, cost);
}

void caches_access(CoreCaches *mine, uint64_t address, unsigned bytes, const Access *access, MemoryCost *cost) {
  uint64_t last = address + bytes - 1;
  access_line(mine, address, access, cost);
  if (last >> line_bits != address >> line_bits) access_line(mine, last, access, cost);
}

void caches_evict(uint64_t address, uint64_t bytes) {
  if (!bytes) return;
  uint64_t first = address >> line_bits, last = (address + bytes - 1) >> line_bits;
  for (uint64_t at = first; at <= last; at++) {
    Renaming *slot = slot_of(at >> (PAGE_BITS - line_bits));
    if (slot->page == NOTHING) continue; /* never touched */
    uint64_t line = line_in(slot->frame, at << line_bits);
    for (CoreCaches *core = all; core; core = core->next) {
      cache_drop(&core->l1, line);
      cache_drop(&core->l2, line);
    }
    if (l3.lines) cache_drop(&l3, line);
  }
  for (CoreCaches *core = all; core; core = core->next)
    memset(core->next_of_stream, 0xff, sizeof core->next_of_stream);
}
