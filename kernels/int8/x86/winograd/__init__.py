"""Exact Winograd for 3x3 filters in int16."""
