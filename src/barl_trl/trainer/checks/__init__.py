"""Checks that find a user's mistakes before a model is loaded."""
