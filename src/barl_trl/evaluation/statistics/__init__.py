"""Figures from graded responses."""
