"""The paper's didactic example with a language model and [`BARLTrainer`]."""
