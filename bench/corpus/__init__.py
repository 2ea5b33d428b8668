"""Model files that others ship: what becomes of each of them here. ``python -m bench.corpus``."""
