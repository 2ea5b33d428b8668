#include "rpc.h"

#include <string.h>
#include <unistd.h>

#include "error.h"
#include "functions.h"
#include "reply.h"
#include "tensors.h"
#include "values.h"
#include "wire.h"

static const char PROTOCOL[] = "0.8.0";

/* Every handler reads its packet, answers and returns 0; or it returns -1 with a pending error, which the
 * loop sends as an exception. */

static int init_server(void) {
  char version[16] = "";
  uint64_t length = wire_u64();
  if (length >= sizeof version) wire_fatal("protocol: a version of %llu letters", (unsigned long long)length);
  wire_read(version, (size_t)length);
  Value *args;
  int32_t count = values_read(&args);
  if (strcmp(version, PROTOCOL))
    wire_fatal("this board speaks TVM RPC protocol %s, the client %s", PROTOCOL, version);
  if (count && (args[0].type != TYPE_STRING || strcmp(args[0].string, "rpc.LocalSession")))
    wire_fatal("this board has no other session constructor than rpc.LocalSession");
  reply_plain_none();
  return 0;
}

static int call(void) {
  uint64_t handle = wire_u64();
  Value *args;
  int32_t count = values_read(&args);
  return function_call(handle, args, count);
}

static int copy_from_remote(void) {
  const Tensor *tensor = tensor_read();
  uint64_t bytes = wire_u64();
  const char *data = tensors_at(tensor, bytes);
  if (!data) return -1;
  reply_begin(CODE_COPY_ACK);
  reply_send_with(data, (size_t)bytes);
  return 0;
}

static int copy_to_remote(void) {
  const Tensor *tensor = tensor_read();
  uint64_t bytes = wire_u64();
  char *data = tensors_at(tensor, bytes);
  if (!data) return -1;
  wire_read(data, (size_t)bytes);
  reply_plain_none();
  return 0;
}

static int get_global(const Value *args) {
  BoardFunction function = function_find(args[0].string);
  uint64_t handle = 0;
  if (function && !(handle = handle_new((Object){.kind = OBJECT_BOARD_FUNCTION, .board_function = function})))
    return -1;
  reply_plain_pointer(handle); /* 0 tells the client that there is no such function */
  return 0;
}

static int allocate(Device device, uint64_t bytes, uint64_t alignment) {
  if (device.type != DEVICE_CPU) return error_set("this board has no device of type %d, only cpu", device.type);
  void *data = tensors_allocate(bytes, alignment);
  if (!data) return -1;
  reply_plain_pointer((uintptr_t)data);
  return 0;
}

static int copy_among(const Tensor *from, const Tensor *to) {
  size_t bytes = tensor_bytes(from);
  if (tensor_bytes(to) != bytes) return error_set("copy between tensors of different sizes");
  const char *source = tensors_at(from, bytes);
  char *target = tensors_at(to, bytes);
  if (!source || !target) return -1;
  memmove(target, source, bytes);
  reply_plain_none();
  return 0;
}

/* The arguments of a request, one letter each: s string, p pointer, i integer, d device, t tensor, * any. */
static const char *signature(int32_t code) {
  switch (code) {
    case CODE_GET_GLOBAL: return "s";
    case CODE_FREE_HANDLE: return "p";
    case CODE_SET_DEVICE: return "d";
    case CODE_GET_ATTRIBUTE: return "di";
    case CODE_ALLOC: return "dii";
    case CODE_FREE: return "dp";
    case CODE_SYNC_STREAM: return "d*";
    case CODE_COPY_AMONG_REMOTE: return "tt";
    case CODE_ALLOC_WITH_SCOPE: return "t*";
    case CODE_CREATE_STREAM: return "d";
    case CODE_FREE_STREAM: return "d*";
    case CODE_SET_STREAM: return "d*";
    case CODE_CURRENT_STREAM: return "d";
    default: return NULL;
  }
}

static int type_of(char letter) {
  switch (letter) {
    case 's': return TYPE_STRING;
    case 'p': return TYPE_POINTER;
    case 'i': return TYPE_INT;
    case 'd': return TYPE_DEVICE;
    default: return TYPE_TENSOR;
  }
}

static int request(int32_t code) {
  enum { ATTRIBUTE_EXISTS = 0 };
  const char *kinds = signature(code);
  if (!kinds) wire_fatal("protocol: unknown request code %d", code);
  Value *args;
  int32_t count = values_read(&args);
  if (count < (int32_t)strlen(kinds)) wire_fatal("protocol: request %d with %d arguments", code, count);
  for (int i = 0; kinds[i]; i++)
    if (kinds[i] != '*' && args[i].type != type_of(kinds[i]))
      wire_fatal("protocol: request %d with an argument %d of type %d", code, i, args[i].type);
  switch (code) {
    case CODE_GET_GLOBAL:
      return get_global(args);
    case CODE_FREE_HANDLE:
      if (handle_release((uintptr_t)args[0].p)) return -1;
      break;
    case CODE_GET_ATTRIBUTE:
      reply_plain_int(args[1].i == ATTRIBUTE_EXISTS && args[0].device.type == DEVICE_CPU);
      return 0;
    case CODE_ALLOC:
      return allocate(args[0].device, (uint64_t)args[1].i, (uint64_t)args[2].i);
    case CODE_ALLOC_WITH_SCOPE:
      return allocate(args[0].tensor->device, tensor_bytes(args[0].tensor), 0);
    case CODE_FREE:
      if (tensors_free(args[1].p)) return -1;
      break;
    case CODE_COPY_AMONG_REMOTE:
      return copy_among(args[0].tensor, args[1].tensor);
    case CODE_CREATE_STREAM:
    case CODE_CURRENT_STREAM: /* a CPU has the null stream only */
      reply_plain_pointer(0);
      return 0;
    default: /* streams and the current device are fixed: nothing to do */
      break;
  }
  reply_plain_none();
  return 0;
}

static int handle_packet(int32_t code) {
  switch (code) {
    case CODE_SHUTDOWN: _exit(0);
    case CODE_INIT_SERVER: return init_server();
    case CODE_CALL: return call();
    case CODE_COPY_FROM_REMOTE: return copy_from_remote();
    case CODE_COPY_TO_REMOTE: return copy_to_remote();
    default: return request(code);
  }
}

_Noreturn void rpc_serve(int fd) {
  wire_open(fd);
  for (;;) {
    int32_t code = wire_next();
    error_clear();
    if (handle_packet(code)) {
      wire_skip();
      reply_exception(error_text());
    } else if (wire_left()) {
      wire_fatal("protocol: %llu bytes too many in a packet of code %d", (unsigned long long)wire_left(), code);
    }
    values_release();
  }
}
