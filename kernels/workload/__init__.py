"""What is asked for: operator instances in canonical form."""
