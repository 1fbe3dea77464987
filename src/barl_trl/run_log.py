"""What `BARLTrainer` logs: belief diagnostics, clipped importance ratios, the completions table."""

from typing import Any

from accelerate.utils import gather_object
from torch import Tensor

from .answers import hypothesis_metrics
from .config import BARLConfig
from .diagnostics import belief_metrics, clipped_tokens
from .hub import PushingGRPOTrainer
from .resuming import ResumingGRPOTrainer
from .scoring import Scored

TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""


class LoggingGRPOTrainer(PushingGRPOTrainer):
    """`GRPOTrainer` with BARL's metrics among TRL's, in `_metrics`, and its columns in `_logs`."""

    _attributes_to_resume = (*ResumingGRPOTrainer._attributes_to_resume, "_seconds")

    args: BARLConfig
    num_generations: int

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seconds = {"scoring": 0.0, "step": 0.0}

    def _log_beliefs(self, scored: Scored, values: Tensor, mask: Tensor, outcomes: Tensor):
        """Diagnostics of the rollout batch of all processes: `values` (B, T) of its steps, `mask`
        (B, L) of its weighed tokens, `outcomes` of all rollouts.
        """
        likelihoods = scored.likelihoods
        metrics = belief_metrics(
            likelihoods.answer_logps,
            values,
            likelihoods.state_mask,
            likelihoods.hypothesis_mask,
            mask.any(dim=1),
            outcomes,
            beta=self.args.consistency_beta,
            group_size=self.num_generations,
            gather=self.accelerator.gather,
        )
        metrics |= hypothesis_metrics(scored.sets, scored.answers)
        metrics["scoring_tokens"] = sum(gather_object([likelihoods.num_tokens]))
        for name, value in metrics.items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _log_clipped_ratios(self, output: dict[str, Any]):
        """The share of all processes' tokens whose vLLM importance ratio was truncated or masked:
        TRL logs the ratios behind that alone.
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

    def _log_table(self, own_rows: list[dict[str, Any]]):
        """Puts BARL's columns into TRL's completions table, its weights for the GRPO advantages."""
        rows = gather_object(own_rows)
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
