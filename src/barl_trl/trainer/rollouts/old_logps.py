"""`OldLogpsMixin` takes the old log-probabilities from the pass that scores the answers."""

from typing import Any

import torch
from torch import Tensor, nn
from trl import GRPOTrainer

from ...plausibility.model_traits import causal_lm
from .rollout_batch import RolloutBatch

FIRST_RATIO = "barl/first_ratio"
"""Name of the metric of the importance ratio in the first optimizer step."""
_MOST_FIRST_RATIO = {torch.bfloat16: 1.15}
"""Largest first ratio that rounding explains, by dtype. It is 1.01 in other dtypes; TF32 counts as
float32. With SmolLM2 the ratio was measured as 1.000003 in float32 and 1.03 in bfloat16; outside of
this project ratios of 1.002 to 1.05 were measured.
"""


class OldLogpsMixin(GRPOTrainer):
    """Answer TRL's question for the old log-probabilities from the pass that scores the answers.

    Both log-probabilities of an importance ratio must come from the same kind of forward pass. TRL
    pads prompts on the left and passes no positions. A model whose positions count the padding
    (GPT-2) therefore has other log-probabilities in the loss than in the pass that scores, and for
    such a model, by its configuration, TRL computes the old log-probabilities, too.

    It logs `barl/first_ratio`, the importance ratio of the first optimizer step: e to the root mean
    square, over the tokens, of the ratio's logarithm. It must be 1 within rounding.

    What it relies on in TRL: if old log-probabilities are needed, the policy's first forward after
    `_generate` computes them; `_compute_loss` runs one forward of its `inputs`, which hold
    `old_per_token_logps` if these were needed.
    """

    model: Any
    _batch: RolloutBatch
    _say_once: Any
    _first_inputs: dict[str, Tensor] | None = None

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
    ):
        if self._batch.asks_for_old_logps:
            self._batch.asks_for_old_logps = False
            scored: Any = self._batch.scored
            logps = scored.likelihoods.completion_logps
            logps = nn.functional.pad(logps, (0, logits_to_keep - logps.shape[1]))
            return logps, None, None
        output = super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
        )
        inputs, self._first_inputs = self._first_inputs, None
        if inputs is not None:
            self._log_first_ratio(output[0].detach(), inputs)
        return output

    def _compute_loss(self, model, inputs):
        is_first = self.model.training and self._step < self.args.gradient_accumulation_steps
        self._first_inputs = inputs if is_first and "old_per_token_logps" in inputs else None
        return super()._compute_loss(model, inputs)

    def _log_first_ratio(self, logps: Tensor, inputs: dict[str, Tensor]) -> None:
        """Log how far the importance ratios of a micro-batch are from 1.

        Args:
            logps: Log-probabilities in the loss, (B, L), in nats.
            inputs: The micro-batch, with `old_per_token_logps` of shape (B, L).
        """
        mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
        squares = ((logps - inputs["old_per_token_logps"]) * mask).square().sum()
        totals = self.accelerator.reduce(torch.stack([squares, mask.sum()]), "sum")
        ratio = (totals[0] / totals[1].clamp(min=1)).sqrt().exp().item()
        self._metrics["train"][FIRST_RATIO].append(ratio)
        dtype = torch.bfloat16 if self.args.bf16 else causal_lm(self.model).dtype
        if ratio > _MOST_FIRST_RATIO.get(dtype, 1.01):
            self._say_once(
                FIRST_RATIO,
                f"{FIRST_RATIO} must be 1 within rounding, got {ratio:.3g}: the loss sees other "
                "log-probabilities than scoring did. Set dropout to 0; if there is none, let one "
                "optimizer step train on each rollout batch (num_iterations=1 and "
                "steps_per_generation=gradient_accumulation_steps).",
            )
