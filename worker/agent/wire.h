/* Packets of TVM's RPC protocol over the session's socket.
 *
 * A packet is a u64 length, then that many bytes: an i32 code and what belongs to it, little-endian.
 * A session process serves one connection, so the state is the module's own. Reading past a packet's end
 * or any other breach of the protocol ends the session with a message (wire_fatal); a client that has
 * gone ends it silently. */
#ifndef TILEFLEET_WIRE_H
#define TILEFLEET_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Codes of protocol 0.8.0 (tvm/src/runtime/rpc/minrpc/rpc_reference.h). */
enum {
  CODE_SHUTDOWN = 1,
  CODE_INIT_SERVER,
  CODE_CALL,
  CODE_RETURN,
  CODE_EXCEPTION,
  CODE_COPY_FROM_REMOTE,
  CODE_COPY_TO_REMOTE,
  CODE_COPY_ACK,
  CODE_GET_GLOBAL,
  CODE_FREE_HANDLE,
  CODE_SET_DEVICE,
  CODE_GET_ATTRIBUTE,
  CODE_ALLOC,
  CODE_FREE,
  CODE_SYNC_STREAM,
  CODE_COPY_AMONG_REMOTE,
  CODE_ALLOC_WITH_SCOPE,
  CODE_CREATE_STREAM,
  CODE_FREE_STREAM,
  CODE_SET_STREAM,
  CODE_CURRENT_STREAM,
};

/* Write exactly `bytes` bytes to a socket; -1 when that fails. */
int socket_write(int fd, const void *data, size_t bytes);

/* Write a packet that makes the client raise RPCError with this message. */
int socket_write_exception(int fd, const char *message);

/* Serve this connected socket. */
void wire_open(int fd);

/* Wait for the next packet and return its code. */
int32_t wire_next(void);

/* Read from the packet. */
void wire_read(void *data, size_t bytes);
int32_t wire_i32(void);
uint64_t wire_u64(void);

/* Bytes of the packet not read yet. */
uint64_t wire_left(void);

/* Read and drop the rest of the packet. */
void wire_skip(void);

/* Build an answer: begin, put, send. */
void reply_begin(int32_t code);
void reply_put(const void *data, size_t bytes);
void reply_i32(int32_t value);
void reply_u64(uint64_t value);
void reply_send(void);

/* Send the head of an answer that ends with `bytes` of `data`, without copying them. */
void reply_send_with(const void *data, size_t bytes);

/* Answer with an exception. */
void reply_exception(const char *message);

/* Tell the client why and end the session. */
_Noreturn void wire_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
