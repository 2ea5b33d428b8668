#include "dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "listen.h"
#include "proof.h"
#include "token.h"
#include "wire.h"

enum { NONCE_BYTES = 16, MAX_LINE = 256, PATIENCE_MS = 10000, FIRST_PAUSE_MS = 100, LONGEST_PAUSE_MS = 5000 };

/* Say what is going on, once for each time it changes: this goes on for ever. */
static void say(const char *format, ...) {
  static char last[MAX_LINE + 64];
  char text[sizeof last];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (!strcmp(text, last)) return;
  memcpy(last, text, sizeof last);
  fprintf(stderr, "tilefleet-agent: %s\n", text);
}

const char *dial_split(char *where) {
  char *colon = strrchr(where, ':');
  if (!colon || colon == where || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1)) return NULL;
  *colon = 0;
  return colon + 1;
}

static int connect_within(const struct addrinfo *to) {
  int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  struct pollfd watched = {.fd = fd, .events = POLLOUT};
  int problem = 0;
  socklen_t length = sizeof problem;
  if (connect(fd, to->ai_addr, to->ai_addrlen)) problem = errno;
  if (problem == EINPROGRESS) {
    if (poll(&watched, 1, PATIENCE_MS) != 1) problem = ETIMEDOUT;
    else getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  if (problem) {
    close(fd);
    errno = problem;
    return -1;
  }
  fcntl(fd, F_SETFL, 0);
  connection_tune(fd);
  return fd;
}

/* A connection to the gateway; -1 after saying why there is none. */
static int connect_to(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  char plain[MAX_LINE];
  snprintf(plain, sizeof plain, "%s", *host == '[' ? host + 1 : host);
  if (*host == '[') plain[strcspn(plain, "]")] = 0;
  int problem = getaddrinfo(plain, port, &hints, &found), fd = -1;
  if (problem) {
    say("cannot find %s: %s", host, gai_strerror(problem));
    return -1;
  }
  for (struct addrinfo *to = found; to && fd < 0; to = to->ai_next) fd = connect_within(to);
  if (fd < 0) say("cannot reach %s port %s: %s", host, port, strerror(errno));
  freeaddrinfo(found);
  return fd;
}

/* Read a line without reading past its end, where the client's bytes may follow; -1 when there is none within
 * ten seconds. The gateway sends one at least every few seconds. */
static int read_line(int fd, char line[MAX_LINE]) {
  double deadline = clock_seconds() + PATIENCE_MS / 1e3;
  for (int length = 0; length < MAX_LINE - 1;) {
    double left_ms = (deadline - clock_seconds()) * 1e3;
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    if (left_ms <= 0 || poll(&watched, 1, (int)left_ms + 1) != 1 || recv(fd, line + length, 1, 0) != 1) return -1;
    if (line[length] == '\n') {
      line[length] = 0;
      return 0;
    }
    length++;
  }
  return -1;
}

static int write_line(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int write_line(int fd, const char *format, ...) {
  char line[MAX_LINE];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(line, sizeof line - 1, format, values);
  va_end(values);
  if (length < 0 || length >= (int)sizeof line - 1) return -1;
  line[length++] = '\n';
  return socket_write(fd, line, (size_t)length);
}

static void make_proof(const char *token, const char *role, const char *id, const char *theirs, const char *ours,
                       char proof[PROOF_TEXT]) {
  char text[2 * MAX_LINE];
  snprintf(text, sizeof text, "tilefleet 1 %s %s %s %s", role, id, theirs, ours);
  proof_make(token, text, proof);
}

/* Prove that we know the token and see that the gateway does; -1 after saying what went wrong. */
static int introduce(int fd, const char *id, const char *token) {
  unsigned char random[NONCE_BYTES];
  char ours[2 * NONCE_BYTES + 1], line[MAX_LINE], proof[PROOF_TEXT];
  if (getrandom(random, sizeof random, 0) != sizeof random) return -1;
  proof_hex(random, sizeof random, ours);
  if (write_line(fd, "tilefleet-agent 1 %s %s", id, ours) || read_line(fd, line)) goto silent;
  if (!strncmp(line, "prove ", 6)) {
    char theirs[MAX_LINE];
    strcpy(theirs, line + 6);
    make_proof(token, "agent", id, theirs, ours, proof);
    if (write_line(fd, "proof %s", proof) || read_line(fd, line)) goto silent;
    make_proof(token, "gateway", id, theirs, ours, proof);
    if (!strncmp(line, "welcome ", 8) && token_equal(proof, line + 8)) return 0;
  }
  if (!strncmp(line, "no ", 3)) say("refused: %s", line + 3);
  else say("refused to serve: the other side is no gateway that knows the token");
  return -1;
silent:
  say("the gateway hung up or did not answer");
  return -1;
}

/* Wait for a session; 0 when there is one, -1 when the gateway has gone. */
static int await_session(int fd) {
  char line[MAX_LINE];
  while (!read_line(fd, line)) {
    if (!strcmp(line, "session")) return write_line(fd, "ready");
    if (strcmp(line, "ping") || write_line(fd, "pong")) break;
  }
  say("the gateway has gone");
  return -1;
}

_Noreturn void dial_serve(const char *host, const char *port, const char *token, SessionOptions *options) {
  options->listener = -1;
  for (unsigned pause_ms = 0;;) {
    usleep(pause_ms * 1000);
    int fd = connect_to(host, port);
    if (fd >= 0 && !introduce(fd, options->key, token)) {
      say("board %s is connected to %s port %s", options->key, host, port);
      if (!await_session(fd)) {
        session_run(fd, options);
        pause_ms = 0;
        continue;
      }
      pause_ms = 0;
    }
    if (fd >= 0) close(fd);
    pause_ms = pause_ms ? pause_ms * 2 : FIRST_PAUSE_MS;
    if (pause_ms > LONGEST_PAUSE_MS) pause_ms = LONGEST_PAUSE_MS;
  }
}
