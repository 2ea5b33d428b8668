"""Every operator on NaN, infinities, zeros of both signs and the smallest and largest numbers."""
