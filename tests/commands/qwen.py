"""A recipe of the paper's and its model, and what `barl plan` prints of them."""

import re

from transformers import Qwen2Config

from ..paths import ROOT


def qwen(num_layers):
    """Qwen2.5-Math-1.5B's shape; it has 28 layers."""
    return Qwen2Config(
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=num_layers,
        num_attention_heads=12,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
    )


ATTENTION = 2 * (1536 * 1536 + 1536 * 256) + 1536 + 2 * 256  # q, o; k, v of two heads; biases
LAYER = ATTENTION + 3 * 1536 * 8960 + 2 * 1536
PARAMETERS = 151936 * 1536 + 28 * LAYER + 1536
SHALLOW = 151936 * 1536 + 2 * LAYER + 1536
"""Parameters with two layers, whose plan takes a second."""
RECIPE = str(ROOT / "recipes" / "qwen2.5-math-1.5b.yaml")
ZERO2 = str(ROOT / "accelerate_configs" / "zero2.yaml")
GROUP = 5 * (1536 + 8 * 49) + 49
"""Tokens of a group at the paper's shape: 5 trunks with a branch behind each of 8 steps, and one
behind the prompt; a branch has 12 tokens of elicitation, a brace, and 6 of each of 6 answers.
"""


def rows(output):
    """The table's cells by their names."""
    return {
        name.strip(): text.strip()
        for name, text in re.findall(r"^│ (.*?) +│ (.*?) +│$", output, re.MULTILINE)
    }
