"""Depthwise quantized convolution by HVX, along runs of 128 bytes of columns and channels."""
