"""Direct convolution with filters resident in L1."""
