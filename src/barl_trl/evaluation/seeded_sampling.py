"""Draws that depend on a sample's seed alone, and what rules tokens out before."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from .decoding import Drawing
from .shrinking_batch import RowsProcessor


class SeededSampling(RowsProcessor):
    """Make greedy decoding draw from `softmax(logits / temperature)`, by a generator for each row.

    `argmax(logits / temperature - log E)` with exponential `E` is such a draw. What a row draws
    does not depend on the other rows of its batch, as it does with transformers' own sampling.

    Args:
        seeds: One for each row.
        temperature: Divides the logits.
        device: Where the model is.
        cut_offs: What rules tokens out once the logits are divided, in this order.
    """

    def __init__(
        self,
        seeds: Iterable[int],
        temperature: float,
        device: torch.device,
        cut_offs: Sequence[Any] = (),
    ):
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature, self.cut_offs = temperature, cut_offs

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

    def keep(self, rows: list[int]) -> None:
        """Go on with the generators of these rows."""
        self.generators = [self.generators[row] for row in rows]


def cut_offs_of(drawing: Drawing) -> list[LogitsProcessor]:
    """Return what rules tokens out, in the order of transformers: top_k, top_p, min_p."""
    warpers = {"top_k": TopKLogitsWarper, "top_p": TopPLogitsWarper, "min_p": MinPLogitsWarper}
    given: dict[str, Any] = drawing.settings
    return [warper(given[name]) for name, warper in warpers.items() if name in given]
