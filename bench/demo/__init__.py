"""The main job in one go, for a first look."""
