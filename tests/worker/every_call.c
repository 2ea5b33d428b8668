/* What the filter of a candidate's system calls lets through. Without an argument: each call is tried in a
 * confined process of its own, and those that did not end it are printed, a line each: number and arguments.
 * With one: the filter's program for process 1234, four numbers an instruction, then calls by name. */
#include <fcntl.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "confine.h"

#define NAMED(name) printf("%s %d\n", #name, __NR_##name)

enum { MOST = 600, X32 = 0x40000000 };

static void attempt(long number, long first, long second, long third) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    alarm(2); /* one that waits was allowed */
    confine(1 << 30);
    confine_calls();
    syscall(number, first, second, third, 0, 0, 0);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) printf("%ld %ld %ld %ld\n", number, first, second, third);
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1) {
    struct sock_filter code[MAX_PROGRAM];
    unsigned short length = calls_program(code, 1234);
    for (int i = 0; i < length; i++) printf("%d %d %d %u\n", code[i].code, code[i].jt, code[i].jf, code[i].k);
    NAMED(read), NAMED(sendto), NAMED(mprotect), NAMED(exit_group), NAMED(madvise), NAMED(tkill);
    NAMED(openat), NAMED(clone), NAMED(execve), NAMED(socket), NAMED(connect), NAMED(kill), NAMED(tgkill);
    NAMED(ptrace), NAMED(fcntl), NAMED(ioctl), NAMED(prctl), NAMED(shmget), NAMED(msgget), NAMED(mq_open);
    NAMED(mlockall), NAMED(sched_setaffinity), NAMED(setpriority), NAMED(prlimit64), NAMED(unlinkat);
    NAMED(memfd_create), NAMED(io_uring_setup), NAMED(bpf), NAMED(process_vm_readv), NAMED(move_pages);
    return 0;
  }
  for (long number = 0; number < MOST; number++) attempt(number, 0, 0, 0);
  for (long number = 0; number < MOST; number++) attempt(X32 | number, 0, 0, 0);
  int pair[2];
  if (pipe(pair)) return 1;
  for (long command = 0; command < 1100; command++) attempt(SYS_fcntl, pair[1], command, 0);
  for (long command = 0x5400; command < 0x5500; command++) attempt(SYS_ioctl, pair[1], command, 0);
  for (long option = 0; option < 80; option++) attempt(SYS_prctl, option, 0, 0);
  for (long advice = 0; advice < 120; advice++) attempt(SYS_madvise, 0, 0, advice);
  attempt(SYS_tkill, getppid(), 0, 0);
  attempt(SYS_kill, getppid(), 0, 0);
  attempt(SYS_tgkill, getppid(), getppid(), 0);
  return 0;
}
