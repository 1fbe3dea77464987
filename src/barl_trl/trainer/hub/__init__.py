"""Pushes to the Hub, the model card, and what neither may show."""
