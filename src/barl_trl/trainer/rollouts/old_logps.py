"""`OldLogpsMixin` takes the old log-probabilities from the pass that scores the answers."""

from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn
from trl import GRPOTrainer

from ...plausibility.checks.model_traits import causal_lm, evaluating
from ...plausibility.checks.reference import embeddings_rounded, mean_difference, why_too_far
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
    such a model TRL must compute the old log-probabilities, too. The model's configuration may tell
    that it is of this kind. Otherwise TRL's forward of the rollout with the most padding is
    compared, once, and again whenever the padding outgrows a power of two.

    It logs `barl/first_ratio`, the importance ratio of the first optimizer step: e to the root mean
    square, over the tokens, of the ratio's logarithm. It must be 1 within rounding.

    What it relies on in TRL: if old log-probabilities are needed, the policy's first forward after
    `_generate` computes them; `_compute_loss` runs one forward of its `inputs`, which hold
    `old_per_token_logps` if these were needed.
    """

    model: Any
    _batch: RolloutBatch
    _say_once: Any
    _depends_on_padding: bool
    _checked_padding = 0
    _first_inputs: dict[str, Tensor] | None = None

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
    ):
        if self._batch.asks_for_old_logps:
            self._batch.asks_for_old_logps = False
            scored: Any = self._batch.scored
            logps = scored.likelihoods.completion_logps
            logps = nn.functional.pad(logps, (0, logits_to_keep - logps.shape[1]))
            self._check_padding(logps, input_ids, attention_mask)
            if not self._depends_on_padding:
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

    def _check_padding(self, logps: Tensor, input_ids: Tensor, attention_mask: Tensor) -> None:
        """Compare log-probabilities with TRL's for the rollout with the most padding.

        Args:
            logps: Log-probabilities of the pass that scores, (B, L), in nats.
            input_ids: Left-padded token ids of prompts and completions, (B, P + L).
            attention_mask: 1 for each token, 0 for padding, (B, P + L).
        """
        # the index of the first token; TRL masks completions that it leaves out of the loss
        is_left_out = ~attention_mask[:, -logps.shape[1] :].any(dim=1)
        paddings = attention_mask.argmax(dim=1).masked_fill(is_left_out, 0)
        most = max(gather_object([int(paddings.max())]))
        if most.bit_length() <= self._checked_padding.bit_length():
            return
        self._checked_padding = most
        row = paddings.argmax()[None]
        input_ids, attention_mask, number = input_ids[row], attention_mask[row], logps.shape[1]

        def padded() -> Tensor:
            forward = super(OldLogpsMixin, self)._get_per_token_logps_and_entropies
            logps, *_ = forward(self.model, input_ids, attention_mask, number)
            return logps * attention_mask[:, -number:]

        with evaluating(self.model):
            trl_logps = padded()
            with embeddings_rounded(causal_lm(self.model)):
                noise = mean_difference(padded(), trl_logps)
        difference = mean_difference(trl_logps, logps[row] * attention_mask[:, -number:])
        reason = why_too_far("left-padded rows are", difference, noise)
        reason = next(filter(None, gather_object([reason])), None)
        if reason is not None:
            self._depends_on_padding = True
            self._say_once(
                "padding",
                f"{type(causal_lm(self.model)).__name__} depends on left padding, TRL computes the "
                f"old log-probabilities: {reason}. Its loss is off by as much where prompts differ "
                "in length.",
            )

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
