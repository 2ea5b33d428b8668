"""Winograd convolution for tiles and filters of many sizes."""
