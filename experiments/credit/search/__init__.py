"""Short trainings of the demo's model."""
