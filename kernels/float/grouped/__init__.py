"""Grouped convolution."""
