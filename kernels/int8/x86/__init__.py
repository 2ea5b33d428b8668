"""Quantized kernels for x86."""
