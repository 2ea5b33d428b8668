"""Building a whole model: kernels for its products, integer operators, TVM for the rest."""
