/* Serving clients that connect to the board. */
#ifndef TILEFLEET_LISTEN_H
#define TILEFLEET_LISTEN_H

#include "session.h"

/* Listen on a numeric address and serve for ever; `port` 0 is any. Without a token no other address than the
 * loopback interface's will do. */
_Noreturn void listen_serve(const char *address, int port, SessionOptions *options);

/* Send what is written at once, and notice within ten seconds when the other machine has gone. */
void connection_tune(int fd);

#endif
