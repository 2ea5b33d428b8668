"""The tuning log: records, the picks out of them, times of layout changes."""
