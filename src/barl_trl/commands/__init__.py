"""What parses options or prints: a module for each command of `barl`, and what they share."""
