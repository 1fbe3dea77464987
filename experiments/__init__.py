"""Evidence that is run from a clone: see README.md."""
