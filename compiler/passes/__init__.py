"""The passes from a model to a graph of products. ``pipeline.py`` lists all of them in order."""
