"""Shapes are inferred, and constants computed."""
