"""Quantized convolution where an instruction adds four products of bytes to each of a vector's sums."""
