#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef union {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} Address;

void connection_tune(int fd) {
  enum { IDLE_S = 4, INTERVAL_S = 2, COUNT = 3, UNANSWERED_MS = 10000 };
  static const struct {
    int level, option, value;
  } wanted[] = {{IPPROTO_TCP, TCP_NODELAY, 1},          {SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},    {IPPROTO_TCP, TCP_KEEPINTVL, INTERVAL_S},
                {IPPROTO_TCP, TCP_KEEPCNT, COUNT},      {IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    setsockopt(fd, wanted[i].level, wanted[i].option, &wanted[i].value, sizeof wanted[i].value);
}

static int read_address(const char *text, int port, Address *address) {
  memset(address, 0, sizeof *address);
  if (inet_pton(AF_INET, text, &address->four.sin_addr) == 1) {
    address->four.sin_family = AF_INET;
    address->four.sin_port = htons((uint16_t)port);
    return 0;
  }
  if (inet_pton(AF_INET6, text, &address->six.sin6_addr) == 1) {
    address->six.sin6_family = AF_INET6;
    address->six.sin6_port = htons((uint16_t)port);
    return 0;
  }
  return -1;
}

static int is_loopback(const Address *address) {
  if (address->any.sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&address->six.sin6_addr);
  return ntohl(address->four.sin_addr.s_addr) >> 24 == 127;
}

/* A listening socket; `address` receives the port. */
static int listen_on(Address *address) {
  int on = 1, fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  socklen_t length = address->any.sa_family == AF_INET6 ? sizeof address->six : sizeof address->four;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, &address->any, length) || listen(fd, 16) || getsockname(fd, &address->any, &length)) return -1;
  return fd;
}

_Noreturn void listen_serve(const char *text, int port, SessionOptions *options) {
  Address address;
  if (read_address(text, port, &address)) {
    fprintf(stderr, "tilefleet-agent: not a numeric address: %s\n", text);
    exit(2);
  }
  if (!is_loopback(&address) && !options->token) {
    fprintf(stderr,
            "tilefleet-agent: will not listen on %s without --token-file: whoever can connect can run any code\n",
            text);
    exit(2);
  }
  options->listener = listen_on(&address);
  if (options->listener < 0) {
    fprintf(stderr, "tilefleet-agent: cannot listen on %s port %d: %s\n", text, port, strerror(errno));
    exit(1);
  }
  int six = address.any.sa_family == AF_INET6;
  printf("%d\n", ntohs(six ? address.six.sin6_port : address.four.sin_port));
  fflush(stdout);
  for (;;) {
    int client = accept4(options->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) usleep(10000);
      continue;
    }
    connection_tune(client);
    session_run(client, options);
  }
}
