"""Sums with written partial sums: the paper's regime, where the model's belief is not flat."""
