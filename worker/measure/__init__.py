"""Checking and timing candidates on a board."""
