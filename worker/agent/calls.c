#include "calls.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__arm__)
#define ARCH AUDIT_ARCH_ARM
#elif defined(__powerpc64__)
#define ARCH AUDIT_ARCH_PPC64LE
#elif defined(__riscv)
#define ARCH AUDIT_ARCH_RISCV64
#else
#define ARCH 0
#endif

enum { FIRST_PRIVILEGED_ADVICE = 100 /* MADV_HWPOISON: takes pages from the machine */ };

/* What a session needs once its threads run and its files are open: its connection, memory, time, an end. */
static const uint32_t allowed[] = {
    __NR_read,     __NR_write,      __NR_readv,          __NR_writev,       __NR_pread64,         __NR_close,
    __NR_recvfrom, __NR_sendto,     __NR_brk,            __NR_munmap,       __NR_mremap,          __NR_mprotect,
    __NR_getpid,   __NR_gettid,     __NR_getrusage,      __NR_sched_yield,  __NR_restart_syscall, __NR_exit,
    __NR_exit_group, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn,
#ifdef __NR_mmap
    __NR_mmap,
#endif
#ifdef __NR_mmap2
    __NR_mmap2,
#endif
#ifdef __NR_clock_gettime
    __NR_clock_gettime,
#endif
#ifdef __NR_clock_gettime64
    __NR_clock_gettime64,
#endif
#ifdef __NR_nanosleep
    __NR_nanosleep,
#endif
#ifdef __NR_clock_nanosleep
    __NR_clock_nanosleep,
#endif
#ifdef __NR_clock_nanosleep_time64
    __NR_clock_nanosleep_time64,
#endif
#ifdef __NR_futex
    __NR_futex,
#endif
#ifdef __NR_futex_time64
    __NR_futex_time64,
#endif
#ifdef __ARM_NR_cacheflush /* what the loader wrote is code */
    __ARM_NR_cacheflush,
#endif
#ifdef __NR_riscv_flush_icache
    __NR_riscv_flush_icache,
#endif
};

typedef struct {
  struct sock_filter *code;
  unsigned short length;
} Program;

static void add(Program *program, uint16_t code, uint32_t value, uint8_t yes, uint8_t no) {
  program->code[program->length++] = (struct sock_filter){.code = code, .k = value, .jt = yes, .jf = no};
}

static void load(Program *program, size_t at) { add(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }

static void end(Program *program, uint32_t action) { add(program, BPF_RET | BPF_K, action, 0, 0); }

/* The call `number` is allowed where its argument, compared so with `value`, says `yes`. The argument's lower
 * half is enough: all machines here are little-endian, and the kernel reads it as an int. */
static void rule(Program *program, uint32_t number, int argument, uint16_t compare, uint32_t value, int yes) {
  add(program, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
  load(program, offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
  add(program, BPF_JMP | compare | BPF_K, value, yes ? 1 : 0, yes ? 0 : 1);
  end(program, SECCOMP_RET_KILL_PROCESS);
  end(program, SECCOMP_RET_ALLOW);
}

unsigned short calls_program(struct sock_filter code[MAX_PROGRAM], unsigned self) {
  Program program = {.code = code};
  if (!ARCH) return 0;
  load(&program, offsetof(struct seccomp_data, arch));
  add(&program, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
  end(&program, SECCOMP_RET_KILL_PROCESS);
  load(&program, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
    add(&program, BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
    end(&program, SECCOMP_RET_ALLOW);
  }
  rule(&program, __NR_madvise, 2, BPF_JGE, FIRST_PRIVILEGED_ADVICE, 0);
  rule(&program, __NR_tkill, 0, BPF_JEQ, self, 1); /* abort() */
  end(&program, SECCOMP_RET_KILL_PROCESS);
  return program.length;
}

int calls_filter(void) {
  struct sock_filter code[MAX_PROGRAM];
  struct sock_fprog program = {.len = calls_program(code, (unsigned)getpid()), .filter = code};
  if (!program.len) return -1;
  return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? -1 : 0;
}
