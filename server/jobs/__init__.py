"""Jobs: creating, running, following."""
