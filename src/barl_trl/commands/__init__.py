"""The commands of `barl`, a module each."""
