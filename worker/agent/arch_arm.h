/* 32-bit Arm, for arch.h. */
#ifndef TILEFLEET_ARCH_ARM_H
#define TILEFLEET_ARCH_ARM_H

#define ARCH_MACHINE EM_ARM
enum { ARCH_R_ABSOLUTE = R_ARM_ABS32, ARCH_R_GLOB_DAT = R_ARM_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_ARM_JUMP_SLOT, ARCH_R_RELATIVE = R_ARM_RELATIVE };
#define ARCH_ADDENDS_IN_PLACE 1
#define ARCH_IS_KNOWN_TO_CLOCK(address) (!((address) & 1)) /* T32's addresses are odd */

static inline void arch_pause(void) { __asm__ volatile("yield" ::: "memory"); }

static inline void arch_flush_cache(const void *data, size_t bytes) {
  (void)data, (void)bytes; /* no user-mode flush: times are warm */
}

static inline void arch_sync_code(char *begin, char *end) { __builtin___clear_cache(begin, end); }

#endif
