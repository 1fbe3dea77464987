"""Checkpoints that resume exactly, and the output folder of a run."""
