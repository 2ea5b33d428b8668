/* Values of TVM's calling convention (tvm_ffi/include/tvm/ffi/c_api.h) and their form on the wire. */
#ifndef TILEFLEET_VALUES_H
#define TILEFLEET_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* TVMFFITypeIndex. */
enum {
  TYPE_NONE = 0,
  TYPE_INT = 1,
  TYPE_BOOL = 2,
  TYPE_FLOAT = 3,
  TYPE_POINTER = 4,
  TYPE_DTYPE = 5,
  TYPE_DEVICE = 6,
  TYPE_TENSOR = 7, /* DLTensor* */
  TYPE_STRING = 8, /* char*, ends with 0 */
  TYPE_BYTES = 9,  /* Bytes* */
  TYPE_SMALL_STRING = 11,
  TYPE_SMALL_BYTES = 12,
  TYPE_STRING_OBJECT = 65,
  TYPE_BYTES_OBJECT = 66,
  TYPE_FUNCTION = 68,
  TYPE_MODULE = 73,
};

typedef struct {
  int32_t type, id;
} Device;

enum { DEVICE_CPU = 1 };

/* DLTensor. */
typedef struct {
  void *data;
  Device device;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

/* TVMFFIByteArray. */
typedef struct {
  const char *data;
  size_t size;
} Bytes;

/* TVMFFIAny. Functions and modules that a client sends are handles (handles.h) in `i`. */
typedef struct {
  int32_t type;
  uint32_t padding;
  union {
    int64_t i;
    double f;
    void *p;
    const char *string;
    const Bytes *bytes;
    const Tensor *tensor;
    Device device;
  };
} Value;

/* TVMFFISafeCallType: what a compiled function looks like. */
typedef int (*PackedFunction)(void *self, const Value *args, int32_t num_args, Value *result);

/* Read a count and that many values from the packet. They live until values_release. */
int32_t values_read(Value **values);

/* Read a tensor's description from the packet; it lives until values_release. */
Tensor *tensor_read(void);

/* Size of a tensor's elements in bytes; ends the session when that overflows. */
size_t tensor_bytes(const Tensor *tensor);

/* Free all that was read since the last call. */
void values_release(void);

#endif
