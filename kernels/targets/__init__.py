"""Kinds of machines, a file an instruction set."""
