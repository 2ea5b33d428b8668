"""Building candidates and timing them on boards."""
