/* The symbols that a candidate may import: TVM's C backend interface, libm and mem*. */
#ifndef TILEFLEET_EXPORTS_H
#define TILEFLEET_EXPORTS_H

/* The address of an offered symbol, or NULL. */
void *export_find(const char *name);

#endif
