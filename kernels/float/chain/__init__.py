"""Two float convolutions, slice by slice."""
