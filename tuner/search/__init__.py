"""The search for one workload, and who gets the next trials."""
