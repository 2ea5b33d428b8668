"""What a board takes for its memory and its instructions, measured with kernels of our own."""
