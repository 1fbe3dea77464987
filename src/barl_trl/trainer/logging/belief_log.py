"""`BeliefLog` logs metrics of beliefs and weights, and what to do about them."""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import TrainerCallback

from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import TokenWeights
from ...hypotheses import hypothesis_metrics, no_answer_advice
from ..rollouts.rollout_batch import RolloutBatch
from .belief_metrics import belief_metrics
from .credit_metrics import WORKS_AGAINST, advice, credit_metrics

_OF_SEVERAL = ("truth_mass", "posterior_entropy")
"""Metrics that are constant if the truth is the only hypothesis."""


class BeliefLog(TrainerCallback):
    """Add BARL's metrics to TRL's, put BARL's weights into TRL's completions table, and log advice.

    What it relies on in TRL: `log` averages `_metrics`, and empties it after the callbacks; the
    column `advantages` of the completions table is a deque in `_logs`.

    Args:
        trainer: A [`BARLTrainer`].
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._no_answer: list[float] = []  # share without an answer, of each rollout batch

    def log_rollouts(
        self, batch: RolloutBatch, local_rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> None:
        """Log a rollout batch.

        Args:
            batch: This process's rollouts, scored and rewarded.
            local_rollouts: The scored rollouts of this process.
            weighed: The step values and token weights of this process's rollouts.
        """
        trainer = self._trainer
        outcomes = batch.outcome_rewards(trainer.reward_weights)
        metrics = self._belief_metrics(batch, local_rollouts, weighed)
        metrics |= credit_metrics(
            local_rollouts,
            weighed,
            batch.local(outcomes),
            num_groups=len(outcomes) // trainer.num_generations,
            sum_over_processes=partial(trainer.accelerator.reduce, reduction="sum"),
        )
        for name, value in metrics.items():
            trainer._metrics["train"][f"barl/{name}"].append(value)
        self._replace_advantages(weighed)

    def _belief_metrics(
        self, batch: RolloutBatch, local_rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> dict[str, float]:
        """Return metrics of the beliefs of all processes.

        If no answer was scored, these are only `unusable_truths` and `no_answer`.
        """
        trainer, scored = self._trainer, batch.scored
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        self._no_answer.append(metrics["no_answer"])
        if not local_rollouts.belief.shape[2]:
            return {name: metrics[name] for name in ("unusable_truths", "no_answer")}
        metrics |= belief_metrics(local_rollouts, weighed, gather=trainer.accelerator.gather)
        if trainer.scorer.credit.hypotheses == "truth":
            metrics = {name: metrics[name] for name in metrics if name not in _OF_SEVERAL}
        metrics["scoring_tokens"] = sum(gather_object([scored.likelihoods.num_tokens]))
        metrics["steps_per_rollout"] = fmean(gather_object([*map(len, scored.step_ends)]))
        return metrics

    def _replace_advantages(self, weighed: TokenWeights) -> None:
        """Put each rollout's mean token weight in place of GRPO's advantage in TRL's table."""
        means: Any = weighed.weights.sum(dim=1) / weighed.mask.sum(dim=1).clamp(min=1)
        gathered, advantages = gather_object(means.tolist()), self._trainer._logs["advantages"]
        for _ in range(min(len(gathered), len(advantages))):
            advantages.pop()
        advantages.extend(gathered)

    def log_clipped_ratios(self, output: Mapping[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked.

        TRL logs only the ratios after truncation or masking.

        Args:
            output: What TRL's `_generate_and_score_completions` returned.
        """
        trainer = self._trainer
        counts = _clipped_tokens(
            output["importance_sampling_ratio"],
            (output["completion_mask"] * output.get("tool_mask", 1)).bool(),
            mode=trainer.vllm_importance_sampling_mode,
            clip_min=trainer.vllm_importance_sampling_clip_min,
            clip_max=trainer.vllm_importance_sampling_clip_max,
        )
        num_clipped, num_tokens = trainer.accelerator.reduce(counts, reduction="sum").tolist()
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        name = "sampling/importance_sampling_ratio/frac_clipped"
        metrics[name].append(num_clipped / max(num_tokens, 1))

    def on_log(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        if self._trainer.model.training:
            self._advise(self._trainer._metrics["train"])

    def _advise(self, metrics: Mapping[str, list[float]]) -> None:
        """Warn that answers are not read, or of the weights.

        The weights are worth a warning if they nearly equal those of plain RL, or work against the
        outcome.
        """
        trainer = self._trainer
        if trainer.reads_boxes and self._no_answer:
            trainer._say_once("barl/no_answer", no_answer_advice(fmean(self._no_answer)))
        names = ("barl/outcome_gain", "barl/outcome_gain_spread", "barl/outcome_r2")
        is_barl = trainer.args.credit == "barl"  # the outcome gain is defined for BARL's weights
        if is_barl and all(map(metrics.get, names)):
            gain, spread, r2 = (fmean(metrics[name]) for name in names)
            text = advice(gain, spread, r2, consistency_beta=trainer.args.consistency_beta)
            trainer._say_once(gain < WORKS_AGAINST, text)


def _clipped_tokens(
    ratio: Float[Tensor, "batch #token"],
    mask: Bool[Tensor, "batch token"],
    *,
    mode: str,
    clip_min: float | None,
    clip_max: float | None,
) -> Int[Tensor, "2"]:
    """Count the tokens whose importance ratio was truncated or masked, and all tokens.

    Args:
        ratio: Importance ratios after truncation or masking, one per token or one per sequence.
        mask: True for each token that counts.
        mode: With `"token_truncate"` or `"sequence_truncate"`, ratios beyond a bound became that
            bound. With `"token_mask"` or `"sequence_mask"`, they became 0.
        clip_min: The lower bound; None without one.
        clip_max: The upper bound; None without one.

    Returns:
        The number of clipped tokens, and the number of tokens that count.
    """
    bounds = [0.0] if mode.endswith("mask") else [b for b in (clip_min, clip_max) if b is not None]
    is_clipped = torch.isin(ratio, ratio.new_tensor(bounds))
    return torch.stack([(is_clipped & mask).sum(), mask.sum()])
