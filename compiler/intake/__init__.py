"""What becomes of a file before it is a model: put together, read, and tried."""
