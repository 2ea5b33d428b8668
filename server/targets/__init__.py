"""Targets: what can be tuned for."""
