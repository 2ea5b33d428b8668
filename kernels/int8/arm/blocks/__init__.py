"""Micro-kernels of integer matrix products on Arm: a block of sums in registers, a kind a file."""
