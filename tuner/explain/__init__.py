"""What a config does to a workload, for people."""
