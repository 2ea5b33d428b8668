/* The serving side of TVM's RPC protocol. */
#ifndef TILEFLEET_RPC_H
#define TILEFLEET_RPC_H

/* Serve a connected client, handshake already done, until it leaves. */
_Noreturn void rpc_serve(int fd);

#endif
