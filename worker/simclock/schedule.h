/* Which thread runs. One does at a time: the one whose core is behind all others, for a quantum of simulated time, so
 * that what threads do to each other comes in the same order always. */
#ifndef TILEFLEET_SCHEDULE_H
#define TILEFLEET_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"

/* The core that runs, and when another one has its turn. */
extern Core *schedule_running;
extern uint64_t schedule_limit;

/* Ticks until a new thread runs. */
void schedule_configure(uint64_t start_ticks);

/* The core of a thread that QEMU's number `cpu` stands for. */
Core *schedule_core(unsigned cpu);

/* Whether there is more than one thread. */
bool schedule_several(void);

/* `visit` each core there ever was. */
void schedule_each(void (*visit)(Core *core, void *data), void *data);

/* A thread begins, made by the one that runs. */
void schedule_begin(unsigned cpu);

/* In a block, before anything of it is charged: wait for the core's turn. Does not return when it had to wait; the block
 * is begun again. `host_pc` is where the block goes on. */
void schedule_turn(Core *core, uintptr_t host_pc);

/* The core that runs looks busily for what others do: until one of them has got on it sees nothing new. */
void schedule_pause(Core *core);

/* In a system call: wait while others are behind. */
void schedule_yield(Core *core);

/* In a system call: the thread leaves for CORE_ASLEEP or CORE_AWAY. */
void schedule_leave(Core *core, CoreState state);

/* Wait for a turn after that. */
void schedule_return(Core *core);

/* The one that runs wakes another at `at`. */
void schedule_wake(Core *core, uint64_t at);

/* The thread ends with the system call it is in; `on_end` is called when QEMU is done with it. */
void schedule_end(Core *core, void (*on_end)(Core *));

/* Wait until all others sleep, or for a while. */
void schedule_quiet(Core *core);

#endif
