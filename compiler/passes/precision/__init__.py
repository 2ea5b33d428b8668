"""Floats of 16 bits and weights of few bits."""
