"""Disposable child processes."""
