"""Mistakes of a user, said before a model is loaded."""
