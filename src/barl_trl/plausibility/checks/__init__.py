"""Whether a model allows to score along trees."""
