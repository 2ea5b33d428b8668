"""Quantized convolution as a matrix product of windows and filters."""
