"""Depthwise convolution of bytes."""
