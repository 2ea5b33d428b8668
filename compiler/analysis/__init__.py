"""What is known of a graph without a change: ranges of integers, geometry, operations."""
