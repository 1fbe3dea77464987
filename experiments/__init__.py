"""Evidence that is run from a clone: `python -m experiments.credit` or `.calibration`."""
