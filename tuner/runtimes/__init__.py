"""Other runtimes beside ours: each loads a model, runs it, and is timed in turns with the rest."""
