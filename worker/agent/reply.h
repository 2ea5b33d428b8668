/* Answers to calls: the value's type as an integer, then the value. */
#ifndef TILEFLEET_REPLY_H
#define TILEFLEET_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "values.h"

/* None. */
void reply_none(void);

/* A new module or function (TYPE_MODULE, TYPE_FUNCTION). */
void reply_handle(int32_t type, uint64_t handle);

void reply_string(const char *text);

void reply_bytes(const void *data, size_t bytes);

/* What a kernel returned: an integer, a truth value or a float; anything else as None. */
void reply_value(const Value *value);

/* Answers to the other requests are one plain value: none, a pointer, an integer. */
void reply_plain_none(void);
void reply_plain_pointer(uint64_t value);
void reply_plain_int(int64_t value);

#endif
