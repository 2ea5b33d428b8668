"""The whole product as real processes, and faults of every kind under it; tests use its parts."""
