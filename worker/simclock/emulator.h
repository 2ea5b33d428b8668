/* What the clock needs of QEMU beyond its plugin interface: a thread that waits for its turn in the middle of a block
 * must not hold up work that QEMU does while no thread runs (a flush of all translations), and must translate anew
 * after it. Debian's and Ubuntu's qemu-user exports these functions of QEMU 7.2; without them threads are not ordered. */
#ifndef TILEFLEET_EMULATOR_H
#define TILEFLEET_EMULATOR_H

#include <stdbool.h>
#include <stdint.h>

#define WEAK __attribute__((weak))

typedef struct CPUState CPUState;

extern uintptr_t guest_base WEAK; /* where address 0 of the guest lies */
CPUState *qemu_get_cpu(int index) WEAK;
bool cpu_restore_state(CPUState *, uintptr_t host_pc, bool will_exit) WEAK; /* brings the guest's pc up to date */
void cpu_exec_start(CPUState *) WEAK;
void cpu_exec_end(CPUState *) WEAK;
_Noreturn void cpu_loop_exit_noexc(CPUState *) WEAK; /* look the next block up again */

#endif
