"""Checkpoints that resume exactly, and the folder that a run writes."""
