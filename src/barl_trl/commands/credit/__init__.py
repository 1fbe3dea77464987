"""`barl reproduce credit`: what the weights of steps do, and which of them win."""
