"""A rollout batch on its way through TRL's calls, up to its scored rollouts."""
