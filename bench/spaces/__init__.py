"""Whole search spaces, every point of each measured, and search strategies scored on them."""
