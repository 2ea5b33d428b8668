"""Matrix products of packed weights."""
