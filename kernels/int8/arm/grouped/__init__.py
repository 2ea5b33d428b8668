"""Quantized grouped convolution."""
