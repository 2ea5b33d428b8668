"""If, Loop, Scan and sequences, which become plain nodes before anything else reads a model."""
