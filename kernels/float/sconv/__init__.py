"""SConv: direct convolution over tiles of the input that the slicing analysis sizes for the caches."""
