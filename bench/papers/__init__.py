"""Every claim of the five papers beside what this project reaches; ``python -m bench.papers``."""
