"""Products of few rows by weights that stay narrow in memory."""
