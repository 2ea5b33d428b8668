"""What differs between instruction sets."""
