"""Reading models: a file, whatever its form, becomes a graph partitioned into what is tuned and the rest."""
