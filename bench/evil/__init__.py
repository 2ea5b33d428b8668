"""Boards that lie in chosen ways, in a lab with an honest one: ``python -m bench.evil``."""
