"""What quantized code takes of HVX, Hexagon's vector unit."""
