"""Depthwise convolution along rows."""
