/* The clock of a simulated board: a QEMU plugin that charges every executed block for the pipes it keeps
 * busy and every cache miss for its latency. docs/simulated-clock.md says what the figures mean.
 *
 * Options: isa=NAME of a classify_NAME.c, page=FILE, clock=NAME, hz=N, and the model: l1_bytes, l1_ways,
 * l2_bytes, l2_ways, line_bytes, l2_cycles, memory_cycles, l2_stream_cycles, memory_stream_cycles; for a third
 * cache l3_bytes, l3_ways, l3_cycles and l3_stream_cycles; of the memory of all cores memory_line_cycles,
 * memory_write_cycles, memory_row_cycles and memory_shared_row_cycles (bus.h); of several cores: cores, l2_shared, the l2_lines
 * that such an L2 moves in a hundred cycles, start_cycles and wake_cycles; and what instructions cost: prices=FILE, a table of prices.h, with in_flight, the misses that are under way at once, or else
 * width, the pipes' slots a cycle (integer, branch, load, store, vector, matrix) and divide_cycles. */
/* ahead { */
/* For cores that compute while their lines come (ahead.h): lines_ahead, with prices; of the memory memory_turn_cycles. */
/* } ahead */
/* exclusive { */
/* For an L3 without the lines of L2, while one core alone runs (caches.h): l3_exclusive=1. */
/* } exclusive */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "caches.h"
#include "classify.h"
/* fast memory { */
#include "fast_memory.h"
/* } fast memory */
#include "qemu_plugin.h"
#include "schedule.h"
#include "simulation_page.h"
#include "turns.h"
#include "waits.h"

#define EXPORT __attribute__((visibility("default")))

enum { TICKS = SIMULATION_TICKS_PER_CYCLE };

/* ISAS, by the build, is X(NAME) for each classify_NAME.c. */
#define X(name) extern const Isa isa_##name;
ISAS
#undef X
#define X(name) {#name, &isa_##name},
static const struct {
  const char *name;
  const Isa *isa;
} isas[] = {ISAS};
#undef X

static const Isa *isa;
static uint64_t ticks_per_instruction, ticks_per_slot[PIPES];
static SimulationPage *page;

static PriceTable prices; /* num_resources is 0 where there are none */

enum { BEYOND_L1 = 1, CHAINED = 2 };

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *marks) {
  Core *core = schedule_core(cpu);
  Access access = {.beyond_l1 = (uintptr_t)marks & BEYOND_L1,
                   .chained = (uintptr_t)marks & CHAINED,
                   .stores = qemu_plugin_mem_is_store(info),
                   .ticks = core->counters.ticks,
                   .instructions = core->counters.instructions};
  unsigned bytes = 1u << qemu_plugin_mem_size_shift(info);
  /* fast memory { */
  if (fast_memory_access(address, bytes, access.beyond_l1, &core->memory)) return;
  /* } fast memory */
  caches_access(core->caches, address, bytes, &access, &core->memory);
}

static void watch_memory(struct qemu_plugin_insn *instruction, uintptr_t marks) {
  qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, (void *)marks);
}

/* The time of a block is that of its busiest pipe: the core overlaps the others with it. */
static uint64_t block_ticks(const Usage *usage, uint64_t instructions) {
  uint64_t most = instructions * ticks_per_instruction;
  for (int pipe = 0; pipe < PIPES; pipe++) {
    uint64_t busy = usage->slots[pipe] * ticks_per_slot[pipe];
    if (busy > most) most = busy;
  }
  return most;
}

/* A block's part of the counters of the core that executes it. */
static void add(struct qemu_plugin_tb *block, uint64_t *counter, uint64_t value) {
  if (value) qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, counter, value);
}

/* Before it executes a block. */
static inline void wait_for_turn(Core *core, void *host_pc) {
  if (core != schedule_running || core_now(core) >= schedule_limit) schedule_turn(core, (uintptr_t)host_pc);
}

static void on_execution_of_sums(unsigned cpu, void *executed) {
  Core *core = schedule_core(cpu);
  const SimulationCounters *sums = executed;
  wait_for_turn(core, __builtin_return_address(0));
  core->counters.ticks += sums->ticks;
  core->counters.instructions += sums->instructions;
  core->counters.loads += sums->loads;
  core->counters.stores += sums->stores;
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  Usage usage = {0};
  size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
    usage.beyond_l1 = false;
    isa->classify(qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction), &usage);
    watch_memory(instruction, usage.beyond_l1 ? BEYOND_L1 : 0);
  }
  SimulationCounters sums = {
      .ticks = block_ticks(&usage, count), .instructions = count, .loads = usage.loads, .stores = usage.stores};
  if (schedule_several()) { /* QEMU translates all anew for the second thread */
    SimulationCounters *kept = malloc(sizeof *kept);
    if (!kept) abort();
    *kept = sums;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_execution_of_sums, QEMU_PLUGIN_CB_NO_REGS, kept);
    return;
  }
  SimulationCounters *counters = &schedule_running->counters;
  add(block, &counters->ticks, sums.ticks);
  add(block, &counters->instructions, sums.instructions);
  add(block, &counters->loads, sums.loads);
  add(block, &counters->stores, sums.stores);
}

static void on_execution(unsigned cpu, void *executed) {
  Core *core = schedule_core(cpu);
  wait_for_turn(core, __builtin_return_address(0));
  Block *block = turns_enter(&core->turns, &prices, executed);
  core->counters.ticks += turns_execute(&core->turns, &prices, block);
  core->counters.instructions += block->num_steps;
  core->counters.loads += block->loads;
  core->counters.stores += block->stores;
  core->counters.unpriced += block->unknown;
  if (block->pauses) schedule_pause(core);
}

static uint32_t word_of(struct qemu_plugin_insn *instruction) {
  uint32_t word = 0;
  size_t bytes = qemu_plugin_insn_size(instruction);
  memcpy(&word, qemu_plugin_insn_data(instruction), bytes < sizeof word ? bytes : sizeof word);
  return word;
}

static void on_priced_block(qemu_plugin_id_t id, struct qemu_plugin_tb *translated) {
  (void)id;
  enum { MOST = 512 }; /* what QEMU puts into a block */
  static uint32_t words[MOST];
  size_t count = qemu_plugin_tb_n_insns(translated);
  if (count > MOST) abort();
  for (size_t i = 0; i < count; i++)
    words[i] = word_of(qemu_plugin_tb_get_insn(translated, i));
  Block *block = block_make(&prices, words, count);
  if (!block) abort();
  block->start = block->end = qemu_plugin_tb_vaddr(translated);
  for (size_t i = 0; i < count; i++) block->end += qemu_plugin_insn_size(qemu_plugin_tb_get_insn(translated, i));
  block->jump = isa->jump(words[count - 1]);
  for (size_t i = 0; i < count; i++)
    watch_memory(qemu_plugin_tb_get_insn(translated, i), block->steps[i].chained ? CHAINED : 0);
  qemu_plugin_register_vcpu_tb_exec_cb(translated, on_execution, QEMU_PLUGIN_CB_NO_REGS, block);
}

static void forget(Core *core, void *data) {
  (void)data;
  turns_forget(&core->turns);
  core->spins_until = 0;
}

static void sum_up(Core *core, void *data) {
  SimulationCounters *sums = data;
  sums->instructions += core->counters.instructions;
  sums->loads += core->counters.loads;
  sums->stores += core->counters.stores;
  sums->unpriced += core->counters.unpriced;
  sums->l1_misses += core->memory.l1_misses;
  sums->l2_misses += core->memory.l2_misses;
}

static void on_request(Core *core, uint32_t request, uint64_t address, uint64_t bytes) {
  caches_settle(core->caches, &(Access){.ticks = core->counters.ticks, .instructions = core->counters.instructions},
                &core->memory);
  switch (request) {
    case SIMULATION_RESET:
      if (schedule_several()) schedule_quiet(core);
      caches_reset(core_now(core));
      schedule_each(forget, NULL);
      break;
    case SIMULATION_EVICT:
      caches_evict(address & isa->last_address, bytes);
      break;
    case SIMULATION_SPIN:
      core->spins = address;
      break;
    /* fast memory { */
    case SIMULATION_FAST_MEMORY:
      fast_memory_place(address & isa->last_address, bytes);
      break;
    /* } fast memory */
    default:
      break;
  }
  SimulationCounters sums = {.ticks = core_now(core)};
  schedule_each(sum_up, &sums);
  page->counters = sums;
}

/* QEMU extends arguments of 32 bits by their sign: `last_address` takes that off. */
static void on_call(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                    uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)a7, (void)a8;
  Core *core = schedule_core(cpu);
  if ((uint32_t)a1 == SIMULATION_CALL) on_request(core, (uint32_t)a2, a3, a4);
  else {
    uint64_t arguments[] = {a1, a2, a3, a4, a5, a6};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) arguments[i] &= isa->last_address;
    waits_call(core, number, arguments);
  }
}

static void on_call_return(qemu_plugin_id_t id, unsigned cpu, int64_t number, int64_t result) {
  (void)id;
  waits_return(schedule_core(cpu), number, result);
}

static void on_thread(qemu_plugin_id_t id, unsigned cpu) {
  (void)id;
  schedule_begin(cpu);
  waits_begin(schedule_core(cpu));
}

/* The value of option `name`, or NULL. */
static const char *option(const char *name, int argc, char **argv) {
  size_t length = strlen(name);
  for (int i = 0; i < argc; i++)
    if (!strncmp(argv[i], name, length) && argv[i][length] == '=') return argv[i] + length + 1;
  return NULL;
}

typedef struct {
  int count;
  char **texts;
  bool complete; /* no number was missing so far */
} Options;

/* The value of option `name`, a positive number; 1 and a complaint when it is none. */
static uint64_t number(Options *options, const char *name) {
  const char *text = option(name, options->count, options->texts);
  uint64_t value = text ? strtoull(text, NULL, 10) : 0;
  if (value) return value;
  fprintf(stderr, "simclock: option %s must be a positive number\n", name);
  options->complete = false;
  return 1;
}

static int open_page(const char *path, const char *clock, uint64_t hz) {
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return -1;
  void *memory_page = mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory_page == MAP_FAILED) return -1;
  page = memory_page;
  page->version = SIMULATION_VERSION;
  page->ticks_per_second = hz * TICKS;
  snprintf(page->clock, sizeof page->clock, "%s", clock ? clock : "");
  return 0;
}

static int configure(int argc, char **argv) {
  static const char *const pipes[] = {[PIPE_INTEGER] = "integer", [PIPE_BRANCH] = "branch",
                                      [PIPE_LOAD] = "load",       [PIPE_STORE] = "store",
                                      [PIPE_VECTOR] = "vector",   [PIPE_MATRIX] = "matrix"};
  Options options = {argc, argv, true};
  uint64_t hz = number(&options, "hz");
  MemoryModel model = {0};
  model.l1.bytes = number(&options, "l1_bytes");
  model.l1.ways = number(&options, "l1_ways");
  model.l2.bytes = number(&options, "l2_bytes");
  model.l2.ways = number(&options, "l2_ways");
  model.line_bytes = number(&options, "line_bytes");
  model.l2_ticks = TICKS * number(&options, "l2_cycles");
  model.memory_ticks = TICKS * number(&options, "memory_cycles");
  model.l2_stream_ticks = TICKS * number(&options, "l2_stream_cycles");
  model.memory_stream_ticks = TICKS * number(&options, "memory_stream_cycles");
  if (option("l3_bytes", argc, argv)) {
    model.l3.bytes = number(&options, "l3_bytes");
    model.l3.ways = number(&options, "l3_ways");
    model.l3_ticks = TICKS * number(&options, "l3_cycles");
    model.l3_stream_ticks = TICKS * number(&options, "l3_stream_cycles");
    /* exclusive { */
    model.l3_exclusive = option("l3_exclusive", argc, argv);
    /* } exclusive */
  }
  model.l2_shared = option("l2_shared", argc, argv);
  if (option("memory_line_cycles", argc, argv)) {
    BusModel *bus = &model.bus;
    bus->read = TICKS * number(&options, "memory_line_cycles");
    bus->write = option("memory_write_cycles", argc, argv) ? TICKS * number(&options, "memory_write_cycles") : bus->read;
    if (option("memory_row_cycles", argc, argv)) bus->row = TICKS * number(&options, "memory_row_cycles");
    bus->shared_row = option("memory_shared_row_cycles", argc, argv) ? TICKS * number(&options, "memory_shared_row_cycles") : bus->row;
    /* ahead { */
    if (option("memory_turn_cycles", argc, argv)) bus->turn = TICKS * number(&options, "memory_turn_cycles");
    /* } ahead */
  }
  if (option("l2_lines", argc, argv)) /* in a hundred cycles */
    model.l2_bus.read = model.l2_bus.write = 100 * TICKS / number(&options, "l2_lines");
  schedule_configure(TICKS * number(&options, "start_cycles"));
  /* fast memory { */
  if (option("fast_cycles", argc, argv)) fast_memory_configure(TICKS * number(&options, "fast_cycles"));
  /* } fast memory */
  const char *table = option("prices", argc, argv);
  if (table) {
    if (!prices_read(table, &prices)) return -1;
    model.window = prices.window;
    model.in_flight = number(&options, "in_flight");
    /* ahead { */
    if (option("lines_ahead", argc, argv)) model.lines_ahead = number(&options, "lines_ahead");
    /* } ahead */
  } else {
    ticks_per_instruction = TICKS / number(&options, "width");
    for (int pipe = 0; pipe < PIPE_DIVIDE; pipe++) ticks_per_slot[pipe] = TICKS / number(&options, pipes[pipe]);
    ticks_per_slot[PIPE_DIVIDE] = TICKS * number(&options, "divide_cycles");
  }
  const char *wanted = option("isa", argc, argv);
  for (size_t i = 0; wanted && i < sizeof isas / sizeof *isas; i++)
    if (!strcmp(wanted, isas[i].name)) isa = isas[i].isa;
  uint64_t cores = number(&options, "cores"), wake_ticks = TICKS * number(&options, "wake_cycles");
  if (!wanted || !waits_configure(wanted, cores, wake_ticks)) return -1;
  if (!options.complete || !isa || !(table || isa->classify) || !caches_configure(&model)) return -1;
  prices.vector_type = isa->vector_type;
  return open_page(option("page", argc, argv), option("clock", argc, argv), hz);
}

EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  (void)info;
  if (configure(argc, argv)) {
    fprintf(stderr, "simclock: the options make no clock\n");
    return -1;
  }
  qemu_plugin_register_vcpu_init_cb(id, on_thread);
  qemu_plugin_register_vcpu_tb_trans_cb(id, prices.num_resources ? on_priced_block : on_block);
  qemu_plugin_register_vcpu_syscall_cb(id, on_call);
  qemu_plugin_register_vcpu_syscall_ret_cb(id, on_call_return);
  return 0;
}
