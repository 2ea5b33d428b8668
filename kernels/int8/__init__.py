"""Quantized kernels, a folder an instruction set, and what they share."""
