"""What a generated kernel does, read from its loops and its assembly."""
