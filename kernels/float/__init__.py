"""Float kernels, a folder a family."""
