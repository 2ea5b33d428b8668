/* One client's session: a forked child that serves it, and a parent that sees to its end. */
#ifndef TILEFLEET_SESSION_H
#define TILEFLEET_SESSION_H

#include <stdint.h>

typedef struct {
  const char *key;       /* the board's name; clients that name another one are refused; "" takes any */
  const char *token;     /* NULL, or what clients have to know */
  int threads;           /* 0: one a CPU of the affinity mask */
  uint64_t memory_bytes; /* limit of a session's address space */
  int listener;          /* the agent's socket, which a session must not keep; -1 for none */
} SessionOptions;

/* Shake hands with a client that has just connected, serve it to the end and close `fd`. Whatever the
 * candidate does, this returns: at the latest when the session's timeout is over or the client has gone.
 * The client is told why its session ended. */
void session_run(int fd, const SessionOptions *options);

#endif
