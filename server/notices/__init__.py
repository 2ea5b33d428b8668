"""Telling operators what happened while they looked elsewhere."""
