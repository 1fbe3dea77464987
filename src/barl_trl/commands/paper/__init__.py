"""`barl reproduce paper`: the experiments of the paper's section 6, at two scales."""
