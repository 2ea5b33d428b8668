"""A built model as a C library: no TVM, no memory of its own, one function to call."""
