"""Sampling in which the draws of a sample depend on its seed alone."""

from collections.abc import Iterable
from typing import Any

import torch
from transformers import LogitsProcessor, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from .decoding import Drawing

# transformers applies cut-offs in this order
_CUT_OFFS = {"top_k": TopKLogitsWarper, "top_p": TopPLogitsWarper, "min_p": MinPLogitsWarper}


class SeededSampling(LogitsProcessor):
    """Make greedy decoding draw from `softmax(logits / temperature)`, with one generator per row.

    `argmax(logits / temperature - log E)` with exponential `E` is such a draw. With transformers'
    own sampling, the draws of a row depend on the other rows of its batch; here they do not.

    Args:
        seeds: Seed of each row of the batch.
        drawing: The temperature, and the cut-offs, which are applied to logits / temperature.
        device: Device of the model.
    """

    def __init__(self, seeds: Iterable[int], drawing: Drawing, device: torch.device):
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        settings: dict[str, Any] = drawing.settings
        self.temperature = drawing.temperature
        self.cut_offs = [cut(settings[name]) for name, cut in _CUT_OFFS.items() if name in settings]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores, (rows, vocabulary), of which the greatest in a row is the token drawn."""
        # Not `exponential_`: on CPUs MKL draws a whole row from one number of the generator.
        # 64 bits are needed, because a token may be drawn for a very small E.
        options: Any = {"device": scores.device, "dtype": torch.float64}
        uniform = torch.stack(
            [torch.rand(scores.shape[1], generator=g, **options) for g in self.generators]
        )
        scores = scores.double() / self.temperature
        for cut_off in self.cut_offs:
            scores = cut_off(input_ids, scores)
        return scores - (-uniform.log()).log()
