"""A quantized depthwise convolution beside a pointwise one on Arm, as one kernel."""
