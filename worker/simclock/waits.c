/* A thread that waits on a futex is kept here until another one wakes it, in simulated time and the first one first. It
 * then makes its call after all, with the word changed for so long, so that the kernel lets it go at once. Calls that
 * wait for the world, and waits with a timeout, are the kernel's: the thread is away, and comes back when it does. */
#include "waits.h"

#include <linux/futex.h>
#include <stddef.h>
#include <string.h>

#include "emulator.h"
#include "schedule.h"

enum { OTHER_VALUE = 1 << 30, MOST_BLOCKING = 32, CLEAR_AT_EXIT = 0x00200000 /* CLONE_CHILD_CLEARTID */ };

/* Linux's numbers of system calls, by instruction set. */
typedef struct {
  const char *isas;
  int futex, futex_time64, exit, clone, set_tid_address, sched_yield, sched_getaffinity;
  int blocking[MOST_BLOCKING];
} Numbers;

static const Numbers all_numbers[] = {
    {.isas = "aarch64 riscv64 hexagon",
     .futex = 98, .futex_time64 = 422, .exit = 93, .clone = 220, .set_tid_address = 96, .sched_yield = 124,
     .sched_getaffinity = 123,
     /* read, readv, ppoll, pselect6, epoll_pwait, accept, connect, recvfrom, recvmsg, accept4, recvmmsg, sendto, sendmsg,
      * nanosleep, clock_nanosleep, wait4, waitid, rt_sigtimedwait, rt_sigsuspend, flock */
     .blocking = {63, 65, 73, 72, 22, 202, 203, 207, 212, 242, 243, 206, 211, 101, 115, 260, 95, 137, 133, 32}},
    {.isas = "arm",
     .futex = 240, .futex_time64 = 422, .exit = 1, .clone = 120, .set_tid_address = 256, .sched_yield = 158,
     .sched_getaffinity = 242,
     /* read, readv, poll, ppoll, epoll_wait, accept, connect, recv, recvfrom, recvmsg, send, sendto, sendmsg, nanosleep,
      * clock_nanosleep, wait4, waitid, flock */
     .blocking = {3, 145, 168, 336, 252, 285, 283, 291, 292, 297, 289, 290, 296, 162, 265, 114, 280, 143}},
    {.isas = "ppc64",
     .futex = 221, .futex_time64 = 422, .exit = 1, .clone = 120, .set_tid_address = 232, .sched_yield = 158,
     .sched_getaffinity = 223,
     /* the same */
     .blocking = {3, 145, 167, 281, 238, 330, 328, 336, 337, 342, 334, 335, 341, 162, 248, 114, 272, 143}},
};

static const Numbers *numbers;
static uint64_t num_cpus, wake_ticks, order;

bool waits_configure(const char *isa, uint64_t cores, uint64_t ticks) {
  num_cpus = cores, wake_ticks = ticks;
  for (size_t i = 0; i < sizeof all_numbers / sizeof *all_numbers; i++)
    if (strstr(all_numbers[i].isas, isa)) numbers = all_numbers + i;
  return numbers;
}

static void *host_of(uint64_t address) { return (void *)((&guest_base ? guest_base : 0) + address); }

typedef struct {
  uint64_t address;
  Core *first;
} Search;

static void look(Core *core, void *data) {
  Search *search = data;
  if (core->state == CORE_ASLEEP && core->address == search->address && (!search->first || core->since < search->first->since))
    search->first = core;
}

/* Who has slept longest on a word, or NULL. */
static Core *first_on(uint64_t address) {
  Search search = {address, NULL};
  schedule_each(look, &search);
  return search.first;
}

static void wake(uint64_t address, uint64_t count, uint64_t now) {
  for (Core *core; count && (core = first_on(address)); count--)
    schedule_wake(core, now + (now <= core->spins_until ? 0 : wake_ticks));
}

/* Let those who sleep on one word sleep on another. */
static void move(uint64_t from, uint64_t to, uint64_t count) {
  for (Core *core; count && from != to && (core = first_on(from)); count--) {
    core->address = to;
    core->since = ++order;
  }
}

static void sleep_on(Core *core, uint64_t address, uint32_t value) {
  uint32_t *word = host_of(address);
  if (*(volatile uint32_t *)word != value) return; /* the kernel says so, too */
  core->address = address;
  core->since = ++order;
  core->spins_until = core->spins ? core_now(core) + core->spins : 0;
  core->spins = 0;
  schedule_leave(core, CORE_ASLEEP);
  schedule_return(core);
  if (*(volatile uint32_t *)word == value) {
    core->changed = word;
    *word ^= OTHER_VALUE;
  }
}

static void on_futex(Core *core, const uint64_t *a) {
  uint64_t now = core_now(core);
  switch ((int)a[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      if (a[3]) schedule_leave(core, CORE_AWAY);
      else sleep_on(core, a[0], (uint32_t)a[2]);
      break;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      wake(a[0], (uint32_t)a[2], now);
      break;
    case FUTEX_WAKE_OP:
      wake(a[0], (uint32_t)a[2], now);
      wake(a[4], (uint32_t)a[3], now);
      break;
    case FUTEX_CMP_REQUEUE:
      if (*(volatile uint32_t *)host_of(a[0]) != (uint32_t)a[5]) break;
      /* fall through */
    case FUTEX_REQUEUE:
      wake(a[0], (uint32_t)a[2], now);
      move(a[0], a[4], (uint32_t)a[3]);
      break;
    case FUTEX_UNLOCK_PI:
      break;
    default:
      schedule_leave(core, CORE_AWAY);
      break;
  }
}

static void on_end(Core *core) {
  if (core->exit_address) wake(core->exit_address, UINT32_MAX, core_now(core));
}

static bool blocks(int64_t number) {
  for (int i = 0; i < MOST_BLOCKING && numbers->blocking[i]; i++)
    if (numbers->blocking[i] == number) return true;
  return false;
}

static uint64_t exit_address; /* of the thread that is made */

void waits_begin(Core *core) { core->exit_address = exit_address; }

void waits_call(Core *core, int64_t number, const uint64_t *a) {
  if (number == numbers->clone) exit_address = a[0] & CLEAR_AT_EXIT ? a[4] : 0;
  if (number == numbers->set_tid_address) core->exit_address = a[0];
  if (number == numbers->sched_getaffinity) core->mask_address = a[2];
  if (!schedule_several()) return;
  if (number == numbers->futex || number == numbers->futex_time64) on_futex(core, a);
  else if (number == numbers->sched_yield) schedule_yield(core);
  else if (number == numbers->exit) schedule_end(core, on_end);
  else if (blocks(number)) schedule_leave(core, CORE_AWAY);
}

void waits_return(Core *core, int64_t number, int64_t result) {
  if (core->changed) {
    *core->changed ^= OTHER_VALUE;
    core->changed = NULL;
  }
  if (core->state == CORE_AWAY) schedule_return(core);
  if (number == numbers->sched_getaffinity && result > 0) {
    uint8_t *mask = host_of(core->mask_address);
    for (int64_t byte = 0; byte < result; byte++)
      mask[byte] = (uint8_t)(num_cpus >= 8 * (uint64_t)(byte + 1) ? 0xff
                             : num_cpus > 8 * (uint64_t)byte      ? (1 << (num_cpus - 8 * (uint64_t)byte)) - 1
                                                                  : 0);
  }
}
