"""A rollout and its questions as one tree: rows, their micro-batches, attention along them."""
