/* The device memory of remote tensors. Clients name it by address; every use is checked against what was
 * allocated, so that a client's mistake is an error and not a wild access. */
#ifndef TILEFLEET_TENSORS_H
#define TILEFLEET_TENSORS_H

#include <stdint.h>

#include "values.h"

/* Allocate, aligned to at least 128 bytes; NULL and a pending error without memory. */
void *tensors_allocate(uint64_t bytes, uint64_t alignment);

/* Free what tensors_allocate gave; 0, or -1 and a pending error for any other address. */
int tensors_free(void *data);

/* The address of the tensor's first element when `bytes` from there lie within one allocation, else NULL
 * and a pending error. */
char *tensors_at(const Tensor *tensor, uint64_t bytes);

#endif
