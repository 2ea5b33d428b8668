"""Boards: the devices that run candidates."""
