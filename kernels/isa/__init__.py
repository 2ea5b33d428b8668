"""Instruction sets, a file each: what follows from a target's triple."""
