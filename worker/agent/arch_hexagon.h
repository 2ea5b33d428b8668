/* Hexagon, for arch.h. */
#ifndef TILEFLEET_ARCH_HEXAGON_H
#define TILEFLEET_ARCH_HEXAGON_H

#define ARCH_MACHINE 164 /* EM_HEXAGON and R_HEX_* are not in musl's elf.h */
enum { ARCH_R_ABSOLUTE = 6, ARCH_R_GLOB_DAT = 33, ARCH_R_JUMP_SLOT = 34, ARCH_R_RELATIVE = 35 };

/* zig's linker relocates accesses to thread-local variables wrongly (the low bits of an offset get lost where the
 * compiler puts two instructions into one word), so that there is one thread. */
#define ARCH_THREAD_LOCAL
#define ARCH_MAX_THREADS 1

static inline void arch_pause(void) { __asm__ volatile("" ::: "memory"); }

static inline void arch_flush_cache(const void *data, size_t bytes) {
  (void)data, (void)bytes; /* no user-mode flush: times are warm */
}

static inline void arch_sync_code(char *begin, char *end) {
  for (char *line = begin; line < end; line += 32) __asm__ volatile("dccleana(%0)" ::"r"(line) : "memory");
}

#endif
