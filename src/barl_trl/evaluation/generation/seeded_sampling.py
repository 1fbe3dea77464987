"""Draws that depend on a sample's seed alone."""

from collections.abc import Iterable
from typing import Any

import torch
from transformers import LogitsProcessor, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from .decoding import Drawing

# in the order of transformers
_CUT_OFFS = {"top_k": TopKLogitsWarper, "top_p": TopPLogitsWarper, "min_p": MinPLogitsWarper}


class SeededSampling(LogitsProcessor):
    """Make greedy decoding draw from `softmax(logits / temperature)`, by a generator for each row.

    `argmax(logits / temperature - log E)` with exponential `E` is such a draw. What a row draws
    does not depend on the other rows of its batch, as it does with transformers' own sampling.

    Args:
        seeds: One for each row.
        drawing: The temperature, and what rules tokens out once the logits are divided by it.
        device: Where the model is.
    """

    def __init__(self, seeds: Iterable[int], drawing: Drawing, device: torch.device):
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        settings: dict[str, Any] = drawing.settings
        self.temperature = drawing.temperature
        self.cut_offs = [cut(settings[name]) for name, cut in _CUT_OFFS.items() if name in settings]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores whose greatest is the draw."""
        # Not `exponential_`: on CPUs MKL draws a whole row from one number of the generator. In 64
        # bits, as the token that is drawn may owe it to a very small E.
        options: Any = {"device": scores.device, "dtype": torch.float64}
        uniform = torch.stack(
            [torch.rand(scores.shape[1], generator=g, **options) for g in self.generators]
        )
        scores = scores.double() / self.temperature
        for cut_off in self.cut_offs:
            scores = cut_off(input_ids, scores)
        return scores - (-uniform.log()).log()
