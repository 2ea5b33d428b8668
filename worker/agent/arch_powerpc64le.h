/* POWER, for arch.h. */
#ifndef TILEFLEET_ARCH_POWERPC64LE_H
#define TILEFLEET_ARCH_POWERPC64LE_H

#define ARCH_MACHINE EM_PPC64
enum { ARCH_R_ABSOLUTE = R_PPC64_ADDR64, ARCH_R_GLOB_DAT = R_PPC64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_PPC64_JMP_SLOT, ARCH_R_RELATIVE = R_PPC64_RELATIVE };

static inline void arch_pause(void) { __asm__ volatile("" ::: "memory"); }

static inline void arch_flush_cache(const void *data, size_t bytes) {
  uintptr_t end = (uintptr_t)data + bytes;
  for (uintptr_t line = (uintptr_t)data & ~(uintptr_t)127; line < end; line += 128)
    __asm__ volatile("dcbf 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync" ::: "memory");
}

/* zig's compiler-rt has no __clear_cache here. */
static inline void arch_sync_code(char *begin, char *end) {
  for (char *line = begin; line < end; line += 32) __asm__ volatile("dcbst 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync" ::: "memory");
  for (char *line = begin; line < end; line += 32) __asm__ volatile("icbi 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync; isync" ::: "memory");
}

#endif
