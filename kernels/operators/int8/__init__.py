"""Quantized operators besides products."""
