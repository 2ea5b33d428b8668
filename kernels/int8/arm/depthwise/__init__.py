"""Quantized depthwise convolution."""
