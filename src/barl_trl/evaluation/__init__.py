"""Evaluation of models on benchmarks: problems, prompts, generations, and what they amount to."""
