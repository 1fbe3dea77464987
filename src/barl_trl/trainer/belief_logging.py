"""How `BARLTrainer` logs: belief metrics, clipped importance ratios, the completions table."""

from typing import Any

from accelerate.utils import gather_object
from torch import Tensor
from trl import GRPOTrainer

from ..hypotheses import hypothesis_metrics
from .barl_config import BARLConfig
from .belief_metrics import belief_metrics, clipped_tokens, rollout_diagnostics
from .hypothesis_scorer import Scored

TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""


class BeliefLoggingMixin(GRPOTrainer):
    """Put BARL's metrics among TRL's, in `_metrics`, and its columns into `_logs`.

    What it relies on in TRL: `_metrics` is averaged and emptied by `log`; `_logs` has a deque of
    rows for each column of the completions table.
    """

    args: BARLConfig
    model: Any
    num_generations: int

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seconds = {"scoring": 0.0, "step": 0.0}

    def _log_beliefs(
        self, scored: Scored, belief: Tensor, values: Tensor, is_weighed: Tensor, outcomes: Tensor
    ) -> None:
        """Log metrics of the rollout batch of all processes.

        The belief is (B, S, H), values are those of steps (B, T), `is_weighed` says which rollouts
        have tokens with a weight (B,), and outcomes are those of all processes (N,).
        """
        likelihoods = scored.likelihoods
        diagnostics = rollout_diagnostics(
            belief,
            likelihoods.answer_logps,
            values,
            likelihoods.state_mask,
            likelihoods.hypothesis_mask,
        )
        metrics = belief_metrics(
            diagnostics,
            is_weighed,
            outcomes,
            group_size=self.num_generations,
            gather=self.accelerator.gather,
        )
        metrics |= hypothesis_metrics(scored.sets, scored.answers)
        metrics["scoring_tokens"] = sum(gather_object([likelihoods.num_tokens]))
        for name, value in metrics.items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _log_clipped_ratios(self, output: dict[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked.

        TRL logs the ratios as they are behind that.
        """
        counts = clipped_tokens(
            output["importance_sampling_ratio"],
            (output["completion_mask"] * output.get("tool_mask", 1)).bool(),
            mode=self.vllm_importance_sampling_mode,
            clip_min=self.vllm_importance_sampling_clip_min,
            clip_max=self.vllm_importance_sampling_clip_max,
        )
        totals: Any = self.accelerator.reduce(counts, reduction="sum")
        num_clipped, num_tokens = totals.tolist()
        metrics = self._metrics["train" if self.model.training else "eval"]
        name = "sampling/importance_sampling_ratio/frac_clipped"
        metrics[name].append(num_clipped / max(num_tokens, 1))

    def _log_weights(self, scored: Scored, values: Tensor, weights: Tensor, mask: Tensor) -> None:
        """Log each rollout's hypotheses, the values (B, T) of its steps, and its mean weight.

        The mask (B, L) says which tokens have one of the weights (B, L).
        """
        means = (weights.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).tolist()
        self._log_table(
            [
                {
                    "hypotheses": list(hypotheses.answers) if hypotheses else None,
                    "step_values": [round(v, 4) for v in row[: len(ends)].tolist()],
                    "advantage": mean,
                }
                for hypotheses, row, ends, mean in zip(
                    scored.local_sets, values, scored.step_ends, means, strict=True
                )
            ]
        )

    def _log_table(self, local_rows: list[dict[str, Any]]) -> None:
        """Put BARL's columns into TRL's completions table, its weights for GRPO's advantages."""
        rows = gather_object(local_rows)
        for column in TABLE_COLUMNS:
            self._logs["extra"][column].extend(row.get(column) for row in rows)
        if "advantage" in rows[0]:
            advantages = self._logs["advantages"]
            for _ in range(min(len(rows), len(advantages))):
                advantages.pop()
            advantages.extend(row["advantage"] for row in rows)

    def log(self, logs, start_time=None):  # noqa: D102 (TRL's)
        metrics = self._metrics["train"]
        if self.model.training and metrics.get("step_time"):
            # of all time so far: several steps may train on the rollouts of one
            self._seconds["scoring"] += sum(metrics.get("barl/scoring_seconds", []))
            self._seconds["step"] += sum(metrics["step_time"])
            share = self._seconds["scoring"] / self._seconds["step"]
            metrics["barl/scoring_share_of_time"].append(share)
        super().log(logs, start_time)
