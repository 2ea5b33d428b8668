"""Functions such as exp and erf as arithmetic that vectorises, in place of calls of libm."""
