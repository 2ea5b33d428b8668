"""A depthwise convolution beside a pointwise one, the result between them never whole in memory."""
