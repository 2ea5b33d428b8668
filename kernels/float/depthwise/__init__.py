"""Depthwise convolution, by channels and by rows."""
