"""From a config to an object file, in a child."""
