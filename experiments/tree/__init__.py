"""The tree of the paper's proof that adaptive policies can do better (theorem thm_exp), solved."""
