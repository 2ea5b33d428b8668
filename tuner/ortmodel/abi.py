"""What of onnxruntime's C interface a library of operators uses, declared in our own words.

The interface is a table of functions whose places never change, as later versions add behind the last; so
what was built once works with all later versions. The version asked for is the first in which an operator can
fail with a text.
"""

from __future__ import annotations

VERSION = 16
"""Of the interface, which is that of onnxruntime 1.16."""
WITH_THREADS = 17
"""From this one on, an operator may use onnxruntime's threads."""
ELEMENT_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
}
"""The number of each type of elements, which ONNX and onnxruntime share."""

DECLARATIONS = f"""\
#include <stddef.h>
#include <stdint.h>

enum {{ OLDEST_VERSION = {VERSION}, WITH_THREADS = {WITH_THREADS} }};
enum {{ FAILED = 1, BAD_ARGUMENT = 2, NOT_HERE = 9 }};

typedef struct OrtStatus OrtStatus;
typedef struct OrtDomain OrtDomain;
typedef struct OrtOptions OrtOptions;
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape;
typedef struct OrtInfo OrtInfo;
typedef struct OrtContext OrtContext;
typedef struct OrtOperator OrtOperator;
typedef void (*Unused)(void);

/* The table of functions; a status that is null is good. */
typedef struct OrtApi {{
  OrtStatus *(*new_status)(int code, const char *text);
  Unused from_1[25];
  OrtStatus *(*new_domain)(const char *name, OrtDomain **made);
  OrtStatus *(*add_operator)(OrtDomain *domain, const OrtOperator *added);
  OrtStatus *(*add_domain)(OrtOptions *options, OrtDomain *added);
  Unused from_29[22];
  OrtStatus *(*data_of)(OrtValue *value, void **data);
  Unused from_52[9];
  OrtStatus *(*axes_of)(const OrtShape *shape, size_t *axes);
  OrtStatus *(*extents_of)(const OrtShape *shape, int64_t *extents, size_t axes);
  Unused from_63[2];
  OrtStatus *(*shape_of)(const OrtValue *value, OrtShape **shape);
  Unused from_66[24];
  OrtStatus *(*input)(const OrtContext *context, size_t index, const OrtValue **value);
  OrtStatus *(*output)(OrtContext *context, size_t index, const int64_t *extents, size_t axes,
                       OrtValue **value);
  Unused from_92[1];
  void (*free_status)(OrtStatus *status);
  Unused from_94[4];
  Unused from_98[1];
  void (*free_shape)(OrtShape *shape);
  Unused from_100[1];
  void (*free_domain)(OrtDomain *domain);
  Unused from_102[172];
  OrtStatus *(*parallel_for)(const OrtContext *context, void (*task)(void *data, size_t index), size_t count,
                             size_t batches, void *data);
}} OrtApi;

_Static_assert(offsetof(OrtApi, add_domain) == 28 * sizeof(Unused), "a place in the table");
_Static_assert(offsetof(OrtApi, data_of) == 51 * sizeof(Unused), "a place in the table");
_Static_assert(offsetof(OrtApi, output) == 91 * sizeof(Unused), "a place in the table");
_Static_assert(offsetof(OrtApi, free_domain) == 101 * sizeof(Unused), "a place in the table");
_Static_assert(offsetof(OrtApi, parallel_for) == 274 * sizeof(Unused), "a place in the table");

typedef struct {{
  const OrtApi *(*api)(uint32_t version);
  const char *(*version)(void);
}} OrtApiBase;

/* An operator: the version says how much of this onnxruntime reads. */
struct OrtOperator {{
  uint32_t version;
  void *(*new_kernel_without_status)(const OrtOperator *self, const OrtApi *api, const OrtInfo *info);
  const char *(*name)(const OrtOperator *self);
  const char *(*provider)(const OrtOperator *self);
  int (*input_type)(const OrtOperator *self, size_t index);
  size_t (*inputs)(const OrtOperator *self);
  int (*output_type)(const OrtOperator *self, size_t index);
  size_t (*outputs)(const OrtOperator *self);
  void (*compute_without_status)(void *kernel, OrtContext *context);
  void (*free_kernel)(void *kernel);
  int (*input_kind)(const OrtOperator *self, size_t index);
  int (*output_kind)(const OrtOperator *self, size_t index);
  int (*input_memory)(const OrtOperator *self, size_t index);
  int (*least_inputs)(const OrtOperator *self);
  int (*inputs_alike)(const OrtOperator *self);
  int (*least_outputs)(const OrtOperator *self);
  int (*outputs_alike)(const OrtOperator *self);
  OrtStatus *(*new_kernel)(const OrtOperator *self, const OrtApi *api, const OrtInfo *info, void **kernel);
  OrtStatus *(*compute)(void *kernel, OrtContext *context);
}};
"""
"""C; what of the structures is not used is there for the places of what is."""
