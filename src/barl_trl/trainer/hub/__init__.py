"""Pushes to the Hub, the model card, and the redaction of secrets."""
