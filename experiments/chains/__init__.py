"""Chains of look-ups, each written down: the paper's regime, where the belief is not flat."""
