"""Checks of whether a model can be scored along trees."""
