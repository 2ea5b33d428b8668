/* 64-bit RISC-V, for arch.h. */
#ifndef TILEFLEET_ARCH_RISCV64_H
#define TILEFLEET_ARCH_RISCV64_H

#define ARCH_MACHINE EM_RISCV
/* The table of addresses is filled by the same relocation as any other data. */
enum { ARCH_R_ABSOLUTE = R_RISCV_64, ARCH_R_GLOB_DAT = R_RISCV_64,
       ARCH_R_JUMP_SLOT = R_RISCV_JUMP_SLOT, ARCH_R_RELATIVE = R_RISCV_RELATIVE };

static inline void arch_pause(void) { __asm__ volatile(".4byte 0x0100000f" ::: "memory"); /* Zihintpause */ }

static inline void arch_flush_cache(const void *data, size_t bytes) {
  (void)data, (void)bytes; /* cbo.flush is not for programs under most kernels: times are warm */
}

static inline void arch_sync_code(char *begin, char *end) { __builtin___clear_cache(begin, end); }

#endif
