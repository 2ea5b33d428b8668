"""Tuning records: saving, reading, importing, logs."""
