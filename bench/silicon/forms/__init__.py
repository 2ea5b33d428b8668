"""The assembly of each measured instruction: a file for each kind, by the sections of the table."""
