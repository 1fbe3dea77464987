"""Evaluation of checkpoints, and analyses of the responses they gave."""
