"""Two convolutions computed slice by slice: what chains of floats and of integers share (seed 004)."""
