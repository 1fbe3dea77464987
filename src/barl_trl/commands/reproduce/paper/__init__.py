"""`barl reproduce paper`: the paper's experiments, at two scales."""
