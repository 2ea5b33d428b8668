#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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
#define ARCH 0 /* nobody says what its calls are numbered */
#endif

enum { X32_CALLS = 0x40000000, MAX_FILTER = 320 };
enum { WRITING = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND };

static char told[128] = "[]";

/* Appends to a filter that is being made. */
typedef struct {
  struct sock_filter code[MAX_FILTER];
  unsigned short length;
} Filter;

static void add(Filter *filter, uint16_t code, uint32_t value, uint8_t yes, uint8_t no) {
  filter->code[filter->length++] = (struct sock_filter){.code = code, .k = value, .jt = yes, .jf = no};
}

static void end(Filter *filter, uint32_t action) { add(filter, BPF_RET | BPF_K, action, 0, 0); }

static void load(Filter *filter, size_t at) { add(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }

/* The lower half of an argument: all machines here are little-endian. */
static void load_argument(Filter *filter, int number) {
  load(filter, offsetof(struct seccomp_data, args) + 8 * (size_t)number);
}

/* The call `number` ends with `action`. */
static void rule(Filter *filter, uint32_t number, uint32_t action) {
  add(filter, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
  end(filter, action);
}

/* The call `number` is allowed where its argument, compared so with `value`, says `yes`, else deadly. */
static void rule_by(Filter *filter, uint32_t number, int argument, uint16_t compare, uint32_t value, int yes) {
  add(filter, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
  load_argument(filter, argument);
  add(filter, BPF_JMP | compare | BPF_K, value, yes ? 1 : 0, yes ? 0 : 1);
  end(filter, SECCOMP_RET_KILL_PROCESS);
  end(filter, SECCOMP_RET_ALLOW);
}

/* Calls that no kernel needs: network, programs, processes, files that change, the machine itself. */
static const uint32_t forbidden[] = {
#ifdef __NR_accept
    __NR_accept,
#endif
#ifdef __NR_accept4
    __NR_accept4,
#endif
#ifdef __NR_acct
    __NR_acct,
#endif
#ifdef __NR_add_key
    __NR_add_key,
#endif
#ifdef __NR_adjtimex
    __NR_adjtimex,
#endif
#ifdef __NR_bind
    __NR_bind,
#endif
#ifdef __NR_bpf
    __NR_bpf,
#endif
#ifdef __NR_capset
    __NR_capset,
#endif
#ifdef __NR_chmod
    __NR_chmod,
#endif
#ifdef __NR_chown
    __NR_chown,
#endif
#ifdef __NR_chroot
    __NR_chroot,
#endif
#ifdef __NR_clock_adjtime
    __NR_clock_adjtime,
#endif
#ifdef __NR_clock_settime
    __NR_clock_settime,
#endif
#ifdef __NR_connect
    __NR_connect,
#endif
#ifdef __NR_creat
    __NR_creat,
#endif
#ifdef __NR_delete_module
    __NR_delete_module,
#endif
#ifdef __NR_execve
    __NR_execve,
#endif
#ifdef __NR_execveat
    __NR_execveat,
#endif
#ifdef __NR_fchmod
    __NR_fchmod,
#endif
#ifdef __NR_fchmodat
    __NR_fchmodat,
#endif
#ifdef __NR_fchown
    __NR_fchown,
#endif
#ifdef __NR_fchownat
    __NR_fchownat,
#endif
#ifdef __NR_finit_module
    __NR_finit_module,
#endif
#ifdef __NR_fork
    __NR_fork,
#endif
#ifdef __NR_fsetxattr
    __NR_fsetxattr,
#endif
#ifdef __NR_init_module
    __NR_init_module,
#endif
#ifdef __NR_io_uring_enter
    __NR_io_uring_enter,
#endif
#ifdef __NR_io_uring_register
    __NR_io_uring_register,
#endif
#ifdef __NR_io_uring_setup
    __NR_io_uring_setup,
#endif
#ifdef __NR_ioperm
    __NR_ioperm,
#endif
#ifdef __NR_iopl
    __NR_iopl,
#endif
#ifdef __NR_kexec_file_load
    __NR_kexec_file_load,
#endif
#ifdef __NR_kexec_load
    __NR_kexec_load,
#endif
#ifdef __NR_keyctl
    __NR_keyctl,
#endif
#ifdef __NR_lchown
    __NR_lchown,
#endif
#ifdef __NR_link
    __NR_link,
#endif
#ifdef __NR_linkat
    __NR_linkat,
#endif
#ifdef __NR_listen
    __NR_listen,
#endif
#ifdef __NR_lsetxattr
    __NR_lsetxattr,
#endif
#ifdef __NR_mkdir
    __NR_mkdir,
#endif
#ifdef __NR_mkdirat
    __NR_mkdirat,
#endif
#ifdef __NR_mknod
    __NR_mknod,
#endif
#ifdef __NR_mknodat
    __NR_mknodat,
#endif
#ifdef __NR_mount
    __NR_mount,
#endif
#ifdef __NR_move_mount
    __NR_move_mount,
#endif
#ifdef __NR_open_by_handle_at
    __NR_open_by_handle_at,
#endif
#ifdef __NR_open_tree
    __NR_open_tree,
#endif
#ifdef __NR_openat2
    __NR_openat2,
#endif
#ifdef __NR_perf_event_open
    __NR_perf_event_open,
#endif
#ifdef __NR_personality
    __NR_personality,
#endif
#ifdef __NR_pidfd_getfd
    __NR_pidfd_getfd,
#endif
#ifdef __NR_pidfd_open
    __NR_pidfd_open,
#endif
#ifdef __NR_pidfd_send_signal
    __NR_pidfd_send_signal,
#endif
#ifdef __NR_pivot_root
    __NR_pivot_root,
#endif
#ifdef __NR_process_vm_readv
    __NR_process_vm_readv,
#endif
#ifdef __NR_process_vm_writev
    __NR_process_vm_writev,
#endif
#ifdef __NR_ptrace
    __NR_ptrace,
#endif
#ifdef __NR_quotactl
    __NR_quotactl,
#endif
#ifdef __NR_reboot
    __NR_reboot,
#endif
#ifdef __NR_removexattr
    __NR_removexattr,
#endif
#ifdef __NR_rename
    __NR_rename,
#endif
#ifdef __NR_renameat
    __NR_renameat,
#endif
#ifdef __NR_renameat2
    __NR_renameat2,
#endif
#ifdef __NR_request_key
    __NR_request_key,
#endif
#ifdef __NR_rmdir
    __NR_rmdir,
#endif
#ifdef __NR_rt_sigqueueinfo
    __NR_rt_sigqueueinfo,
#endif
#ifdef __NR_rt_tgsigqueueinfo
    __NR_rt_tgsigqueueinfo,
#endif
#ifdef __NR_setdomainname
    __NR_setdomainname,
#endif
#ifdef __NR_setgid
    __NR_setgid,
#endif
#ifdef __NR_setgroups
    __NR_setgroups,
#endif
#ifdef __NR_sethostname
    __NR_sethostname,
#endif
#ifdef __NR_setns
    __NR_setns,
#endif
#ifdef __NR_setregid
    __NR_setregid,
#endif
#ifdef __NR_setresgid
    __NR_setresgid,
#endif
#ifdef __NR_setresuid
    __NR_setresuid,
#endif
#ifdef __NR_setreuid
    __NR_setreuid,
#endif
#ifdef __NR_setrlimit
    __NR_setrlimit,
#endif
#ifdef __NR_settimeofday
    __NR_settimeofday,
#endif
#ifdef __NR_setuid
    __NR_setuid,
#endif
#ifdef __NR_setxattr
    __NR_setxattr,
#endif
#ifdef __NR_socket
    __NR_socket,
#endif
#ifdef __NR_socketcall
    __NR_socketcall,
#endif
#ifdef __NR_socketpair
    __NR_socketpair,
#endif
#ifdef __NR_swapoff
    __NR_swapoff,
#endif
#ifdef __NR_swapon
    __NR_swapon,
#endif
#ifdef __NR_symlink
    __NR_symlink,
#endif
#ifdef __NR_symlinkat
    __NR_symlinkat,
#endif
#ifdef __NR_truncate
    __NR_truncate,
#endif
#ifdef __NR_umount2
    __NR_umount2,
#endif
#ifdef __NR_unlink
    __NR_unlink,
#endif
#ifdef __NR_unlinkat
    __NR_unlinkat,
#endif
#ifdef __NR_unshare
    __NR_unshare,
#endif
#ifdef __NR_userfaultfd
    __NR_userfaultfd,
#endif
#ifdef __NR_utimensat
    __NR_utimensat,
#endif
#ifdef __NR_vfork
    __NR_vfork,
#endif
};

static int filter_calls(void) {
  Filter filter = {.length = 0};
  uint32_t self = (uint32_t)getpid();
  load(&filter, offsetof(struct seccomp_data, arch));
  add(&filter, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
  end(&filter, SECCOMP_RET_KILL_PROCESS);
  load(&filter, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
  add(&filter, BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
  end(&filter, SECCOMP_RET_KILL_PROCESS);
#endif
  for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
    rule(&filter, forbidden[i], SECCOMP_RET_KILL_PROCESS);
#ifdef __NR_open
  rule_by(&filter, __NR_open, 1, BPF_JSET, WRITING, 0);
#endif
  rule_by(&filter, __NR_openat, 2, BPF_JSET, WRITING, 0);
  rule_by(&filter, __NR_clone, 0, BPF_JSET, CLONE_THREAD, 1);
#ifdef __NR_clone3
  rule(&filter, __NR_clone3, SECCOMP_RET_ERRNO | ENOSYS); /* its arguments cannot be seen; clone's can */
#endif
  rule_by(&filter, __NR_kill, 0, BPF_JEQ, self, 1);
  rule_by(&filter, __NR_tkill, 0, BPF_JEQ, self, 1);
  rule_by(&filter, __NR_tgkill, 0, BPF_JEQ, self, 1);
  rule_by(&filter, __NR_prlimit64, 2, BPF_JEQ, 0, 1); /* limits may be read */
  end(&filter, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {.len = filter.length, .filter = filter.code};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int limited(int resource, uint64_t value) {
  struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
  return !setrlimit(resource, &limit);
}

void confine(uint64_t memory_bytes) {
  struct {
    const char *name;
    int holds;
  } limits[] = {
      {"cores", limited(RLIMIT_CORE, 0)},
      {"files", limited(RLIMIT_FSIZE, 0)},
      {"memory", memory_bytes && limited(RLIMIT_AS, memory_bytes)},
      {"privileges", !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)},
      {"calls", ARCH && !filter_calls()},
  };
  size_t at = (size_t)snprintf(told, sizeof told, "[");
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (limits[i].holds)
      at += (size_t)snprintf(told + at, sizeof told - at, "%s\"%s\"", at > 1 ? ", " : "", limits[i].name);
  snprintf(told + at, sizeof told - at, "]");
}

const char *confine_limits(void) { return told; }
