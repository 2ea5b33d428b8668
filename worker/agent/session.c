#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "confine.h"
#include "rpc.h"
#include "stats.h"
#include "threads.h"
#include "token.h"
#include "usage.h"
#include "wire.h"

/* tvm.rpc.base.RPC_MAGIC, and what a server answers to a client that looks for another one. */
enum { MAGIC = 0xff271, MAGIC_MISMATCH = MAGIC + 2 };
enum { MAX_KEY = 1024, HANDSHAKE_SECONDS = 2, GONE_GRACE_MS = 1000 };

static void set_receive_timeout(int fd, int seconds) {
  struct timeval limit = {.tv_sec = seconds};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/* Read exactly `bytes`; the receive timeout holds for all of them together, so nobody can drip them. */
static int read_greeting(int fd, void *data, size_t bytes) {
  return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes ? 0 : -1;
}

/* Whether the key that a client names is ours. Without a token a client may name none; with one, the key is
 * "KEY.TOKEN". */
static int key_fits(const SessionOptions *options, char *theirs) {
  char ours[MAX_KEY + 1];
  if (!options->token) return !*theirs || !*options->key || !strcmp(options->key, theirs);
  snprintf(ours, sizeof ours, "%s.%s", options->key, options->token);
  int fits = token_equal(ours, theirs);
  explicit_bzero(ours, sizeof ours); /* candidates run where this was */
  explicit_bzero(theirs, strlen(theirs));
  return fits;
}

/* Exchange magic numbers and keys. The client's key is "client:KEY" with "-timeout=SECONDS" somewhere after
 * a space when it asked for one; `timeout` receives that or 0. -1 when the client does not belong here. */
static int handshake(int fd, const SessionOptions *options, double *timeout) {
  char theirs[MAX_KEY + 1], ours[MAX_KEY + 16];
  int32_t magic, length;
  if (read_greeting(fd, &magic, sizeof magic) || magic != MAGIC) return -1;
  if (read_greeting(fd, &length, sizeof length) || length < 0 || length > MAX_KEY) return -1;
  if (read_greeting(fd, theirs, (size_t)length)) return -1;
  theirs[length] = 0;
  char *name = strncmp(theirs, "client:", 7) ? theirs : theirs + 7;
  const char *option = strstr(name, "-timeout=");
  *timeout = option ? strtod(option + 9, NULL) : 0;
  if (!(*timeout > 0) || !isfinite(*timeout)) *timeout = 0;
  name[strcspn(name, " ")] = 0;
  if (!key_fits(options, name)) {
    magic = MAGIC_MISMATCH;
    socket_write(fd, &magic, sizeof magic);
    return -1;
  }
  length = snprintf(ours, sizeof ours, "server:%s", options->key);
  if (socket_write(fd, &magic, sizeof magic) || socket_write(fd, &length, sizeof length)) return -1;
  return socket_write(fd, ours, (size_t)length);
}

/* In the child: shut out what a wild candidate could do to others, then serve. */
static _Noreturn void serve(int fd, pid_t parent, const SessionOptions *options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* no orphan goes on serving when the agent dies */
  if (getppid() != parent) _exit(0);
  token_forget();
  if (options->listener >= 0) close(options->listener);
  int nothing = open("/dev/null", O_RDWR);
  if (nothing < 0) _exit(1);
  for (int standard = 0; standard < 3; standard++) dup2(nothing, standard);
  threads_configure(options->threads);
  stats_open();
  usage_open();
  confine(options->memory_bytes);
  threads_start();
  confine_calls();
  rpc_serve(fd);
}

static const char *signal_name(int number) {
  switch (number) {
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    case SIGKILL: return "SIGKILL";
    case SIGSEGV: return "SIGSEGV";
    case SIGSYS: return "SIGSYS: a system call that candidates may not make";
    case SIGTRAP: return "SIGTRAP";
    case SIGXFSZ: return "SIGXFSZ";
    default: return "signal";
  }
}

typedef enum { ENDED, TIMED_OUT, CLIENT_GONE } End;

/* Sleep until the child ends (its end of `life` closes; what a candidate writes into it is ignored), time is
 * over, or the client hangs up. A client that hangs up while its candidate spins would hold the board for
 * ever. */
static End watch(int fd, int life, double deadline) {
  int gone = 0;
  for (;;) {
    int wait_ms = gone ? GONE_GRACE_MS : -1;
    if (deadline > 0) {
      double left_ms = (deadline - clock_seconds()) * 1e3;
      if (left_ms <= 0) return TIMED_OUT;
      if (wait_ms < 0 || left_ms < wait_ms) wait_ms = left_ms < 1e9 ? (int)left_ms + 1 : 1000000000;
    }
    struct pollfd watched[2] = {{.fd = life}, {.fd = gone ? -1 : fd, .events = POLLRDHUP}};
    int ready = poll(watched, 2, wait_ms);
    if (ready < 0 && errno != EINTR) return TIMED_OUT;
    if (ready == 0 && gone) return CLIENT_GONE;
    if (ready <= 0) continue;
    if (watched[0].revents) return ENDED;
    gone = 1;
  }
}

/* Close without leaving unread input behind: closing over it would reset the connection and could take
 * the last message with it. */
static void close_politely(int fd) {
  char waste[4096];
  shutdown(fd, SHUT_WR);
  for (int i = 0; i < 1024 && recv(fd, waste, sizeof waste, MSG_DONTWAIT) > 0; i++) continue;
  close(fd);
}

static void tell(int fd, const char *message) {
  fprintf(stderr, "session ended: %s\n", message);
  fcntl(fd, F_SETFL, O_NONBLOCK); /* a client that does not read cannot hold the board */
  socket_write_exception(fd, message); /* one that has gone cannot be told */
}

/* The status of a child that is ending. One that closed its end of the pipe and goes on is killed. */
static int reap(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  for (int waited_ms = 0; !ended && waited_ms < GONE_GRACE_MS; waited_ms++) {
    ended = waitpid(child, &status, WNOHANG);
    if (!ended) poll(NULL, 0, 1);
  }
  if (!ended) kill(child, SIGKILL);
  while (!ended) {
    ended = waitpid(child, &status, 0);
    if (ended < 0 && errno == EINTR) ended = 0;
  }
  return status;
}

/* Run the child and report how it ended. */
static void supervise(int fd, double timeout, const SessionOptions *options) {
  int life[2];
  if (pipe2(life, O_CLOEXEC)) {
    tell(fd, "the board cannot start a session: no pipe");
    return;
  }
  double deadline = timeout > 0 ? clock_seconds() + timeout : 0;
  pid_t parent = getpid(), child = fork();
  if (child == 0) serve(fd, parent, options);
  close(life[1]);
  if (child < 0) {
    close(life[0]);
    tell(fd, "the board cannot start a session: no process");
    return;
  }
  End end = watch(fd, life[0], deadline);
  close(life[0]);
  if (end != ENDED) kill(child, SIGKILL);
  int status = reap(child);
  char message[160];
  if (end == TIMED_OUT) {
    snprintf(message, sizeof message, "RPCSessionTimeoutError: the session's %g s are over", timeout);
    tell(fd, message);
  } else if (end == ENDED && WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    snprintf(message, sizeof message, "the candidate was killed by signal %d (%s)", number, signal_name(number));
    tell(fd, message);
  } else if (end == ENDED && WEXITSTATUS(status)) {
    snprintf(message, sizeof message, "the session ended with status %d", WEXITSTATUS(status));
    tell(fd, message);
  }
}

void session_run(int fd, const SessionOptions *options) {
  double timeout;
  set_receive_timeout(fd, HANDSHAKE_SECONDS);
  if (!handshake(fd, options, &timeout)) {
    set_receive_timeout(fd, 0);
    supervise(fd, timeout, options);
  }
  close_politely(fd);
}
