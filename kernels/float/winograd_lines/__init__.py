"""Minimal filtering along lines: Winograd's algorithm for filters of one row or one column."""
