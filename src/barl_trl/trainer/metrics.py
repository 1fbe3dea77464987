"""What a run logs of its beliefs and weights, and the lines that say what no metric says.

Nothing here changes a weight. docs/metrics.md says of each metric what is healthy.
"""

import io
import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from jaxtyping import Float
from torch import Tensor
from transformers import TrainerCallback

from ..credit.rollouts import ScoredRollouts, at_last_state
from ..credit.token_weights import TokenWeights
from ..hypotheses import given_metrics, hypothesis_metrics, no_answer_advice
from ..posterior import discrepancy, task_belief
from .boundary import readable
from .records import likeliest

LOW = {
    "truth_mass": (
        (1e-3, 10),
        "the true answers count for nothing. The model may write answers in another form than "
        "solution_column has them, or not understand the elicitation: change either, or try "
        "consistency_beta=0. With the task's belief, observation_likelihood rules them out.",
    ),
    "belief_shift": (
        (1e-2, 10),
        "the belief does not move within a rollout, so that all steps weigh alike. The model may "
        "not understand the elicitation (change it), or the observations may rule nothing out. "
        "credit='grpo' saves the scoring.",
    ),
    "outcome_gain": (
        (0.7, 3),
        "the belief favours wrong answers, and takes signal away that plain RL has (1). Try "
        "consistency_beta=inf, else credit='grpo'.",
    ),
}
"""Metric -> its bound, the number of rollout batches in a row (10 if chance may cause one) after
which it is said that the metric is below it, and what that means."""

_LOSS = (
    "loss stays near 0 by construction: the weights of a rollout batch have mean 0. reward says "
    "whether the model learns."
)
_OF_BARL = (
    "credit='barl' with several turns: who asks a question looks no better than who answers at "
    "once. V(t) assumes that a rollout believes what it answered, and that other hypotheses would "
    "have brought the same observations (docs/method.md). credit='belief_critic' assumes neither."
)
_OF_SEVERAL = ("truth_mass", "posterior_entropy")
"""Metrics that are constant if the truth is the only hypothesis."""
_OF_TRUTHS = "truth_mass discrepancy outcome_gain observation_gain value_spread_equal_outcome"
"""Metrics that are left out where a prompt has no true answer."""


class BatchLog(TrainerCallback):
    """Log every rollout batch: metrics of all processes, rows of TRL's table, lines of advice.

    What it relies on in TRL: `log` averages `_metrics` and empties it; `_logs` has a deque for each
    column of the completions table; `_metrics` has the `step_time` of a step when it ends.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._no_answer: list[float] = []  # share in each batch whose answers were read from texts
        self._in_a_row = Counter[str]()
        self._scoring = self._training = 0.0  # seconds so far
        self._say_too_long(trainer.args.max_completion_length)

    def log_rollouts(
        self, batch: Any, local_rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> None:
        """Log this process's part of a `RolloutBatch`. All processes must call this together."""
        trainer, scored, generated = self._trainer, batch.scored, batch.generated
        sequences = zip(generated.prompt_ids, generated.completion_ids, strict=True)
        longest = max(len(prompt) + len(completion) for prompt, completion in sequences)
        local = longest, scored.likelihoods.num_tokens, [*map(len, scored.turns)]
        lengths, tokens, turns = zip(*gather_object([local]), strict=True)
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        if generated.given_answers is None:
            self._no_answer.append(metrics["no_answer"])
        if local_rollouts.belief.shape[2]:
            metrics["scoring_tokens"] = sum(tokens)
        else:
            metrics = {name: metrics[name] for name in ("unusable_truths", "no_answer")}
        if scored.given is not None:
            metrics |= given_metrics(scored.given)
        metrics |= _means_of_processes(trainer, batch, local_rollouts, weighed)
        if not trainer.credit.needs_truth:
            metrics["answer_entropy"] = _entropy_of_votes(scored, trainer.num_generations)
        metrics = {name: value for name, value in metrics.items() if not math.isnan(value)}
        logged = trainer._metrics["train"]
        for name, value in metrics.items():
            logged[f"barl/{name}"].append(value)
        self._scoring += sum(logged.get("barl/scoring_seconds", [])[-1:])
        self._say_too_long(max(lengths))
        self._advise(metrics, [*chain.from_iterable(turns)])
        self.log_table(_table_rows(scored, local_rollouts, weighed))

    def check_rewards(self, rewards: Float[Tensor, "rollout function"]) -> Tensor:
        """Return the rewards of all processes with NaN, a missing reward, for infinity.

        The share of rollouts with an infinite reward is logged as `infinite_rewards`. It is said if
        no rollout has a reward, which TRL takes for a reward of 0.

        Raises:
            ValueError: A reward is infinite in the first step.
        """
        trainer, is_infinite = self._trainer, rewards.isinf()
        if rewards.isnan().all() and trainer.credit.needs_truth:
            trainer._say_once(
                "no reward",
                f"no rollout of a batch of {len(rewards)} has a reward: reward_funcs returned NaN "
                "or None for each, so that nothing is learned from them.",
            )
        if not is_infinite.any():
            return rewards
        if not trainer.state.global_step:
            row, column = is_infinite.nonzero()[0].tolist()
            raise ValueError(
                f"{trainer.reward_func_names[column]} must return finite rewards, got "
                f"{rewards[row, column].item()}: return None for a completion without a reward."
            )
        share = is_infinite.any(dim=1).float().mean().item()
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        metrics["infinite_rewards"].append(share)
        return rewards.masked_fill(is_infinite, math.nan)

    def log_clipped_ratios(self, output: Mapping[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked, from what
        TRL's `_generate_and_score_completions` returned. TRL logs only what came of them.
        """
        trainer, ratio = self._trainer, output["importance_sampling_ratio"]  # (B, L) or (B, 1)
        bounds = [0.0]  # what a ratio beyond a bound became
        if not trainer.vllm_importance_sampling_mode.endswith("mask"):
            names = ("vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max")
            bounds = [bound for name in names if (bound := getattr(trainer, name)) is not None]
        mask = (output["completion_mask"] * output.get("tool_mask", 1)).bool()
        is_clipped = torch.isin(ratio, ratio.new_tensor(bounds))
        counts = torch.stack([(is_clipped & mask).sum(), mask.sum()])
        clipped, number = trainer.accelerator.reduce(counts, reduction="sum").tolist()
        metrics = trainer._metrics["train" if trainer.model.training else "eval"]
        name = "sampling/importance_sampling_ratio/frac_clipped"
        metrics[name].append(clipped / max(number, 1))

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        metrics = self._trainer._metrics["train"]
        # the share of all time so far: several optimizer steps may train on one rollout batch
        self._training += sum(metrics.get("step_time", [])[-1:])
        if self._training:
            metrics["barl/scoring_share_of_time"].append(self._scoring / self._training)

    def log_table(self, local_rows: list[dict[str, Any]]) -> None:
        """Add BARL's columns to TRL's completions table, and put BARL's weights in `advantage`.

        `local_rows` has the columns of each of this process's rollouts, by name. In an evaluation
        it has empty dictionaries, so that the table's columns stay equally long.
        """
        rows, logs = gather_object(local_rows), self._trainer._logs
        for texts in (logs["prompt"], logs["completion"]):
            last = [texts.pop() for _ in range(min(len(rows), len(texts)))]
            texts.extend(map(_table_cell, reversed(last)))
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # of a console that is not UTF-8
        for column in ("hypotheses", "step_values"):
            logs["extra"][column].extend(row.get(column) for row in rows)
        if "advantage" in rows[0]:
            advantages = logs["advantages"]
            for _ in range(min(len(rows), len(advantages))):
                advantages.pop()
            advantages.extend(row["advantage"] for row in rows)

    def _advise(self, metrics: Mapping[str, float], turns: list[int]) -> None:
        """Say what a batch's metrics and numbers of turns mean, each once in a run."""
        trainer, credit = self._trainer, self._trainer.credit
        if credit.value_normalization != "none":
            trainer._say_once("loss", _LOSS)
        if trainer.reads_boxes and self._no_answer:
            trainer._say_once("barl/no_answer", no_answer_advice(fmean(self._no_answer)))
        trainer._say_once("turns", _turn_advice(trainer, min(turns), max(turns)))
        for name, ((bound, batches), text) in LOW.items():
            is_meant = trainer.args.credit == "barl" or name != "outcome_gain"  # BARL's weights
            if name in metrics and is_meant and credit.hypotheses != "none":
                is_low = metrics[name] < bound
                self._in_a_row[name] = is_low * (self._in_a_row[name] + 1)
                if self._in_a_row[name] >= batches:
                    said = f"barl/{name} is {metrics[name]:.2g}, and stays low: {text}"
                    trainer._say_once(f"barl/{name}", said)

    def _say_too_long(self, length: int | None) -> None:
        config = self._trainer.model.config.get_text_config()
        positions = getattr(config, "max_position_embeddings", None)
        if positions and length and length > positions:
            self._trainer._say_once(
                "positions",
                f"{length} tokens are more than the model's {positions} positions, after which "
                f"its tokens are of little use: max_completion_length={positions} less the prompt "
                "is the most.",
            )


def _table_cell(messages: Any) -> Any:
    """Return a prompt or completion as TRL can print it, and write it into a column with others."""
    messages = readable(messages)
    for message in messages if isinstance(messages, list) else ():
        for call in message.get("tool_calls") or ():
            given = call["function"]["arguments"]  # of any type, in every call
            given = given if isinstance(given, dict) else {"arguments": given}
            call["function"]["arguments"] = json.dumps(given, ensure_ascii=False, default=str)
    return messages


def _turn_advice(trainer: Any, few: int, many: int) -> str | None:
    """Return a warning of a credit that misleads where rollouts have `few` to `many` turns."""
    name, options = trainer.args.credit, trainer.args.settings["credit_options"]
    if name == "barl":
        is_wrong = options.get("outcome_mode") == "hypothesis"
        text = _OF_BARL + " outcome_mode='hypothesis' is wrong for the same reason." * is_wrong
        return text if many > 1 else None
    biased = {
        "gain_normalization='joint'": options.get("gain_normalization") == "joint",
        "credit_baseline='step'": trainer.credit.credit_baseline == "step",
        "credit='delta_belief'": name == "delta_belief",
    }
    setting = next((setting for setting, is_biased in biased.items() if is_biased), None)
    text = (
        f"{setting} compares or sums the n-th turns of rollouts, which have {few} to {many}: that "
        "is biased where the model decides when to stop. Try credit='belief_critic'."
    )
    return text if setting and few < many and many > 1 else None


def _means_of_processes(
    trainer: Any, batch: Any, rollouts: ScoredRollouts, weighed: TokenWeights
) -> dict[str, float]:
    """Return the metrics that are means over what all processes have; NaN for a mean of nothing."""
    of_groups = batch.outcomes.view(-1, trainer.num_generations)
    moments = _weight_moments(weighed, batch.local(batch.outcomes), rollouts.groups, len(of_groups))
    sums = _local_sums(trainer, batch, rollouts, weighed) if rollouts.belief.shape[2] else {}
    totals: Any = torch.cat([moments.flatten(), *sums.values()])
    totals = trainer.accelerator.reduce(totals, reduction="sum")
    moments, pairs = totals[: moments.numel()].view_as(moments), totals[moments.numel() :]
    means = {
        name: total / number if number else math.nan
        for name, (total, number) in zip(sums, pairs.view(-1, 2).tolist(), strict=True)
    }
    means["outcome_r2"] = _r2(moments)
    if sums:
        is_equal = (of_groups == of_groups[:, :1]).all(dim=1)
        values: Any = trainer.accelerator.gather(_mean_values(rollouts, weighed))
        values = values.view_as(of_groups)[is_equal]
        squares = (values - values.nanmean(dim=1, keepdim=True)).square()
        means["value_spread_equal_outcome"] = squares.nanmean(dim=1).sqrt().nanmean().item()
    if any(hypotheses and not hypotheses.has_truth for hypotheses in batch.scored.sets):
        means = {name: means[name] for name in means if name not in _OF_TRUTHS.split()}
    return means


def _local_sums(
    trainer: Any, batch: Any, rollouts: ScoredRollouts, weighed: TokenWeights
) -> dict[str, Tensor]:
    """Return, by name, the sum and the number of what a metric averages, of this process."""
    scored, generated, belief = batch.scored, batch.generated, trainer.args.belief
    sums = _belief_sums(rollouts, weighed)
    seen = torch.zeros_like(rollouts.step_mask)
    for row, ends, turns in zip(seen, scored.step_ends, scored.turns, strict=True):
        stops = {turn.stop for turn in turns if turn.has_observation}
        row[: len(ends)] = torch.tensor([end in stops for end in ends], dtype=torch.bool)
    truth = rollouts.belief[..., 0]
    if trainer.credit.hypotheses == "truth":
        sums = {name: sums[name] for name in sums if name not in _OF_SEVERAL}
        truth = rollouts.truth_plausibility  # alone it has all of the posterior
    sums["observation_gain"] = _sum(truth[:, 1:] - truth[:, :-1], seen)
    if belief == "task" and rollouts.rewards is None:
        del sums["discrepancy"]
    if belief != "model":
        is_text = not generated.has_tools and generated.masks is None
        has_truth = seen.new_tensor([bool(one and one.has_truth) for one in scored.local_sets])
        seen = rollouts.step_mask if is_text else seen  # each step of a text may tell something
        sums |= _evidence_sums(rollouts, scored.evidence, has_truth, seen)
    steps = rollouts.step_mask.sum(dim=1)
    sums["steps_per_rollout"] = _sum(steps, steps >= 0)
    return sums


def _sum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the sum and the number of the values that the mask keeps, in float64."""
    return torch.stack([values.where(mask, 0).double().sum(), mask.double().sum()])


def _belief_sums(rollouts: ScoredRollouts, weighed: TokenWeights) -> dict[str, Tensor]:
    """Sum what describes the beliefs and values of rollouts that have a weight.

    The values of a right rollout and of one with the same history that answers y_j differ by the
    outcome gain 1 + w_0(t) - w_j(t), with the posterior w; in plain RL by 1 (docs/credit.md).
    """
    belief, state_mask = rollouts.belief, rollouts.state_mask
    states, is_weighed = state_mask.sum(dim=1), weighed.mask.any(dim=1)
    wrong = rollouts.hypothesis_mask[:, 1:]
    has_wrong = is_weighed & wrong.any(dim=1)  # a single hypothesis always has the mass 1
    shift = (at_last_state(belief, state_mask) - belief[:, 0]).abs().sum(dim=1) / 2
    # the discrepancy never decreases, and is 0 in padded states
    gaps = discrepancy(rollouts.answer_logps, rewards=rollouts.rewards, state_mask=state_mask)
    gaps = gaps.amax(dim=1)[:, 1:].where(wrong, 0.0)
    answered = torch.tensor([member or 0 for member in rollouts.members], device=belief.device)
    gains = 1 + belief[..., 0] - belief.take_along_dim(answered[:, None, None], dim=-1)[..., 0]
    entropy, values = torch.special.entr(belief).sum(dim=(1, 2)), _mean_values(rollouts, weighed)
    return {
        "value": _sum(values, values.isfinite()),
        "posterior_entropy": _sum(entropy / states, is_weighed),
        "truth_mass": _sum(belief[..., 0].sum(dim=1) / states, is_weighed),
        "belief_shift": _sum(shift, has_wrong & (states > 1)),
        "discrepancy": _sum(gaps.sum(dim=1) / wrong.sum(dim=1), has_wrong),
        "outcome_gain": _sum(gains[:, :-1], rollouts.step_mask & (answered > 0)[:, None]),
    }


def _evidence_sums(
    rollouts: ScoredRollouts, evidence: Any, has_truth: Tensor, is_observation: Tensor
) -> dict[str, Tensor]:
    """Sum what observations, (B, T), did to beliefs; of `has_truth`, (B,), 0 is the truth."""
    _, steps, size = evidence.observation_logps.shape  # other processes may have more of them
    exists = rollouts.hypothesis_mask.any(dim=1)
    log_prior = evidence.log_prior.masked_fill(~rollouts.hypothesis_mask[:, :size], -math.inf)
    _, is_contradicted = task_belief(log_prior, evidence.observation_logps)
    contradicted = _sum(is_contradicted.double(), is_observation[:, :steps] & exists[:, None])
    unusable = torch.stack([contradicted[1] * 0 + evidence.unusable, contradicted[1]])
    first, last = rollouts.belief[:, 0], at_last_state(rollouts.belief, rollouts.state_mask)
    return {
        "entropy_before": _sum(torch.special.entr(first).sum(dim=1), exists),
        "entropy_after": _sum(torch.special.entr(last).sum(dim=1), exists),
        "truth_mass_after": _sum(last[:, 0], exists & has_truth),
        "observations_contradicted": contradicted,
        "observations_unusable": unusable,
    }


def _mean_values(rollouts: ScoredRollouts, weighed: TokenWeights) -> Tensor:
    """Return the mean value of each rollout's steps, (B,); NaN if it has no step or no weight."""
    means = weighed.values.sum(dim=1) / rollouts.step_mask.sum(dim=1)
    return means.masked_fill(~weighed.mask.any(dim=1), math.nan)


def _weight_moments(
    weighed: TokenWeights, outcomes: Tensor, groups: Tensor, num_groups: int
) -> Tensor:
    """Return each group's number of tokens and sums of V, v, V², v² and V v; V are the weights."""
    mask = weighed.mask & outcomes.isfinite()[:, None]
    value = weighed.unwhitened.double().masked_fill(~mask, 0.0)
    outcome = outcomes.double()[:, None].expand_as(value).masked_fill(~mask, 0.0)
    columns = (mask.double(), value, outcome, value**2, outcome**2, value * outcome)
    moments = torch.stack([column.sum(dim=1) for column in columns], dim=1)
    return moments.new_zeros(num_groups, 6).index_add_(0, groups, moments)


def _r2(moments: Tensor) -> float:
    """Return R² of V with v inside groups, from their moments; NaN if either is constant there."""
    count, value, outcome, values, outcomes, both = moments[moments[:, 0] > 0].unbind(dim=1)
    of_values = (values - value**2 / count).clamp(min=0)
    of_outcomes = (outcomes - outcome**2 / count).clamp(min=0)
    shared = (both - value * outcome / count).sum()
    is_tied = of_outcomes <= 1e-9 * outcomes.clamp(min=1)
    if is_tied.all() or of_values.sum() <= 1e-9 * values.sum():
        return math.nan
    return (shared**2 / (of_values.sum() * of_outcomes.sum())).item()


def _entropy_of_votes(scored: Any, group_size: int) -> float:
    """Return the mean entropy of answers, as a share of the largest, where votes are the prior."""
    entropies = []
    lists = scored.given or [None] * len(scored.sets)
    for hypotheses, listed in zip(scored.sets, lists, strict=True):
        if hypotheses is not None and not hypotheses.has_truth and listed is None:
            votes = Counter(member for member in hypotheses.members if member is not None)
            shares = [number / votes.total() for number in votes.values()]
            entropy = -sum(share * math.log(share) for share in shares)
            entropies.append(entropy / math.log(max(group_size, 2)))
    return fmean(entropies) if entropies else math.nan


def _table_rows(
    scored: Any, local_rollouts: ScoredRollouts, weighed: TokenWeights
) -> list[dict[str, Any]]:
    """Return rows of TRL's completions table, with the likeliest of perhaps many hypotheses."""
    belief = local_rollouts.belief.cpu()
    means = (weighed.weights.sum(dim=1) / weighed.mask.sum(dim=1).clamp(min=1)).tolist()
    columns = scored.local_sets, weighed.values, scored.step_ends, means, local_rollouts.members
    table = []
    for n, (hypotheses, values, ends, mean, member) in enumerate(zip(*columns, strict=True)):
        shown = list(hypotheses.answers) if hypotheses else []
        if belief.shape[2]:
            truth = 0 if hypotheses and hypotheses.has_truth else None
            shown = [shown[i] for i in likeliest(belief[n, :, : len(shown)], truth, member)]
        values = [round(value, 4) for value in values[: len(ends)].tolist()]
        table.append({"hypotheses": shown or None, "step_values": values, "advantage": mean})
    return table
