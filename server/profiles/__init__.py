"""A model run whole on a board of the fleet."""
