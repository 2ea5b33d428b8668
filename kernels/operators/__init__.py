"""What a model computes besides products by constant weights, generated like kernels."""
