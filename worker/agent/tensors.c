#include "tensors.h"

#include <stdlib.h>

#include "error.h"
#include "simulation.h"

enum { MIN_ALIGNMENT = 128 };

typedef struct {
  char *data;
  uint64_t bytes;
} Allocation;

static Allocation *allocations;
static size_t num_allocations, capacity;

void *tensors_allocate(uint64_t bytes, uint64_t alignment) {
  if (num_allocations == capacity) {
    size_t more = capacity * 2 + 16;
    Allocation *grown = realloc(allocations, more * sizeof *grown);
    if (!grown) return error_set("out of memory"), NULL;
    allocations = grown;
    capacity = more;
  }
  if (alignment < MIN_ALIGNMENT) alignment = MIN_ALIGNMENT;
  if (simulation_active() && alignment < SIMULATION_ALIGNMENT) alignment = SIMULATION_ALIGNMENT;
  void *data = NULL;
  if (bytes > SIZE_MAX / 2 || alignment > SIZE_MAX / 2 ||
      posix_memalign(&data, (size_t)alignment, bytes ? (size_t)bytes : 1))
    return error_set("out of memory: a tensor of %llu bytes", (unsigned long long)bytes), NULL;
  allocations[num_allocations++] = (Allocation){data, bytes};
  return data;
}

int tensors_free(void *data) {
  for (size_t i = 0; i < num_allocations; i++)
    if (allocations[i].data == data) {
      free(data);
      allocations[i] = allocations[--num_allocations];
      return 0;
    }
  return error_set("free of memory that is not a tensor's");
}

char *tensors_at(const Tensor *tensor, uint64_t bytes) {
  uintptr_t start = (uintptr_t)tensor->data;
  for (size_t i = 0; i < num_allocations; i++) {
    uintptr_t base = (uintptr_t)allocations[i].data;
    uint64_t size = allocations[i].bytes;
    if (start < base || start - base > size) continue;
    uint64_t left = size - (start - base);
    if (tensor->byte_offset <= left && bytes <= left - tensor->byte_offset)
      return (char *)tensor->data + tensor->byte_offset;
  }
  error_set("access of %llu bytes outside every tensor of the session", (unsigned long long)bytes);
  return NULL;
}
