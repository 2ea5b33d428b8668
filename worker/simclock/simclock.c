/* The clock of a simulated board: a QEMU plugin that charges every executed block for the pipes it keeps
 * busy and every cache miss for its latency. docs/simulated-clock.md says what the figures mean.
 *
 * Options: isa=NAME of a classify_NAME.c, page=FILE, clock=NAME, hz=N, and the model: width, the
 * pipes' slots a cycle (integer, branch, load, store, vector, matrix), divide_cycles, l1_bytes, l1_ways,
 * l2_bytes, l2_ways, line_bytes, l2_cycles, memory_cycles, l2_stream_cycles, memory_stream_cycles. All
 * are needed; boards with a third cache have l3_bytes, l3_ways, l3_cycles and l3_stream_cycles as well. */
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
#include "simulation_page.h"

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
static SimulationCounters counters; /* without those of the memory */
static MemoryCost memory;

static void on_access(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *beyond_l1) {
  (void)cpu;
  /* fast memory { */
  if (fast_memory_access(address, 1u << qemu_plugin_mem_size_shift(info), beyond_l1 != NULL, &memory)) return;
  /* } fast memory */
  caches_access(address, 1u << qemu_plugin_mem_size_shift(info), beyond_l1 != NULL, &memory);
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

static void add(struct qemu_plugin_tb *block, uint64_t *counter, uint64_t value) {
  if (value) qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, counter, value);
}

static void on_block(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
  (void)id;
  static char mark; /* its address stands for "beyond L1" */
  Usage usage = {0};
  size_t count = qemu_plugin_tb_n_insns(block);
  for (size_t i = 0; i < count; i++) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
    usage.beyond_l1 = false;
    isa->classify(qemu_plugin_insn_data(instruction), qemu_plugin_insn_size(instruction), &usage);
    qemu_plugin_register_vcpu_mem_cb(instruction, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     usage.beyond_l1 ? &mark : NULL);
  }
  add(block, &counters.ticks, block_ticks(&usage, count));
  add(block, &counters.instructions, count);
  add(block, &counters.loads, usage.loads);
  add(block, &counters.stores, usage.stores);
}

static void on_call(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t magic, uint64_t request,
                    uint64_t address, uint64_t bytes, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
  (void)id, (void)cpu, (void)number, (void)a5, (void)a6, (void)a7, (void)a8;
  if ((uint32_t)magic != SIMULATION_CALL) return;
  switch ((uint32_t)request) {
    case SIMULATION_RESET:
      caches_reset();
      break;
    case SIMULATION_EVICT:
      caches_evict(address & isa->last_address, bytes); /* QEMU extends arguments of 32 bits by their sign */
      break;
    /* fast memory { */
    case SIMULATION_FAST_MEMORY:
      fast_memory_place(address & isa->last_address, bytes);
      break;
    /* } fast memory */
    default:
      break;
  }
  page->counters = counters;
  page->counters.ticks += memory.ticks;
  page->counters.l1_misses = memory.l1_misses;
  page->counters.l2_misses = memory.l2_misses;
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
  ticks_per_instruction = TICKS / number(&options, "width");
  for (int pipe = 0; pipe < PIPE_DIVIDE; pipe++) ticks_per_slot[pipe] = TICKS / number(&options, pipes[pipe]);
  ticks_per_slot[PIPE_DIVIDE] = TICKS * number(&options, "divide_cycles");
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
  }
  /* fast memory { */
  if (option("fast_cycles", argc, argv)) fast_memory_configure(TICKS * number(&options, "fast_cycles"));
  /* } fast memory */
  const char *wanted = option("isa", argc, argv);
  for (size_t i = 0; wanted && i < sizeof isas / sizeof *isas; i++)
    if (!strcmp(wanted, isas[i].name)) isa = isas[i].isa;
  if (!options.complete || !isa || !caches_configure(&model)) return -1;
  return open_page(option("page", argc, argv), option("clock", argc, argv), hz);
}

EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  (void)info;
  if (configure(argc, argv)) {
    fprintf(stderr, "simclock: the options make no clock\n");
    return -1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
  qemu_plugin_register_vcpu_syscall_cb(id, on_call);
  return 0;
}
