"""How `BARLTrainer` logs: belief metrics, clipped importance ratios, the completions table."""

from collections import deque
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor

from ..credit.rollouts import ScoredRollouts, at_last_state
from ..hypotheses import hypothesis_metrics, no_answer_advice
from .barl_config import BARLConfig
from .belief_metrics import belief_metrics, clipped_tokens, rollout_diagnostics
from .completions_print import print_completions
from .credit_metrics import (
    WORKS_AGAINST,
    advice,
    mean_and_spread,
    outcome_gains,
    weight_moments,
    weight_shares,
)
from .health import HealthMixin
from .hypothesis_scorer import HypothesisScorer, Scored
from .rollout_batch import RolloutBatch
from .rollout_recording import RolloutRecordingMixin

TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""


LOSS = (
    "loss stays near 0 by construction: the weights of a rollout batch have mean 0. reward says "
    "whether the model learns."
)
OF_SEVERAL = ("truth_mass", "posterior_entropy")
"""Metrics that say nothing of a belief in the truth alone."""


class BeliefLoggingMixin(RolloutRecordingMixin, HealthMixin):
    """Put BARL's metrics among TRL's, in `_metrics`, and its columns into `_logs`.

    What it relies on in TRL: `_metrics` is averaged and emptied by `log`; `_logs` has a deque of
    rows for each column of the completions table; of a `num_completions_to_print` below 0 it prints
    nothing.
    """

    args: BARLConfig
    model: Any
    num_generations: int
    _batch: RolloutBatch
    _reads_boxes: bool
    scorer: HypothesisScorer

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._say_once("unused", self.args.unused())
        self._seconds = {"scoring": 0.0, "step": 0.0}
        self._no_answer: list[float] = []  # of each rollout batch
        self._printed: deque[dict[str, Any]] = deque(maxlen=self.args.generation_batch_size)
        self._is_printed = True
        self.num_completions_to_print = -1  # TRL's table is one of 80 columns for three texts

    def _log_belief_metrics(
        self,
        scored: Scored,
        own: ScoredRollouts,
        values: Tensor,
        is_weighed: Tensor,
        outcomes: Tensor,
    ) -> None:
        """Log metrics of the rollout batch of all processes; no beliefs, if no answer was scored.

        `own` are this process's rollouts, values are those of their steps (B, T), `is_weighed` says
        which rollouts have tokens with a weight (B,), and outcomes are those of all processes (N,).
        """
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        self._no_answer.append(metrics["no_answer"])
        if own.belief.shape[2]:
            diagnostics = rollout_diagnostics(
                own.belief, own.answer_logps, values, own.state_mask, own.hypothesis_mask
            )
            metrics |= belief_metrics(
                diagnostics,
                is_weighed,
                outcomes,
                group_size=self.num_generations,
                gather=self.accelerator.gather,
            )
            if self.scorer.credit.hypotheses == "truth":
                metrics = {name: v for name, v in metrics.items() if name not in OF_SEVERAL}
            metrics["scoring_tokens"] = sum(gather_object([scored.likelihoods.num_tokens]))
            metrics["steps_per_rollout"] = fmean(gather_object([*map(len, scored.step_ends)]))
        else:
            metrics = {name: metrics[name] for name in ("unusable_truths", "no_answer")}
        for name, value in metrics.items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _groups(self, rows: Tensor) -> tuple[Tensor, int]:
        """Return the group of each of this process's rollouts (B,), and how many groups there are.

        A group that straddles processes has the same number on all of them.
        """
        start, world = self._batch.start, self.accelerator.num_processes
        places = torch.arange(start, start + len(rows), device=rows.device)
        return places // self.num_generations, len(rows) * world // self.num_generations

    def _log_credit(
        self, own: ScoredRollouts, weights: Tensor, outcomes: Tensor, mask: Tensor
    ) -> None:
        """Log what the weights (B, L) before whitening do, given the outcomes (B,).

        `own` are this process's rollouts, and the mask (B, L) says which tokens have a weight.
        """
        groups, num_groups = self._groups(weights)
        moments = weight_moments(weights, outcomes, mask, groups, num_groups=num_groups)
        gains = outcome_gains(own.belief, own.members, own.state_mask)
        totals: Any = self.accelerator.reduce(torch.cat([moments.flatten(), gains]), "sum")
        gain, spread = mean_and_spread(totals[-3:])
        metrics = weight_shares(totals[:-3].reshape(-1, 6))
        for name, value in (
            metrics | {"outcome_gain": gain, "outcome_gain_spread": spread}
        ).items():
            self._metrics["train"][f"barl/{name}"].append(value)

    def _log_clipped_ratios(self, output: dict[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked.

        TRL logs the ratios as they are after that.
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

    def _log_weights(
        self, scored: Scored, own: ScoredRollouts, values: Tensor, weights: Tensor, mask: Tensor
    ) -> None:
        """Log each rollout's hypotheses, the values (B, T) of its steps, and its mean weight.

        The mask (B, L) says which tokens have one of the weights (B, L). All of it is recorded, if
        that is wanted.
        """
        self._record_rollouts(scored, own, values, weights)
        means = (weights.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).tolist()
        beliefs: Any = [None] * len(means)
        if own.belief.shape[2]:
            beliefs = at_last_state(own.belief[..., 0], own.state_mask).tolist()
        answers = scored.answers[self._batch.start :][: len(means)]
        columns = scored.local_sets, values, scored.step_ends, means, answers, beliefs
        self._log_table(
            [
                {
                    "hypotheses": list(hypotheses.answers) if hypotheses else None,
                    "step_values": [round(v, 4) for v in row[: len(ends)].tolist()],
                    "advantage": mean,
                    "answer": answer,
                    "belief": belief,
                }
                for hypotheses, row, ends, mean, answer, belief in zip(*columns, strict=True)
            ]
        )

    def _log_table(self, local_rows: list[dict[str, Any]]) -> None:
        """Put BARL's columns into TRL's completions table, its weights for GRPO's advantages."""
        rows = gather_object(local_rows)
        self._printed.extend(rows)
        self._is_printed = False
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
        if self.accelerator.is_main_process and self.log_completions and not self._is_printed:
            self._is_printed = True
            print_completions(
                self._logs["prompt"],
                self._logs["completion"],
                self._logs["rewards"],
                self._printed,
                step=self.state.global_step,
                number=self.args.num_completions_to_print,
            )

    def _advise(self, metrics):
        """Say also that answers are not read, that weights are plain RL's, or work against it.

        And that the loss is no sign of learning, as soon as one is logged.
        """
        if metrics and self.scorer.credit.value_normalization != "none":
            self._say_once("loss", LOSS)
        if self._reads_boxes and self._no_answer:
            self._say_once("barl/no_answer", no_answer_advice(fmean(self._no_answer)))
        names = ("barl/outcome_gain", "barl/outcome_gain_spread", "barl/outcome_r2")
        is_barl = self.args.credit == "barl"  # the identity is one of its weights
        if is_barl and all(map(metrics.get, names)):
            gain, spread, r2 = (fmean(metrics[name]) for name in names)
            text = advice(gain, spread, r2, consistency_beta=self.args.consistency_beta)
            self._say_once(gain < WORKS_AGAINST, text)
        super()._advise(metrics)
