"""A trainer that also teaches the answer what the belief says, on the same rollouts."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from .remembering import RememberingTrainer

ANSWER = "\\boxed{"  # what stands before an answer


class TaughtTrainer(RememberingTrainer):
    r"""Adds the cross-entropy of the answer to the last belief, $-\sum_i b_i(T) \log \pi(i)$.

    Like the loss of tokens, it is a sum over the number of all tokens. Rollouts without an answer
    have none. It needs no truth, and hypotheses of one token.

    Args:
        model: As of [`BARLTrainer`], like other arguments.
        reward_func: The reward; it gets the environments.
        *args: More.
        hypotheses: Texts of the hypotheses, in the order of the environments' beliefs.
        weight: Weight of the cross-entropy.
        **kwargs: More.
    """

    def __init__(
        self,
        model: Any,
        reward_func: Callable[..., list[float]],
        *args: Any,
        hypotheses: tuple[str, ...],
        weight: float,
        **kwargs: Any,
    ):
        self._beliefs: dict[tuple[int, ...], np.ndarray] = {}

        @wraps(reward_func)
        def remembering(completion_ids, environments, **columns):
            # what was asked and replied is in the tokens, and so is the belief
            games = zip(completion_ids, environments, strict=True)
            self._beliefs = {tuple(ids): game.belief for ids, game in games}
            return reward_func(completion_ids=completion_ids, environments=environments, **columns)

        super().__init__(model, remembering, *args, **kwargs)
        tokenizer: Any = self.processing_class
        encode = tokenizer.encode
        self._opening = torch.tensor(encode(ANSWER))
        self._hypotheses = torch.tensor([encode(text) for text in hypotheses])[:, 0]
        self._weight = weight

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Return the loss of a batch, with the cross-entropy in training."""
        loss = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if not model.training:
            return loss
        return loss + self._weight * self._cross_entropy(model, inputs)

    def _cross_entropy(self, model: nn.Module, inputs: dict[str, Tensor]) -> Float[Tensor, ""]:
        ids, mask = inputs["completion_ids"], inputs["completion_mask"].bool()
        logits = model(
            input_ids=torch.cat([inputs["prompt_ids"], ids], dim=1),
            attention_mask=torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1),
        ).logits[:, inputs["prompt_ids"].shape[1] - 1 : -1]
        own = mask & inputs.get("tool_mask", mask).bool()
        opening, total = self._opening.to(ids), logits.new_zeros(())
        for row, exists, is_own, scores in zip(ids, mask, own, logits, strict=True):
            windows = row.unfold(0, len(opening), 1)[:-1]  # a token follows each
            starts = (windows == opening).all(dim=1).nonzero()[:, 0]
            places = [place for place in (starts + len(opening)).tolist() if is_own[place]]
            if places:
                belief = torch.from_numpy(self._beliefs[tuple(row[exists].tolist())]).to(scores)
                answers = scores[places[-1]].log_softmax(dim=-1)[self._hypotheses.to(ids)]
                total = total - belief @ answers
        return total * self.accelerator.num_processes / inputs["num_items_in_batch"].clamp(min=1)
