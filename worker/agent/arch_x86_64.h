/* x86-64, for arch.h. */
#ifndef TILEFLEET_ARCH_X86_64_H
#define TILEFLEET_ARCH_X86_64_H

#include <cpuid.h>
#include <immintrin.h>

#define ARCH_MACHINE EM_X86_64
enum { ARCH_R_ABSOLUTE = R_X86_64_64, ARCH_R_GLOB_DAT = R_X86_64_GLOB_DAT,
       ARCH_R_JUMP_SLOT = R_X86_64_JUMP_SLOT, ARCH_R_RELATIVE = R_X86_64_RELATIVE };

static inline void arch_pause(void) { _mm_pause(); }

/* clflushopt lines leave the cache in parallel, clflush lines one after the other. */
__attribute__((target("clflushopt"))) static inline void arch_flush_opt(const char *line, const char *end) {
  for (; line < end; line += 64) _mm_clflushopt((void *)(uintptr_t)line);
}

static inline void arch_flush_cache(const void *data, size_t bytes) {
  const char *line = (const char *)((uintptr_t)data & ~(uintptr_t)63), *end = (const char *)data + bytes;
  unsigned eax, ebx = 0, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & (1u << 23)))
    arch_flush_opt(line, end);
  else
    for (; line < end; line += 64) _mm_clflush(line);
  _mm_mfence();
}

static inline void arch_sync_code(char *begin, char *end) { __builtin___clear_cache(begin, end); }

#endif
