/* 64-bit Arm, for arch.h. */
#ifndef TILEFLEET_ARCH_AARCH64_H
#define TILEFLEET_ARCH_AARCH64_H

#define ARCH_MACHINE EM_AARCH64
enum { ARCH_R_ABSOLUTE = R_AARCH64_ABS64, ARCH_R_GLOB_DAT = R_AARCH64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_AARCH64_JUMP_SLOT, ARCH_R_RELATIVE = R_AARCH64_RELATIVE };

static inline void arch_pause(void) { __asm__ volatile("yield" ::: "memory"); }

static inline void arch_flush_cache(const void *data, size_t bytes) {
  uint64_t type;
  __asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
  uintptr_t size = (uintptr_t)4 << ((type >> 16) & 15), end = (uintptr_t)data + bytes;
  for (uintptr_t line = (uintptr_t)data & ~(size - 1); line < end; line += size)
    __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
}

static inline void arch_sync_code(char *begin, char *end) { __builtin___clear_cache(begin, end); }

#endif
