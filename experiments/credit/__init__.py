"""Which credit of steps is best: gradients and trainings that differ in the credit alone."""
