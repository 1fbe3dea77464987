"""A rollout batch: its tokens, hypotheses, log-likelihoods and old log-probabilities."""
