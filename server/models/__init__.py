"""Uploaded models."""
