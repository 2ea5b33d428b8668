"""Quantized kernels for Arm."""
