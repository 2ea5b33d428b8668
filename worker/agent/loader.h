/* A small loader for candidates: position-independent ELF files, from memory, without dlopen.
 *
 * A static program has no dlopen, and a board may have no dynamic linker at all. Candidates are linked with
 * `ld.lld -shared -z now --hash-style=both`, have no constructors and no thread-local storage. */
#ifndef TILEFLEET_LOADER_H
#define TILEFLEET_LOADER_H

#include <stddef.h>
#include <stdint.h>

typedef struct Image Image;

/* Load `bytes` of `file` and bind its symbols to what exports.h offers. NULL and a pending error when the
 * file is damaged, of another machine, or wants something that is not there. */
Image *image_load(const uint8_t *file, size_t bytes);

/* The address of a symbol that the image defines, or NULL. */
void *image_symbol(const Image *image, const char *name);

void image_unload(Image *image);

#endif
