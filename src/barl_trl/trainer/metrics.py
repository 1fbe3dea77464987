"""What a run logs of its beliefs and weights, and the lines that say what no metric says.

Nothing here changes a weight. docs/metrics.md says of each metric what is healthy.
"""

import io
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from operator import or_
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical
from transformers import TrainerCallback

from ..credit.rollouts import ScoredRollouts, at_last_state
from ..credit.token_weights import TokenWeights
from ..hypotheses import given_metrics, hypothesis_metrics, no_answer_advice
from ..posterior import discrepancy, task_belief
from ..rewards import calls_tool
from .boundary import readable
from .records import likeliest

_SIGNS = {
    "truth_mass": (1, 10, "the true answers count for nothing."),
    "belief_shift": (1, 10, "the belief does not move within a rollout."),
    "outcome_gain": (1, 3, "the belief favours wrong answers; plain RL has 1. Try credit='grpo'."),
    "observations_unusable": (0.5, 3, "the task's functions return NaN or infinity."),
    "observations_contradicted": (0.5, 3, "no hypothesis allows them, so they are left out."),
    "truth_not_given": (0.5, 3, "lists lack the truth, or its prior weight is 0. It is added."),
    "unusable_lists": (0.5, 3, "rows or environments list no usable hypotheses."),
    "unusable_priors": (0.5, 3, "no weights of at least 0, one for each hypothesis listed."),
    "equal": (1, 3, "observation_likelihood tells no hypothesis from another."),
    "numbers": (0.5, 1, "observation_likelihood returns numbers beyond 1e6, or some above 0, none "
                "below, as probabilities are: return logarithms, and -inf for what cannot be."),
    "no_hypothesis": (0.5, 1, "no prompt of a rollout batch has a hypothesis: nothing is learned. "
                      "They are true answers, lists in hypotheses_column or, without a truth, "
                      "rollouts' answers."),
    "outcome_mismatch": (1, 1, "this share of rewards is not what the credit takes in their place, "
                         "reward_weights for the true answer and 0 for others, and is not trained. "
                         "Give outcome_under, or mark costs (docs/beliefs.md)."),
}  # fmt: skip
"""Bad sign -> in what share of the last ten rollout batches, after how many it is said, and what it
means. With a share of 1 so many in a row must have it, 10 if chance may cause one."""
_OF_MODEL = " The model may not understand the elicitation, or write answers in another form than "
_OF_MODEL += "solution_column has them: change either. credit='grpo' saves the scoring."
_OF_TASK = " The prior or observation_likelihood is wrong, or rollouts bring no observations."
_OF_BARL = (
    "credit='barl' with several turns: who asks looks no better than who answers at once. V(t) "
    "assumes that a rollout believes what it answered, and would have observed the same under "
    "other hypotheses (docs/method.md). credit='belief_critic' assumes neither."
)
_LIMITS = "max_completion_length, of agents also max_tool_calling_iterations"
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
        self._no_answer: list[Any] = []  # shares of each batch whose answers were read from texts
        lengths = {name: n if share == 1 else 10 for name, (share, n, _) in _SIGNS.items()}
        self._signs = {name: deque[float](maxlen=length) for name, length in lengths.items()}
        self._scoring = self._training = 0.0  # seconds so far

    def log_rollouts(
        self, batch: Any, local_rollouts: ScoredRollouts, weighed: TokenWeights
    ) -> None:
        """Log this process's part of a `RolloutBatch`. All processes must call this together."""
        trainer, scored, generated = self._trainer, batch.scored, batch.generated
        ends = [*map(or_, scored.is_cut_off, map(calls_tool, generated.completions))]
        local = scored.likelihoods.num_tokens, [*map(len, scored.turns)], ends
        tokens, turns, cut_off = zip(*gather_object([local]), strict=True)
        metrics = hypothesis_metrics(scored.sets, scored.answers)
        if share := metrics.get("uncompared"):
            text = f"{share:.1%} of a batch's answers take a parser too long to be compared with "
            trainer._say_once("uncompared", f"{text}others: each is a hypothesis of its own.")
        if generated.given_answers is None:
            pairs = zip(scored.answers, chain.from_iterable(cut_off), strict=True)
            is_lost = fmean(answer is None and is_cut for answer, is_cut in pairs)
            malformed = [0.0, *trainer._metrics["train"].get("barl/malformed_calls", ())][-1]
            self._no_answer.append((metrics["no_answer"], is_lost, malformed))
        if local_rollouts.belief.shape[2]:
            metrics["scoring_tokens"] = sum(tokens)
            self._tell_long_lists(scored, generated)
        else:
            are_there = generated.given_answers is not None or metrics["unusable_truths"] < 1
            are_there |= trainer.credit.needs_truth or trainer.credit.hypotheses != "none"
            metrics = {n: metrics[n] for n in ("unusable_truths", "no_answer") if are_there}
        metrics |= {} if scored.given is None else given_metrics(scored.given)
        metrics |= _means_of_processes(trainer, batch, local_rollouts, weighed)
        if not trainer.credit.needs_truth:
            metrics["answer_entropy"] = _entropy_of_votes(scored, trainer.num_generations)
        metrics = {name: value for name, value in metrics.items() if not math.isnan(value)}
        signs, logged = _bad_signs(trainer, metrics, batch.outcomes), trainer._metrics["train"]
        for name, value in metrics.items():
            logged[f"barl/{name}"].append(value)
        self._scoring += sum(logged.get("barl/scoring_seconds", [])[-1:])
        counts = [*chain.from_iterable(turns)]
        trainer._say_once("turns", _turn_advice(trainer, min(counts), max(counts)))
        is_used = trainer._accuracy_rewards or trainer.credit.hypotheses == "rollouts"
        if trainer.reads_boxes and self._no_answer and is_used:
            share, lost, malformed = map(fmean, zip(*self._no_answer, strict=True))
            said = no_answer_advice(share, lost, _LIMITS, malformed)
            trainer._say_once("barl/no_answer", said)
        self._tell_signs(metrics, signs)
        self.log_table(_table_rows(scored, local_rollouts, weighed))

    def _tell_long_lists(self, scored: Any, generated: Any) -> None:
        """Say it if answers, on lists, take more tokens than this process's rollouts themselves."""
        own = sum(map(len, [*generated.prompt_ids, *generated.completion_ids]))
        asked = sum(len(ends) + 1 for ends in scored.step_ends)
        asked *= len(self._trainer.scorer.elicitation.token_ids)
        answers = scored.likelihoods.num_tokens - own - asked
        most = max((len(one.answers) for one in scored.sets if one), default=0)
        if scored.given and most > self._trainer.num_generations and answers > own:
            text = f"{answers / scored.likelihoods.num_tokens:.0%} of tokens scored are answers: "
            text += "rows list many. belief='task' asks the model for none, max_hypotheses for few."
            self._trainer._say_once("long lists", text)

    def check_rewards(self, rewards: Float[Tensor, "rollout function"]) -> Tensor:
        """Return the rewards of all processes with NaN, a missing reward, for infinity.

        The share of rollouts with an infinite reward is logged as `infinite_rewards`. It is said if
        no rollout has a reward, which TRL takes for a reward of 0.

        Raises:
            ValueError: A reward is infinite in the first step.
        """
        trainer, is_infinite = self._trainer, rewards.isinf()
        is_needed = trainer.credit.needs_truth or trainer.credit.hypotheses == "none"
        if is_needed and rewards[:, (~trainer._is_return).to(rewards.device)].isnan().all():
            of_turns = trainer._generated.turn_rewards or ()
            if not any(gather_object([reward == reward for row in of_turns for reward in row])):
                text = f"no rollout of a batch of {len(rewards)} has a reward: all are NaN or None"
                trainer._say_once("no reward", f"{text}, and nothing is learned.")
        if not is_infinite.any():
            return rewards
        if not trainer.state.global_step:
            name = trainer.reward_func_names[int(is_infinite.nonzero()[0, 1])]
            raise ValueError(f"{name} must return finite rewards or None, got infinity.")
        logged = trainer._metrics["train" if trainer.model.training else "eval"]
        logged["infinite_rewards"].append(is_infinite.any(dim=1).float().mean().item())
        return rewards.masked_fill(is_infinite, math.nan)

    def log_clipped_ratios(self, output: Mapping[str, Any]) -> None:
        """Log the share of tokens whose vLLM importance ratio was truncated or masked, from what
        TRL's `_generate_and_score_completions` returned. TRL logs only what came of them.
        """
        trainer, ratio = self._trainer, output["importance_sampling_ratio"]  # (B, L) or (B, 1)
        names = [f"vllm_importance_sampling_clip_{of}" for of in ("min", "max")]
        bounds = [bound for name in names if (bound := getattr(trainer, name)) is not None]
        if trainer.vllm_importance_sampling_mode.endswith("mask"):
            bounds = [0.0]  # what a ratio beyond a bound became
        mask = (output["completion_mask"] * output.get("tool_mask", 1)).bool()
        is_clipped = torch.isin(ratio, ratio.new_tensor(bounds))
        counts = torch.stack([(is_clipped & mask).sum(), mask.sum()])
        clipped, number = trainer.accelerator.reduce(counts, reduction="sum").tolist()
        logged = trainer._metrics["train" if trainer.model.training else "eval"]
        logged["sampling/importance_sampling_ratio/frac_clipped"].append(clipped / max(number, 1))

    def on_step_end(self, args, state, control, **kwargs):  # noqa: D102 (transformers')
        metrics = self._trainer._metrics["train"]
        # the share of all time so far: several optimizer steps may train on one rollout batch
        self._training += sum(metrics.get("step_time", [])[-1:])
        if self._training:
            metrics["barl/scoring_share_of_time"].append(self._scoring / self._training)
        is_over = control.should_training_stop or state.global_step >= state.max_steps
        control.should_log |= is_over and args.logging_strategy != "no"

    def log_table(self, local_rows: list[dict[str, Any]]) -> None:
        """Add BARL's columns to TRL's completions table, and put BARL's weights in `advantage`.

        `local_rows` has the columns of each of this process's rollouts, by name. In an evaluation
        it has empty dictionaries, so that the table's columns stay equally long.
        """
        rows, logs = gather_object(local_rows), self._trainer._logs
        for name in ("prompt", "completion", "advantages"):
            last = [logs[name].pop() for _ in range(min(len(rows), len(logs[name])))][::-1]
            pairs = zip(rows[len(rows) - len(last) :], last, strict=True)
            own = [row.get("advantage", of_trl) for row, of_trl in pairs]
            logs[name].extend(own if name == "advantages" else map(_table_cell, last))
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "replace":
            with suppress(OSError):
                sys.stdout.reconfigure(errors="replace")  # of a console that is not UTF-8
        for column in ("hypotheses", "step_values"):
            logs["extra"][column].extend(row.get(column) for row in rows)

    def _tell_signs(self, metrics: Mapping[str, float], signs: Mapping[str, float]) -> None:
        """Say which bad signs recur, and what they mean."""
        for name, sign in signs.items():
            share, batches, text = _SIGNS[name]
            recent = self._signs[name]
            recent.append(sign)
            if len(recent) >= batches and min(sign, fmean(recent)) >= share:
                if name in ("truth_mass", "belief_shift"):
                    text += _OF_TASK if self._trainer.args.belief != "model" else _OF_MODEL
                value = f"barl/{name} is {metrics[name]:.2g}: " if name in metrics else ""
                about = "belief_shift" if name == "equal" else name
                self._trainer._say_once(f"barl/{about}", value + text)


def _bad_signs(trainer: Any, metrics: dict[str, float], outcomes: Tensor) -> dict[str, float]:
    """Return a batch's bad signs, from 0 to 1; remove from its metrics what is no metric.

    While all rewards tie, a metric of the belief is no sign.
    """
    equal, positive, large = (metrics.pop(f"_{name}", 0) for name in ("equal", "positive", "large"))
    signs = {name: min(metrics.get(name, 0.0), 1.0) for name in [*_SIGNS][3:8]}
    if trainer.args.belief == "model" and trainer.args.prior_column is None:
        signs["truth_not_given"] = 0.0  # such a list need not have it
    is_lost = max(signs["observations_unusable"], signs["observations_contradicted"]) >= 0.5
    signs["equal"] = equal == 1 and not is_lost
    signs["numbers"] = positive == 1 or large > 0
    are_needed = trainer.credit.hypotheses != "none"
    signs["no_hypothesis"] = are_needed and metrics["unusable_truths"] == 1
    signs["outcome_mismatch"] = metrics.get("outcome_mismatch", 0) > 0
    of_groups = outcomes.view(-1, trainer.num_generations)
    if not are_needed or (of_groups == of_groups[:, :1]).all():
        return signs
    least = 0.1 / max(1, metrics.get("hypotheses_per_prompt", 1))  # each of many has little
    bounds = {"truth_mass": min(1e-3, least), "belief_shift": 0 if is_lost else 1e-2}
    if trainer.args.credit == "barl":  # it says something of BARL's weights alone
        bounds["outcome_gain"] = 0.7
    low = {name: metrics[name] < bound for name, bound in bounds.items() if name in metrics}
    return signs | low


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
    if many > 1 and name == "barl":
        is_wrong = options.get("outcome_mode") == "hypothesis"
        return _OF_BARL + " outcome_mode='hypothesis' is wrong for the same reason." * is_wrong
    is_joint = name != "barl" and options.get("gain_normalization") == "joint"
    setting = "gain_normalization='joint'" if is_joint else f"credit={name!r}"
    if not (is_joint or name == "delta_belief") or not few < many or many < 2:
        return None
    text = f"{setting} compares or sums the n-th turns of rollouts with {few} to {many}: that is"
    return f"{text} biased where the model decides when to stop. Try credit='belief_critic'."


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
    total, number = pairs.view(-1, 2).unbind(dim=1)
    averages = (total / number).where(number > 0, math.nan).tolist()
    means = dict(zip(sums, averages, strict=True)) | {"outcome_r2": _r2(moments)}
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
        row[: len(ends)] = row.new_tensor([end in stops for end in ends])
    truth, has_belief = rollouts.belief[..., 0], rollouts.hypothesis_mask[:, 1:]
    if trainer.credit.hypotheses == "truth":
        sums = {name: sums[name] for name in sums if name not in _OF_SEVERAL}
        truth = rollouts.truth_plausibility  # alone it has all of the posterior
        has_belief = rollouts.hypothesis_mask
    sums["observation_gain"] = _sum(
        truth[:, 1:] - truth[:, :-1], seen & has_belief.any(dim=1)[:, None]
    )
    if not trainer._hears_rewards:
        del sums["discrepancy"]
    has_truth = seen.new_tensor([bool(one and one.has_truth) for one in scored.local_sets])
    if trainer.credit.replaces_outcome:
        outcomes, costs = batch.local(batch.outcomes), rollouts.costs
        replaced = rollouts.outcomes_if_true[:, 0] + (0 if costs is None else costs)
        is_wrong = ~torch.isclose(outcomes, replaced, atol=1e-4)
        sums["outcome_mismatch"] = _sum(is_wrong, has_truth & outcomes.isfinite())
    if belief != "model":
        is_text = not generated.has_tools and generated.masks is None
        seen = rollouts.step_mask if is_text else seen  # each step of a text may tell something
        sums |= _evidence_sums(rollouts, scored.evidence, has_truth, seen)
    elif scored.evidence is not None:  # it has predicted rewards
        count = rollouts.step_mask.sum().double()
        sums["observations_unusable"] = torch.stack([count * 0 + scored.evidence.unusable, count])
    steps = rollouts.step_mask.sum(dim=1)
    sums["steps_per_rollout"] = _sum(steps, steps >= 0)
    return sums


def _sum(values: Tensor, mask: Tensor) -> Tensor:
    """Return the sum and the number of the values that the mask keeps, in float64."""
    return torch.stack([values.where(mask, 0).double().sum(), mask.double().sum()])


def _belief_sums(rollouts: ScoredRollouts, weighed: TokenWeights) -> dict[str, Tensor]:
    """Sum what describes the beliefs and values of rollouts that have a weight.

    The values of a right rollout and of one that answers y_j with the same history differ by the
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
        "posterior_entropy": _sum(entropy / states, has_wrong),
        "truth_mass": _sum(belief[..., 0].sum(dim=1) / states, has_wrong),
        "belief_shift": _sum(shift, has_wrong & (states > 1)),
        "discrepancy": _sum(gaps.sum(dim=1) / wrong.sum(dim=1), has_wrong),
        "outcome_gain": _sum(gains[:, :-1], rollouts.step_mask & (answered > 0)[:, None]),
    }


def _evidence_sums(
    rollouts: ScoredRollouts, evidence: Any, has_truth: Tensor, is_observation: Tensor
) -> dict[str, Tensor]:
    """Sum what observations, (B, T), did to beliefs; of `has_truth`, (B,), 0 is the truth."""
    logps = evidence.observation_logps
    exists = rollouts.hypothesis_mask[:, : logps.shape[2]]  # other processes may have more of them
    has_belief = exists[:, 1:].any(dim=1)
    _, is_contradicted = task_belief(evidence.log_prior.masked_fill(~exists, -math.inf), logps)
    is_seen = is_observation[:, : logps.shape[1]] & exists.any(dim=1)[:, None]
    contradicted = _sum(is_contradicted, is_seen)
    unusable = torch.stack([contradicted[1] * 0 + evidence.unusable, contradicted[1]])
    is_equal = ((logps == logps[..., :1]) | ~exists[:, None]).all(dim=2)
    is_told = exists[:, None] & (logps != 0)
    first, last = rollouts.belief[:, 0], at_last_state(rollouts.belief, rollouts.state_mask)
    return {
        "entropy_before": _sum(torch.special.entr(first).sum(dim=1), has_belief),
        "entropy_after": _sum(torch.special.entr(last).sum(dim=1), has_belief),
        "truth_mass_after": _sum(last[:, 0], has_belief & has_truth),
        "observations_contradicted": contradicted,
        "observations_unusable": unusable,
        "_equal": _sum(is_equal, is_seen & has_belief[:, None]),
        "_positive": _sum(logps > 0, is_told),
        "_large": _sum(logps.isfinite() & (logps.abs() > 1e6), is_told),
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
            entropy = Categorical(torch.tensor([*votes.values()]).double()).entropy().item()
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
    for hypotheses, values, ends, mean, member, masses in zip(*columns, belief, strict=True):
        shown = list(hypotheses.answers) if hypotheses else []
        if belief.shape[2]:
            truth = 0 if hypotheses and hypotheses.has_truth else None
            shown = [shown[i] for i in likeliest(masses[:, : len(shown)], truth, member)]
        values = [round(value, 4) for value in values[: len(ends)].tolist()]
        table.append({"hypotheses": shown or None, "step_values": values, "advantage": mean})
    return table
