"""The graph of a model: nodes, tensors, products, names, and checks of what a file says."""
