"""Log lines that are wrong in every way, against the running product."""
