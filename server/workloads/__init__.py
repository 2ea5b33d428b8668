"""One workload and all that was measured of it."""
