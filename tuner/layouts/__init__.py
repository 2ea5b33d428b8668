"""In which layout each tensor of a model lies: the prices of conversions and the cheapest plan."""
