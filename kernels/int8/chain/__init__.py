"""Two quantized convolutions, slice by slice, on Hexagon's vectors."""
