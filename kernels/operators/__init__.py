"""What a model computes besides products, generated like kernels."""
