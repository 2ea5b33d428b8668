/* Serving a coordinator that cannot connect to the board: the board connects to its gateway
 * (worker/fleet/drivers/gateway.py) and keeps a connection there for the next session. */
#ifndef TILEFLEET_DIAL_H
#define TILEFLEET_DIAL_H

#include "session.h"

/* Cut HOST:PORT, or [HOST]:PORT, at its colon and return the port; NULL when it is not like that. */
const char *dial_split(char *where);

/* Serve the gateway at `host` (a name or an address) and `port` for ever, whatever happens to it. */
_Noreturn void dial_serve(const char *host, const char *port, const char *token, SessionOptions *options);

#endif
