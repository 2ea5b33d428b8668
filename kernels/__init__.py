"""Kernel generators: pure functions from (workload, config, target) to TIR."""
