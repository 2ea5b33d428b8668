"""Attention: two products with a Softmax between them, block of rows by block of rows."""
