"""Loops for what no kernel family computes."""
