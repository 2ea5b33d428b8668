#include "reply.h"

#include <string.h>

#include "wire.h"

static void begin_call(int32_t type) {
  reply_begin(CODE_RETURN);
  reply_i32(2);
  reply_i32(TYPE_INT);
  reply_u64((uint64_t)type);
}

void reply_none(void) {
  begin_call(TYPE_NONE);
  reply_i32(TYPE_NONE);
  reply_send();
}

void reply_handle(int32_t type, uint64_t handle) {
  begin_call(type);
  reply_i32(TYPE_POINTER);
  reply_u64(handle);
  reply_send();
}

void reply_string(const char *text) {
  begin_call(TYPE_STRING_OBJECT);
  reply_i32(TYPE_STRING);
  reply_u64(strlen(text));
  reply_put(text, strlen(text));
  reply_send();
}

void reply_bytes(const void *data, size_t bytes) {
  begin_call(TYPE_BYTES_OBJECT);
  reply_i32(TYPE_BYTES);
  reply_u64(bytes);
  reply_send_with(data, bytes);
}

void reply_value(const Value *value) {
  if (value->type != TYPE_INT && value->type != TYPE_BOOL && value->type != TYPE_FLOAT) {
    reply_none();
    return;
  }
  begin_call(value->type);
  reply_i32(value->type);
  reply_u64((uint64_t)value->i);
  reply_send();
}

static void begin_plain(int32_t type) {
  reply_begin(CODE_RETURN);
  reply_i32(1);
  reply_i32(type);
}

void reply_plain_none(void) {
  begin_plain(TYPE_NONE);
  reply_send();
}

void reply_plain_pointer(uint64_t value) {
  begin_plain(TYPE_POINTER);
  reply_u64(value);
  reply_send();
}

void reply_plain_int(int64_t value) {
  begin_plain(TYPE_INT);
  reply_u64((uint64_t)value);
  reply_send();
}
