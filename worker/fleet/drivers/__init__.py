"""Kinds of board: how each is started, reached and watched."""
