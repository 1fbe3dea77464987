"""The commands of `barl`, a module or folder each, and `shell`, which has what they share."""
