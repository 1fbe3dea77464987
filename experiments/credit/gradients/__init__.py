"""How good the gradient of each arm is, on a model's own rollouts."""
