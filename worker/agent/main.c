/* tilefleet-agent: serves one board to TVM's RPC client.
 *
 * The agent listens on 127.0.0.1 only: RPC access is the right to run any code. It serves one session after
 * the other, each in a child of its own, so a crashing candidate never takes the agent down. Its first line
 * on standard output is the port it listens on. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session.h"
#include "simulation.h"

typedef struct {
  int port;     /* 0: any free one */
  pid_t parent; /* 0, or the process with which the agent dies */
  const char *clock_page; /* NULL, or where a simulated board's clock publishes */
  SessionOptions session;
} Options;

static _Noreturn void usage(const char *problem, const char *argument) {
  fprintf(stderr,
          "tilefleet-agent: %s%s\n"
          "usage: tilefleet-agent [--port N] [--key NAME] [--threads N] [--memory-mb N] [--parent PID]"
          " [--clock-page FILE]\n",
          problem, argument);
  exit(2);
}

static long number(const char *option, const char *text, long most) {
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < 0 || value > most) usage("not a valid number for ", option);
  return value;
}

static Options parse(int argc, char **argv) {
  Options options = {.session = {.key = "", .memory_bytes = (uint64_t)4096 << 20}};
  for (int i = 1; i < argc; i += 2) {
    const char *option = argv[i];
    if (i + 1 == argc) usage("no value for ", option);
    const char *value = argv[i + 1];
    if (!strcmp(option, "--port")) options.port = (int)number(option, value, 65535);
    else if (!strcmp(option, "--key")) options.session.key = value;
    else if (!strcmp(option, "--threads")) options.session.threads = (int)number(option, value, 256);
    else if (!strcmp(option, "--memory-mb"))
      options.session.memory_bytes = (uint64_t)number(option, value, 1 << 24) << 20;
    else if (!strcmp(option, "--parent")) options.parent = (pid_t)number(option, value, 1 << 30);
    else if (!strcmp(option, "--clock-page")) options.clock_page = value;
    else usage("unknown option ", option);
  }
  return options;
}

/* Listen on the loopback interface; `port` receives the port. */
static int listen_on(int *port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)*port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 16) ||
      getsockname(fd, (struct sockaddr *)&address, &length))
    return -1;
  *port = ntohs(address.sin_port);
  return fd;
}

int main(int argc, char **argv) {
  Options options = parse(argc, argv);
  if (options.parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != options.parent) return 1; /* it died before the line above */
  }
  if (options.clock_page && simulation_open(options.clock_page))
    usage("no simulated clock publishes in ", options.clock_page);
  signal(SIGPIPE, SIG_IGN);
  options.session.listener = listen_on(&options.port);
  if (options.session.listener < 0) {
    fprintf(stderr, "tilefleet-agent: cannot listen on port %d: %s\n", options.port, strerror(errno));
    return 1;
  }
  printf("%d\n", options.port);
  fflush(stdout);
  for (;;) {
    int client = accept4(options.session.listener, NULL, NULL, SOCK_CLOEXEC), on = 1;
    if (client < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) usleep(10000);
      continue;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    session_run(client, &options.session);
  }
}
