"""What libraries take for a workload, to hold ours against."""
