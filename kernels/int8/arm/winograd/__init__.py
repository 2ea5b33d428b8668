"""Exact Winograd in one dimension."""
