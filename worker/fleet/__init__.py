"""Boards and who may use them."""
