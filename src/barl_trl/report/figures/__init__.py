"""Figures, drawn from JSON files."""
