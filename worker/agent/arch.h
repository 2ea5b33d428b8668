/* Everything that differs by instruction set: caches, pauses and relocation numbers. */
#ifndef TILEFLEET_ARCH_H
#define TILEFLEET_ARCH_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define ARCH_MACHINE EM_X86_64
enum { ARCH_R_ABSOLUTE = R_X86_64_64, ARCH_R_GLOB_DAT = R_X86_64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_X86_64_JUMP_SLOT, ARCH_R_RELATIVE = R_X86_64_RELATIVE };
#elif defined(__aarch64__)
#define ARCH_MACHINE EM_AARCH64
enum { ARCH_R_ABSOLUTE = R_AARCH64_ABS64, ARCH_R_GLOB_DAT = R_AARCH64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_AARCH64_JUMP_SLOT, ARCH_R_RELATIVE = R_AARCH64_RELATIVE };
#elif defined(__powerpc64__)
#define ARCH_MACHINE EM_PPC64
enum { ARCH_R_ABSOLUTE = R_PPC64_ADDR64, ARCH_R_GLOB_DAT = R_PPC64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_PPC64_JMP_SLOT, ARCH_R_RELATIVE = R_PPC64_RELATIVE };
#elif defined(__arm__)
#define ARCH_MACHINE EM_ARM
enum { ARCH_R_ABSOLUTE = R_ARM_ABS32, ARCH_R_GLOB_DAT = R_ARM_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_ARM_JUMP_SLOT, ARCH_R_RELATIVE = R_ARM_RELATIVE };
#elif defined(__hexagon__)
#define ARCH_MACHINE 164 /* EM_HEXAGON and R_HEX_* are not in musl's elf.h */
enum { ARCH_R_ABSOLUTE = 6, ARCH_R_GLOB_DAT = 33, ARCH_R_JUMP_SLOT = 34, ARCH_R_RELATIVE = 35 };
#else
#error "the agent does not know this instruction set: add it to arch.h"
#endif

/* Whether a relocation's addend stands where its result will, instead of beside it. */
#if defined(__arm__)
#define ARCH_ADDENDS_IN_PLACE 1
#else
#define ARCH_ADDENDS_IN_PLACE 0
#endif

/* zig's linker relocates accesses to thread-local variables wrongly on Hexagon (the low bits of an offset get
 * lost where the compiler puts two instructions into one word), so that there is one thread there. */
#if defined(__hexagon__)
#define ARCH_THREAD_LOCAL
enum { ARCH_MAX_THREADS = 1 };
#else
#define ARCH_THREAD_LOCAL _Thread_local
enum { ARCH_MAX_THREADS = 256 };
#endif

/* Tell the core that this is a spin loop. */
static inline void arch_pause(void) {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield" ::: "memory");
#else
  __asm__ volatile("" ::: "memory");
#endif
}

#if defined(__x86_64__)
/* clflushopt lines leave the cache in parallel, clflush lines one after the other. */
__attribute__((target("clflushopt"))) static inline void arch_flush_opt(const char *line, const char *end) {
  for (; line < end; line += 64) _mm_clflushopt((void *)(uintptr_t)line);
}
#endif

/* Whether the simulated clock knows the instruction set that code at this address is of: T32's have odd ones. */
static inline int arch_is_known_to_clock(uintptr_t address) {
#if defined(__arm__)
  return !(address & 1);
#else
  (void)address;
  return 1;
#endif
}

/* Write back and drop every cache line of [data, data + bytes), from all levels. */
static inline void arch_flush_cache(const void *data, size_t bytes) {
#if defined(__x86_64__)
  const char *line = (const char *)((uintptr_t)data & ~(uintptr_t)63), *end = (const char *)data + bytes;
  unsigned eax, ebx = 0, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & (1u << 23)))
    arch_flush_opt(line, end);
  else
    for (; line < end; line += 64) _mm_clflush(line);
  _mm_mfence();
#elif defined(__aarch64__)
  uint64_t type;
  __asm__ volatile("mrs %0, ctr_el0" : "=r"(type));
  uintptr_t size = (uintptr_t)4 << ((type >> 16) & 15), end = (uintptr_t)data + bytes;
  for (uintptr_t line = (uintptr_t)data & ~(size - 1); line < end; line += size)
    __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
#elif defined(__powerpc64__)
  uintptr_t end = (uintptr_t)data + bytes;
  for (uintptr_t line = (uintptr_t)data & ~(uintptr_t)127; line < end; line += 128)
    __asm__ volatile("dcbf 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync" ::: "memory");
#else
  (void)data, (void)bytes; /* no user-mode flush: times are warm there */
#endif
}

/* Make code that was just written in [begin, end) visible to instruction fetch. */
static inline void arch_sync_code(char *begin, char *end) {
#if defined(__x86_64__) || defined(__aarch64__) || defined(__arm__)
  __builtin___clear_cache(begin, end);
#elif defined(__powerpc64__) /* zig's compiler-rt has no __clear_cache here */
  for (char *line = begin; line < end; line += 32) __asm__ volatile("dcbst 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync" ::: "memory");
  for (char *line = begin; line < end; line += 32) __asm__ volatile("icbi 0,%0" ::"r"(line) : "memory");
  __asm__ volatile("sync; isync" ::: "memory");
#elif defined(__hexagon__)
  for (char *line = begin; line < end; line += 32) __asm__ volatile("dccleana(%0)" ::"r"(line) : "memory");
#endif
}

#endif
