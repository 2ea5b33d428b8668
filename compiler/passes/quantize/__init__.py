"""Quantized models: integer products and operators found between QuantizeLinear and DequantizeLinear."""
