"""What `BARLTrainer` logs of its beliefs and weights: metrics, the completions table, advice."""

from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import TrainerCallback

from ...credit.rollouts import ScoredRollouts, at_last_state
from ...credit.token_weights import TokenWeights
from ...hypotheses import hypothesis_metrics, no_answer_advice
from ..rollouts.rollout_batch import RolloutBatch
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

_TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns of TRL's completions table that BARL adds; `advantage` there is the mean token weight."""

LOSS = (
    "loss stays near 0 by construction: the weights of a rollout batch have mean 0. reward says "
    "whether the model learns."
)
_OF_SEVERAL = ("truth_mass", "posterior_entropy")
"""Metrics that say nothing of a belief in the truth alone."""


class BeliefLog(TrainerCallback):
    """Put BARL's metrics among TRL's, its columns into TRL's table, and say what they show.

    Args:
        trainer: A [`BARLTrainer`]. What is relied on in it: `_metrics` is averaged by `log`, and
            emptied when callbacks have heard of it; `_logs` has a deque of rows for each column of
            the completions table.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._no_answer: list[float] = []  # of each rollout batch
        self._printed: deque[dict[str, Any]] = deque(maxlen=trainer.args.generation_batch_size)
        self._is_printed = True
        trainer.num_completions_to_print = -1  # TRL's table has 80 columns for three texts

    def log_rollouts(
        self, batch: RolloutBatch, rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> None:
        """Log a rollout batch.

        Args:
            batch: This process's rollouts, scored and rewarded.
            rollouts: Those of all processes, as estimators of credit see them.
            weighed: Values and weights of this process's.
        """
        own = rollouts.rows(batch.start, batch.start + len(batch.inputs))
        outcomes = batch.outcome_rewards(self._trainer.reward_weights)
        metrics = self._belief_metrics(batch, own, weighed, outcomes)
        metrics |= self._credit_metrics(own, weighed, batch.local(outcomes), rollouts.groups)
        for name, value in metrics.items():
            self._trainer._metrics["train"][f"barl/{name}"].append(value)
        self.log_table(_table_rows(batch, own, weighed))

    def _belief_metrics(
        self, batch: RolloutBatch, own: ScoredRollouts, weighed: TokenWeights, outcomes: Tensor
    ) -> dict[str, float]:
        """Return metrics of the beliefs of all processes; few, if no answer was scored."""
        trainer, scored = self._trainer, batch.scored
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        self._no_answer.append(metrics["no_answer"])
        if not own.belief.shape[2]:
            return {name: metrics[name] for name in ("unusable_truths", "no_answer")}
        diagnostics = rollout_diagnostics(
            own.belief, own.answer_logps, weighed.values, own.state_mask, own.hypothesis_mask
        )
        metrics |= belief_metrics(
            diagnostics,
            weighed.mask.any(dim=1),
            outcomes,
            group_size=trainer.num_generations,
            gather=trainer.accelerator.gather,
        )
        if trainer.scorer.credit.hypotheses == "truth":
            metrics = {name: v for name, v in metrics.items() if name not in _OF_SEVERAL}
        metrics["scoring_tokens"] = sum(gather_object([scored.likelihoods.num_tokens]))
        metrics["steps_per_rollout"] = fmean(gather_object([*map(len, scored.step_ends)]))
        return metrics

    def _credit_metrics(
        self, own: ScoredRollouts, weighed: TokenWeights, outcomes: Tensor, all_groups: Tensor
    ) -> dict[str, float]:
        """Return what the weights before whitening do, given this process's outcomes (B,)."""
        moments = weight_moments(
            weighed.unwhitened,
            outcomes,
            weighed.mask,
            own.groups,
            num_groups=int(all_groups.max()) + 1,
        )
        gains = outcome_gains(own.belief, own.members, own.state_mask)
        totals: Any = self._trainer.accelerator.reduce(
            torch.cat([moments.flatten(), gains]), reduction="sum"
        )
        gain, spread = mean_and_spread(totals[-3:])
        shares = weight_shares(totals[:-3].reshape(-1, 6))
        return shares | {"outcome_gain": gain, "outcome_gain_spread": spread}

    def log_clipped_ratios(self, output: Mapping[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked.

        TRL logs the ratios as they are after that.
        """
        trainer = self._trainer
        counts = clipped_tokens(
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

    def log_table(self, local_rows: list[dict[str, Any]]) -> None:
        """Put BARL's columns into TRL's completions table, its weights for GRPO's advantages."""
        rows, logs = gather_object(local_rows), self._trainer._logs
        self._printed.extend(rows)
        self._is_printed = False
        for column in _TABLE_COLUMNS:
            logs["extra"][column].extend(row.get(column) for row in rows)
        if "advantage" in rows[0]:
            advantages = logs["advantages"]
            for _ in range(min(len(rows), len(advantages))):
                advantages.pop()
            advantages.extend(row["advantage"] for row in rows)

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        trainer = self._trainer
        # of all time so far: several steps may train on the rollouts of one
        trainer._seconds["step"] += trainer._metrics["train"]["step_time"][-1]
        share = trainer._seconds["scoring"] / trainer._seconds["step"]
        trainer._metrics["train"]["barl/scoring_share_of_time"] = [share]

    def on_log(self, args: Any, state, control, **kwargs):  # noqa: D102 (transformers')
        trainer = self._trainer
        if trainer.model.training:
            self._advise(trainer._metrics["train"])
        if trainer.accelerator.is_main_process and trainer.log_completions and not self._is_printed:
            self._is_printed = True
            print_completions(
                trainer._logs["prompt"],
                trainer._logs["completion"],
                trainer._logs["rewards"],
                self._printed,
                step=state.global_step,
                number=args.num_completions_to_print,
            )

    def _advise(self, metrics: Mapping[str, list[float]]) -> None:
        """Say that answers are not read, that weights are plain RL's, or work against it.

        And that the loss is no sign of learning, as soon as one is logged.
        """
        trainer = self._trainer
        if metrics and trainer.scorer.credit.value_normalization != "none":
            trainer._say_once("loss", LOSS)
        if trainer.reads_boxes and self._no_answer:
            trainer._say_once("barl/no_answer", no_answer_advice(fmean(self._no_answer)))
        names = ("barl/outcome_gain", "barl/outcome_gain_spread", "barl/outcome_r2")
        is_barl = trainer.args.credit == "barl"  # the identity is one of its weights
        if is_barl and all(map(metrics.get, names)):
            gain, spread, r2 = (fmean(metrics[name]) for name in names)
            text = advice(gain, spread, r2, consistency_beta=trainer.args.consistency_beta)
            trainer._say_once(gain < WORKS_AGAINST, text)


def _table_rows(
    batch: RolloutBatch, own: ScoredRollouts, weighed: TokenWeights
) -> list[dict[str, Any]]:
    """Return what the completions table shows of each of this process's rollouts."""
    scored = batch.scored
    means = (weighed.weights.sum(dim=1) / weighed.mask.sum(dim=1).clamp(min=1)).tolist()
    beliefs: Any = [None] * len(means)
    if own.belief.shape[2]:
        beliefs = at_last_state(own.belief[..., 0], own.state_mask).tolist()
    answers = scored.answers[batch.start :][: len(means)]
    columns = scored.local_sets, weighed.values, scored.step_ends, means, answers, beliefs
    return [
        {
            "hypotheses": list(hypotheses.answers) if hypotheses else None,
            "step_values": [round(v, 4) for v in row[: len(ends)].tolist()],
            "advantage": mean,
            "answer": answer,
            "belief": belief,
        }
        for hypotheses, row, ends, mean, answer, belief in zip(*columns, strict=True)
    ]
