#include "values.h"

#include <stdlib.h>

#include "wire.h"

enum { MAX_VALUES = 256, MAX_DIMENSIONS = 32, ARENA_BYTES = 16384, ARENA_ALIGNMENT = 4096 };

/* Where small values go: the arguments of a call lie the same way each time, whatever the heap looks like.
 * The times of a simulated board depend on that. */
static _Alignas(ARENA_ALIGNMENT) char arena[ARENA_BYTES];
static size_t arena_used;

/* What did not fit into the arena; freed together. */
typedef struct Block {
  struct Block *next;
  max_align_t data[];
} Block;

static Block *blocks;

static void *allocate(uint64_t bytes) {
  if (bytes <= ARENA_BYTES - arena_used) {
    void *value = arena + arena_used;
    size_t whole = ((size_t)bytes + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    arena_used = whole < ARENA_BYTES - arena_used ? arena_used + whole : ARENA_BYTES;
    return value;
  }
  Block *block = bytes > SIZE_MAX / 2 ? NULL : malloc(sizeof *block + (size_t)bytes);
  if (!block) wire_fatal("out of memory: cannot take a value of %llu bytes", (unsigned long long)bytes);
  block->next = blocks;
  blocks = block;
  return block->data;
}

void values_release(void) {
  arena_used = 0;
  while (blocks) {
    Block *next = blocks->next;
    free(blocks);
    blocks = next;
  }
}

/* A length, checked against what the packet still holds before anything is allocated for it. */
static uint64_t read_length(void) {
  uint64_t length = wire_u64();
  if (length > wire_left())
    wire_fatal("protocol: a value of %llu bytes in a packet with %llu left", (unsigned long long)length,
               (unsigned long long)wire_left());
  return length;
}

static void read_string(Value *value) {
  uint64_t length = read_length();
  char *text = allocate(length + 1);
  wire_read(text, (size_t)length);
  text[length] = 0;
  value->type = TYPE_STRING;
  value->string = text;
}

static void read_bytes(Value *value) {
  uint64_t length = read_length();
  Bytes *bytes = allocate(sizeof *bytes);
  char *data = allocate(length);
  wire_read(data, (size_t)length);
  bytes->data = data;
  bytes->size = (size_t)length;
  value->type = TYPE_BYTES;
  value->bytes = bytes;
}

Tensor *tensor_read(void) {
  Tensor *tensor = allocate(sizeof *tensor);
  tensor->data = (void *)(uintptr_t)wire_u64();
  wire_read(&tensor->device, sizeof tensor->device);
  tensor->ndim = wire_i32();
  wire_read(&tensor->code, 1);
  wire_read(&tensor->bits, 1);
  wire_read(&tensor->lanes, 2);
  if (tensor->ndim < 0 || tensor->ndim > MAX_DIMENSIONS)
    wire_fatal("protocol: a tensor of %d dimensions", tensor->ndim);
  size_t shape_bytes = (size_t)tensor->ndim * sizeof *tensor->shape;
  tensor->shape = allocate(shape_bytes);
  wire_read(tensor->shape, shape_bytes);
  tensor->strides = NULL; /* always compact */
  tensor->byte_offset = wire_u64();
  return tensor;
}

size_t tensor_bytes(const Tensor *tensor) {
  size_t bytes = ((size_t)tensor->bits * tensor->lanes + 7) / 8;
  for (int32_t i = 0; i < tensor->ndim; i++)
    if (tensor->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)tensor->shape[i], &bytes))
      wire_fatal("protocol: a tensor with an impossible dimension %lld", (long long)tensor->shape[i]);
  return bytes;
}

static void read_value(Value *value) {
  *value = (Value){.type = wire_i32()};
  switch (value->type) {
    case TYPE_NONE:
      return;
    case TYPE_INT:
    case TYPE_BOOL:
    case TYPE_FLOAT:
    case TYPE_FUNCTION:
    case TYPE_MODULE:
      wire_read(&value->i, 8);
      return;
    case TYPE_POINTER:
      value->p = (void *)(uintptr_t)wire_u64();
      return;
    case TYPE_DTYPE:
    case TYPE_DEVICE:
      wire_read(&value->device, 8);
      return;
    case TYPE_TENSOR:
      value->tensor = tensor_read();
      return;
    case TYPE_STRING:
      read_string(value);
      return;
    case TYPE_BYTES:
      read_bytes(value);
      return;
    case TYPE_SMALL_STRING:
    case TYPE_SMALL_BYTES:
    case TYPE_STRING_OBJECT:
    case TYPE_BYTES_OBJECT: { /* sent as one tagged form */
      int32_t tag = wire_i32();
      if (tag == TYPE_STRING_OBJECT) read_string(value);
      else if (tag == TYPE_BYTES_OBJECT) read_bytes(value);
      else wire_fatal("protocol: object type %d cannot be sent to this board", tag);
      return;
    }
    default:
      wire_fatal("protocol: value type %d cannot be sent to this board", value->type);
  }
}

int32_t values_read(Value **values) {
  int32_t count = wire_i32();
  if (count < 0 || count > MAX_VALUES) wire_fatal("protocol: %d values in one packet", count);
  *values = allocate((uint64_t)count * sizeof **values);
  for (int32_t i = 0; i < count; i++) read_value(*values + i);
  return count;
}
