"""`BeliefLog` logs beliefs and weights: metrics, columns of the completions table, advice."""

import math
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
from ...hypotheses import given_metrics, hypothesis_metrics, no_answer_advice
from ...report.likeliest import likeliest
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
from .task_metrics import evidence_metrics, unlabelled_metrics
from .turn_log import observation_gain, turn_advice

_TABLE_COLUMNS = ("hypotheses", "step_values")
"""Columns that BARL adds to TRL's completions table. TRL's column `advantage` has the mean token
weight of each completion."""

_LOSS = (
    "loss stays near 0 by construction: the weights of a rollout batch have mean 0. reward says "
    "whether the model learns."
)
_OF_SEVERAL = ("truth_mass", "posterior_entropy")
"""Metrics that are constant if the truth is the only hypothesis."""
_OF_TRUTHS = ("truth_mass", "discrepancy", "observation_gain", "value_spread_equal_outcome")
_OF_TRUTHS += ("outcome_gain", "outcome_gain_spread")
"""Metrics that are left out where a prompt has no true answer."""


class BeliefLog(TrainerCallback):
    """Add BARL's metrics to TRL's, add columns to TRL's completions table, and log advice.

    What it relies on in TRL: `log` averages `_metrics`, and empties it after the callbacks; `_logs`
    has a deque for each column of the completions table.

    Args:
        trainer: A [`BARLTrainer`].
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        # share without an answer, of each rollout batch whose answers were read from completions
        self._no_answer: list[float] = []
        self._printed: deque[dict[str, Any]] = deque(maxlen=trainer.args.generation_batch_size)
        self._is_printed = True
        # TRL's table, which squeezes three texts into 80 columns, is not printed
        trainer.num_completions_to_print = -1

    def log_rollouts(
        self, batch: RolloutBatch, local_rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> None:
        """Log a rollout batch.

        Args:
            batch: This process's rollouts, scored and rewarded.
            local_rollouts: The scored rollouts of this process.
            weighed: The step values and token weights of this process's rollouts.
        """
        outcomes = batch.outcome_rewards(self._trainer.reward_weights)
        local_outcomes = batch.local(outcomes)
        num_groups = len(outcomes) // self._trainer.num_generations
        metrics = self._belief_metrics(batch, local_rollouts, weighed, outcomes)
        metrics |= self._task_metrics(batch, local_rollouts)
        metrics |= self._credit_metrics(local_rollouts, weighed, local_outcomes, num_groups)
        sets = batch.scored.sets
        if any(hypotheses and not hypotheses.has_truth for hypotheses in sets):
            metrics = {name: metrics[name] for name in metrics if name not in _OF_TRUTHS}
        for name, value in metrics.items():
            self._trainer._metrics["train"][f"barl/{name}"].append(value)
        for subject, text in turn_advice(self._trainer.args, batch.scored.turns).items():
            self._trainer._say_once(subject, text)
        self.log_table(_table_rows(batch, local_rollouts, weighed))

    def _belief_metrics(
        self,
        batch: RolloutBatch,
        local_rollouts: ScoredRollouts,
        weighed: TokenWeights,
        outcomes: Tensor,
    ) -> dict[str, float]:
        """Return metrics of the beliefs of all processes.

        If no answer was scored, these are only `unusable_truths` and `no_answer`.

        Args:
            batch: This process's rollouts, scored and rewarded.
            local_rollouts: The scored rollouts of this process.
            weighed: The step values and token weights of this process's rollouts.
            outcomes: Outcome rewards of all processes' rollouts, (N,).
        """
        trainer, scored = self._trainer, batch.scored
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        if batch.generated.given_answers is None:
            self._no_answer.append(metrics["no_answer"])
        if not local_rollouts.belief.shape[2]:
            return {name: metrics[name] for name in ("unusable_truths", "no_answer")}
        diagnostics = rollout_diagnostics(
            local_rollouts.belief,
            local_rollouts.answer_logps,
            weighed.values,
            local_rollouts.state_mask,
            local_rollouts.hypothesis_mask,
            local_rollouts.rewards,
        )
        metrics |= belief_metrics(
            diagnostics,
            weighed.mask.any(dim=1),
            outcomes,
            group_size=trainer.num_generations,
            gather=trainer.accelerator.gather,
        )
        truth_belief = local_rollouts.belief[..., 0]
        if trainer.scorer.credit.hypotheses == "truth":
            metrics = {name: metrics[name] for name in metrics if name not in _OF_SEVERAL}
            truth_belief = local_rollouts.truth_plausibility  # alone it has all of the posterior
        gain = observation_gain(truth_belief, scored)
        metrics |= {} if gain is None else {"observation_gain": gain}
        if trainer.args.belief == "task" and local_rollouts.rewards is None:
            metrics.pop("discrepancy")
        metrics["scoring_tokens"] = sum(gather_object([scored.likelihoods.num_tokens]))
        metrics["steps_per_rollout"] = fmean(gather_object([*map(len, scored.step_ends)]))
        return metrics

    def _task_metrics(
        self, batch: RolloutBatch, local_rollouts: ScoredRollouts
    ) -> dict[str, float]:
        """Return metrics of what the task says of the hypotheses of all processes' rollouts."""
        trainer, scored, metrics = self._trainer, batch.scored, dict[str, float]()
        if scored.given is not None:
            metrics |= given_metrics(scored.given)
        if trainer.args.belief != "model" and local_rollouts.belief.shape[2]:
            # other processes may have more steps and hypotheses
            _, steps, size = scored.evidence.observation_logps.shape
            state_mask = local_rollouts.state_mask[:, : steps + 1]
            has_truth = [bool(one and one.has_truth) for one in scored.local_sets]
            names, sums = evidence_metrics(
                local_rollouts.belief[:, : steps + 1, :size],
                scored.evidence,
                state_mask,
                local_rollouts.hypothesis_mask[:, :size],
                torch.tensor(has_truth, device=state_mask.device),
                _observations(batch, state_mask[:, 1:]),
            )
            totals: Any = trainer.accelerator.reduce(sums, reduction="sum")
            means = {
                name: total / number
                for name, (total, number) in zip(names, totals.tolist(), strict=True)
                if number
            }
            metrics |= means
        if not trainer.scorer.credit.needs_truth:
            lengths = gather_object([*map(len, batch.generated.completion_ids)])
            if trainer._first_length is None:
                trainer._first_length = fmean(lengths)
            lists = scored.given or [None] * len(scored.sets)
            voted = [one for one, given in zip(scored.sets, lists, strict=True) if given is None]
            metrics |= unlabelled_metrics(
                voted, trainer.num_generations, lengths, trainer._first_length
            )
        return metrics

    def _credit_metrics(
        self,
        local_rollouts: ScoredRollouts,
        weighed: TokenWeights,
        outcomes: Tensor,
        num_groups: int,
    ) -> dict[str, float]:
        """Return metrics that compare the weights before whitening with the outcomes.

        Args:
            local_rollouts: The scored rollouts of this process.
            weighed: The step values and token weights of this process's rollouts.
            outcomes: Outcome rewards of this process's rollouts, (B,).
            num_groups: Number of groups of all processes.
        """
        moments = weight_moments(
            weighed.unwhitened,
            outcomes,
            weighed.mask & outcomes.isfinite()[:, None],
            local_rollouts.groups,
            num_groups=num_groups,
        )
        gains = outcome_gains(
            local_rollouts.belief, local_rollouts.members, local_rollouts.state_mask
        )
        trainer = self._trainer
        totals: Any = trainer.accelerator.reduce(
            torch.cat([moments.flatten(), gains]), reduction="sum"
        )
        gain, spread = mean_and_spread(totals[-3:])
        shares = weight_shares(totals[:-3].reshape(-1, 6))
        metrics = shares | {"outcome_gain": gain, "outcome_gain_spread": spread}
        if trainer.scorer.credit.needs_truth:
            return metrics
        return {name: value for name, value in metrics.items() if not math.isnan(value)}

    def log_clipped_ratios(self, output: Mapping[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked.

        TRL logs only the ratios after truncation or masking.

        Args:
            output: What TRL's `_generate_and_score_completions` returned.
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
        """Add BARL's columns to TRL's completions table, and put BARL's weights in `advantage`.

        Args:
            local_rows: The columns of each of this process's rollouts, by name; empty dictionaries
                where nothing was scored.
        """
        rows, logs = gather_object(local_rows), self._trainer._logs
        self._printed.extend(rows)
        # TRL's table has a training batch's rows; an evaluation's replace only some of them
        self._is_printed = self._is_printed and not self._trainer.model.training
        for column in _TABLE_COLUMNS:
            logs["extra"][column].extend(row.get(column) for row in rows)
        if "advantage" in rows[0]:
            advantages = logs["advantages"]
            for _ in range(min(len(rows), len(advantages))):
                advantages.pop()
            advantages.extend(row["advantage"] for row in rows)

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
        """Warn that the loss is no sign of learning, that answers are not read, or of the weights.

        The weights are worth a warning if they nearly equal those of plain RL, or work against the
        outcome.
        """
        trainer = self._trainer
        if metrics and trainer.scorer.credit.value_normalization != "none":
            trainer._say_once("loss", _LOSS)
        if trainer.reads_boxes and self._no_answer:
            trainer._say_once("barl/no_answer", no_answer_advice(fmean(self._no_answer)))
        names = ("barl/outcome_gain", "barl/outcome_gain_spread", "barl/outcome_r2")
        is_barl = trainer.args.credit == "barl"  # the outcome gain is defined for BARL's weights
        if is_barl and all(map(metrics.get, names)):
            gain, spread, r2 = (fmean(metrics[name]) for name in names)
            text = advice(gain, spread, r2, consistency_beta=trainer.args.consistency_beta)
            trainer._say_once(gain < WORKS_AGAINST, text)


def _observations(batch: RolloutBatch, step_mask: Tensor) -> Tensor:
    """Return which steps may have brought an observation: of an agent the turns that have one."""
    scored, generated = batch.scored, batch.generated
    if not generated.has_tools and generated.masks is None:
        return step_mask
    seen = torch.zeros_like(step_mask)
    for row, ends, turns in zip(seen, scored.step_ends, scored.turns, strict=True):
        stops = {turn.stop for turn in turns if turn.has_observation}
        row[: len(ends)] = torch.tensor([end in stops for end in ends], dtype=torch.bool)
    return seen


def _table_rows(
    batch: RolloutBatch, local_rollouts: ScoredRollouts, weighed: TokenWeights
) -> list[dict[str, Any]]:
    """Return the row of each of this process's rollouts, for the table and for the console.

    Of many hypotheses a row has the likeliest: there may be thousands.
    """
    scored, belief = batch.scored, local_rollouts.belief.cpu()
    means = (weighed.weights.sum(dim=1) / weighed.mask.sum(dim=1).clamp(min=1)).tolist()
    last = at_last_state(belief, local_rollouts.state_mask.cpu())
    answers = scored.answers[batch.start :][: len(means)]
    columns = scored.local_sets, weighed.values, scored.step_ends, means, answers
    table = []
    for n, (hypotheses, values, ends, mean, answer) in enumerate(zip(*columns, strict=True)):
        texts = list(hypotheses.answers) if hypotheses else []
        has_truth = hypotheses is not None and hypotheses.has_truth
        shown, number = texts, len(texts)
        if belief.shape[2]:
            always = 0 if has_truth else None, local_rollouts.members[n]
            shown = [texts[i] for i in likeliest(belief[n, :, :number], *always)]
        table.append(
            {
                "hypotheses": shown or None,
                "others": number - len(shown),
                "has_truth": has_truth,
                "step_values": [round(value, 4) for value in values[: len(ends)].tolist()],
                "advantage": mean,
                "answer": answer,
                "belief": last[n, 0].item() if has_truth and belief.shape[2] else None,
            }
        )
    return table
