"""Order, unread nodes, outputs, functions, sparse constants and operator sets of a model."""
