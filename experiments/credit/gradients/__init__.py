"""The quality of each arm's gradient, on rollouts of the model that is judged."""
