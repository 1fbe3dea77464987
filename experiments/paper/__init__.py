"""The paper's examples, figures and tables: `python -m experiments.paper.<module>`."""
