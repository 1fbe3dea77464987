"""From the rollouts of a batch to what credits see of them.

rows -> hypotheses -> steps -> likelihoods -> evidence -> belief -> [`ScoredRollouts`]

A group of rollouts may lie on several processes, and a comparison of answers may time out on one
process and not on another. So one process merges each group's answers and judges each answer, and
shares what it found with the others.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ..credit import Credit
from ..credit.rollouts import LOG_FLOOR, ScoredRollouts, is_answered
from ..graders.choices import COLUMN as OPTIONS
from ..graders.processes import compare
from ..hypotheses import (
    GivenHypotheses,
    HypothesisSet,
    given_hypotheses,
    is_truth,
    merge_hypotheses,
    truth_answer,
)
from ..plausibility.answer_logps import AnswerLogLikelihoods, answer_log_likelihoods
from ..plausibility.elicitation import Elicitation
from ..plausibility.queries import Rollout
from ..posterior import posterior
from ..rewards import AccuracyReward, calls_tool, rollout_answers
from ..steps import StepSegmenter, Turn, turn_step_ends, turns_of
from .config import BARLConfig
from .evidence import Evidence, Lists, Step, TaskFunctions, read_evidence, steps_of
from .turn_rewards import (
    OWN_HYPOTHESES,
    OWN_PRIOR,
    StateKey,
    environments_rewards,
    numbers_of_states,
    padded,
    rewards_of_steps,
)
from .turns import Generated

_SECONDS_OF_MERGING = 60.0
"""Most time that comparing a batch's answers takes, summed over a process's cores."""


class Scored(NamedTuple):
    """The hypotheses of this process's rollouts, with their log-likelihoods."""

    answers: list[str | None]
    """Answer of each rollout of all processes."""
    sets: list[HypothesisSet | None]
    """Hypothesis set of each group of all processes."""
    local_sets: list[HypothesisSet | None]
    """Hypothesis set of the group of each of this process's rollouts."""
    step_ends: list[list[int]]
    """Ends of the reasoning steps of each of this process's rollouts, in completion tokens."""
    turns: list[list[Turn]]
    """Turns of each of this process's rollouts."""
    is_cut_off: list[bool]
    """Whether each of this process's rollouts reached the longest completion before its end."""
    likelihoods: AnswerLogLikelihoods
    """Log-likelihood of each hypothesis at each state of this process's rollouts, in nats; without
    hypotheses where no answer is scored."""
    evidence: Evidence | None = None
    """What the task says of the hypotheses of this process's rollouts; None where nothing is."""
    given: list[GivenHypotheses | None] | None = None
    """What the rows of all processes' groups list; None without a column that lists hypotheses."""
    turn_rewards: Float[Tensor, "batch turn"] | None = None
    """Reward of each step, NaN where none is told; None: there is none."""
    states: Int[Tensor, "batch step"] | None = None
    """Number of the state in which each step begins; None where nothing asks for it."""


@dataclass(frozen=True)
class RolloutBatch:
    """This process's rollouts of a batch, scored and rewarded, for metrics and records.

    Attributes:
        inputs: Row of the data set of each rollout.
        start: Index of the first rollout among those of all processes.
        generated: The tokens and texts of the rollouts.
        scored: The hypotheses of the rollouts and their log-likelihoods.
        rewards_per_func: Rewards of all processes' rollouts, (N, number of reward functions).
        outcomes: Outcome rewards of all processes' rollouts, (N,), NaN for a missing outcome.
        reasons: The reason of the grader's verdict on each rollout; None without a grader.
        began: Time at which the batch began, in seconds of `time.perf_counter`.
    """

    inputs: list[dict[str, Any]]
    start: int
    generated: Generated
    scored: Scored
    rewards_per_func: Tensor
    outcomes: Tensor
    reasons: list[str] | None
    began: float

    def local(self, values: Tensor) -> Tensor:
        """Return this process's part (B, ...) of a tensor (N, ...) of all processes' rollouts."""
        return values[self.start : self.start + len(self.inputs)]


@dataclass(frozen=True)
class HypothesisScorer:
    """Form a rollout batch's hypotheses and compute their log-likelihoods.

    The credit decides which answers are scored, and how the log-probabilities of an answer's tokens
    are reduced. Where the segmenter `divides_turns`, it also divides those that are followed by
    others; else each of these is a step. `end_ids` are tokens that end a turn.
    """

    tokenizer: Any
    credit: Credit
    args: BARLConfig
    answer_extractor: Callable[[str], str | None]
    answer_equivalence: Callable[[str, str], bool]
    step_segmenter: StepSegmenter
    end_ids: Collection[Any]
    divides_turns: bool = False
    functions: TaskFunctions = field(default_factory=TaskFunctions)
    turn_rewards: Callable[..., Any] | None = None
    state_key: StateKey | None = None

    @cached_property
    def elicitation(self) -> Elicitation:
        """The question for an answer, which is placed after each state."""
        return Elicitation(self.tokenizer, self.args.elicitation)

    @cached_property
    def special_tokens(self) -> set[str]:
        """Texts of the tokenizer's special tokens, which no answer may contain."""
        added = self.tokenizer.added_tokens_decoder.values()
        special = {token.content for token in added if token.special}
        return {*self.tokenizer.all_special_tokens, *special}

    def score(
        self,
        model: nn.Module,
        generated: Generated,
        rows: Sequence[Mapping[str, Any]],
        *,
        start: int,
        group_size: int,
        score_completions: bool = False,
        completion_temperature: float = 1.0,
        max_tokens: int | None = None,
        is_first: bool = False,
    ) -> Scored:
        """Form the hypotheses of all processes' rollouts, and score them for this process's.

        All processes must call this together. `start` is the index of this process's first rollout
        among those of all. With `score_completions` the same pass also scores the completions' own
        tokens. In the first batch (`is_first`) a number of a user's function that cannot be used
        raises `ValueError`.
        """
        places = range(start, start + len(rows))
        with compare.within(_SECONDS_OF_MERGING):
            answers, sets, given = self._hypotheses(generated, rows, places, group_size)
        is_asked = self.credit.hypotheses == "rollouts" and generated.environments is not None
        if is_first and is_asked and not any(sets):
            raise ValueError(
                f"credit={self.args.credit!r} must have hypotheses, got none in the first batch: "
                "let environments have hypotheses after reset, name a hypotheses_column or a "
                "solution_column, or tell what a rollout answered with the attribute answer."
            )
        local_sets = [sets[n // group_size] for n in places]
        local_answers = [answers[n] for n in places]
        turns = self._turns(generated)
        step_ends, turn_starts = self._steps(generated, turns)
        likelihoods = answer_log_likelihoods(
            model,
            self._asked(generated, step_ends, turn_starts, local_sets, score_completions),
            elicitation_ids=self.elicitation.token_ids,
            reduction=self.credit.answer_likelihood,
            method=self.args.scoring_method,
            temperature=self.args.plausibility_temperature,
            completion_temperature=completion_temperature,
            max_tokens=max_tokens,
        )
        if not self.args.scores_answers:  # no column for a hypothesis tells that nothing was asked
            likelihoods = likelihoods._replace(
                answer_logps=likelihoods.answer_logps[..., :0],
                hypothesis_mask=likelihoods.hypothesis_mask[:, :0],
            )
        cut_off = [
            generated.is_cut_off(n, spans, answer, self.args, self.end_ids)
            for n, (spans, answer) in enumerate(zip(turns, local_answers, strict=True))
        ]
        if self.args.last_state == "answer" and self.args.scores_answers:
            columns = local_sets, local_answers, [n % group_size for n in places], rows
            logps = likelihoods.answer_logps.clone()
            self._make_ends_certain(logps, zip(logps, step_ends, cut_off, *columns, strict=True))
            likelihoods = likelihoods._replace(answer_logps=logps)
        evidence = None
        is_told = self.args.belief != "model" or self.functions != TaskFunctions()
        is_told = is_told or any(one is not None and one.weights for one in sets)
        if self.credit.hypotheses == "rollouts" and is_told:
            evidence = read_evidence(
                self.functions,
                self._told(generated, rows, step_ends, turns),
                local_sets,
                local_answers,
                uses_observations=self.args.belief != "model",
                is_first=is_first,
                num_steps=likelihoods.state_mask.shape[1] - 1,
                device=likelihoods.state_mask.device,
            )
        is_listed = self.args.hypotheses_column or any(OWN_HYPOTHESES in row for row in rows)
        is_listed = is_listed and self.credit.hypotheses == "rollouts"
        rewards, states, device = generated.turn_rewards, None, likelihoods.state_mask.device
        if self.credit.credit_baseline == "state":
            steps = self._steps_told(generated, step_ends, turns)
            states = padded(numbers_of_states(steps, self.state_key), torch.long).to(device)
        rewards = None if rewards is None else padded(rewards, torch.float32).to(device)
        told = likelihoods, evidence, given if is_listed else None, rewards, states
        return Scored(answers, sets, local_sets, step_ends, turns, cut_off, *told)

    def with_turn_rewards(
        self,
        generated: Generated,
        rows: Sequence[Mapping[str, Any]],
        told: Sequence[Any] | None,
        *,
        is_first: bool,
    ) -> tuple[Generated, int]:
        """Return the rollouts with the rewards of their turns, and how many lists are unusable.

        They are those that the user's function tells, else those that a `rollout_func` told, else
        those that the environments tell. See [`rewards_of_steps`].
        """
        turns = self._turns(generated)
        step_ends, _ = self._steps(generated, turns)
        if self.turn_rewards is not None:
            columns: Any = self._told(generated, rows, step_ends, turns)
            told = self.turn_rewards(**{"environments": None} | columns)
        elif told is None:
            told = environments_rewards(generated.environments, generated.completions)
        if told is None:
            return generated, 0
        rewards, unusable = rewards_of_steps(told, step_ends, turns, is_first=is_first)
        return generated._replace(turn_rewards=rewards), unusable

    def _turns(self, generated: Generated) -> list[list[Turn]]:
        return generated.turns or [
            turns_of(ids, [1] * len(ids), self.end_ids) for ids in generated.completion_ids
        ]

    def _hypotheses(
        self,
        generated: Generated,
        rows: Sequence[Mapping[str, Any]],
        places: range,
        group_size: int,
    ) -> tuple[list[str | None], list[HypothesisSet | None], list[GivenHypotheses | None]]:
        """Return all processes' answers, and of each group the hypotheses and what its row lists.

        One process merges the answers of a group into hypotheses, and shares them.
        """
        local_answers = rollout_answers(
            generated.completions,
            self.answer_extractor,
            generated.given_answers,
            [row.get(OPTIONS) for row in rows],
        )
        # the row of a group's first rollout is that of all
        of_rows = [
            (*self._of_row(row), self._columns(row)) if n % group_size == 0 else (None, None, {})
            for n, row in zip(places, rows, strict=True)
        ]
        pairs = gather_object(list(zip(local_answers, of_rows, strict=True)))
        answers = [answer for answer, _ in pairs]
        told = [of_row for _, of_row in pairs[::group_size]]
        rank, world = PartialState().process_index, PartialState().num_processes
        merged = {
            g: merge_hypotheses(
                told[g][0],
                answers[g * group_size : (g + 1) * group_size]
                if self.credit.hypotheses == "rollouts"
                else [],
                equivalent=partial(self.answer_equivalence, **told[g][2]),
                given=told[g][1],
                is_closed=self.args.belief != "model",
                max_answer_chars=self.args.max_answer_chars,
                max_hypotheses=self.args.max_hypotheses,
                special_tokens=self.special_tokens,
            )
            for g in range(rank, len(told), world)
        }
        shared = gather_object([merged])
        sets = [shared[g % world][g] for g in range(len(told))]
        return answers, sets, [given for _, given, _ in told]

    def _columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `answer_equivalence` gets of a row beside the two answers."""
        is_asked = getattr(self.answer_equivalence, "takes_columns", False)
        return {name: row[name] for name in row if name != "prompt"} if is_asked else {}

    def _of_row(self, row: Mapping[str, Any]) -> tuple[str | None, GivenHypotheses | None]:
        """Return the true answer of a row, None where none is needed, and what the row lists."""
        truth: str | None = truth_answer(row.get(self.args.solution_column))
        if not self.credit.needs_truth and not is_truth(truth):
            truth = None
        column, weights = self.args.hypotheses_column, self.args.prior_column
        if column is None and OWN_HYPOTHESES in row:
            column, weights = OWN_HYPOTHESES, weights or OWN_PRIOR
        if column is None or self.credit.hypotheses != "rollouts":
            return truth, None
        given = given_hypotheses(
            row.get(column),
            None if weights is None else row.get(weights, None if weights == OWN_PRIOR else ()),
            max_chars=self.args.max_answer_chars,
            special_tokens=self.special_tokens,
        )
        return truth, given

    def _steps(
        self, generated: Generated, turns: Sequence[Sequence[Turn]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the ends of each rollout's steps, and where an agent's turns begin, in tokens."""
        step_ends, turn_starts = [], []
        masks = generated.masks or [[1] * len(ids) for ids in generated.completion_ids]
        for completion, ids, mask, spans in zip(
            generated.completions, generated.completion_ids, masks, turns, strict=True
        ):
            is_whole = len(spans) > 1 or calls_tool(completion)
            is_whole = is_whole or any(turn.has_observation for turn in spans)
            segmenter = None if is_whole and not self.divides_turns else self.step_segmenter
            step_ends.append(turn_step_ends(ids, mask, spans, segmenter))
            starts = [0] if generated.has_tools or is_whole else []
            turn_starts.append(starts + [turn.stop for turn in spans if turn.has_observation])
        return step_ends, turn_starts

    def _asked(
        self,
        generated: Generated,
        step_ends: Sequence[Sequence[int]],
        turn_starts: Sequence[Sequence[int]],
        local_sets: Sequence[HypothesisSet | None],
        score_completions: bool,
    ) -> list[Rollout]:
        """Return the rollouts, asked for every hypothesis's answer at every state."""
        ask = partial(self.elicitation.rollout, score_completion=score_completions)
        masks = generated.masks or [None] * len(step_ends)
        tokens = generated.prompt_ids, generated.completion_ids, masks
        places = step_ends, turn_starts, local_sets
        rollouts = []
        for prompt_ids, ids, mask, ends, starts, one in zip(*tokens, *places, strict=True):
            ids = ids if score_completions else ids[: [0, *ends][-1]]
            answers = one.answers if one and self.args.scores_answers else ()
            rollouts.append(ask(prompt_ids, ids, ends, answers, mask=mask, turn_starts=starts))
        return rollouts

    def _make_ends_certain(
        self, logps: Float[Tensor, "batch state hypothesis"], rollouts: Iterable[Any]
    ) -> None:
        """Make each rollout's own answer certain at its last state; without one believe in none.

        A rollout that was cut off before it answered keeps what was measured.
        """
        for row, ends, is_cut, one, answer, place, columns in rollouts:
            if one is None or (is_cut and answer is None):
                continue
            if one.members:
                member = one.members[place]
            else:  # the truth alone is a hypothesis
                same = partial(self.answer_equivalence, **self._columns(columns))
                is_right = answer and same(one.answers[0], answer)
                member = 0 if is_right else None
            row[len(ends), : len(one.answers)] = LOG_FLOOR
            if member is not None:
                row[len(ends), member] = 0.0

    def _told(
        self,
        generated: Generated,
        rows: Sequence[Mapping[str, Any]],
        step_ends: Sequence[Sequence[int]],
        turns: Sequence[Sequence[Turn]],
    ) -> Lists:
        """Return what the user's functions get of the rollouts."""
        is_asked = self.functions != TaskFunctions() or self.turn_rewards is not None
        if not is_asked and generated.environments is None:
            return {}
        # as TRL passes columns to reward functions
        names = [name for name in rows[0] if name not in ("prompt", "completion", "completion_ids")]
        lists = {name: [row[name] for row in rows] for name in names} | {
            "prompts": [row["prompt"] for row in rows],
            "completions": generated.completions,
            "steps": self._steps_told(generated, step_ends, turns),
        }
        told = generated.environments
        return lists if told is None else lists | {"environments": told}

    def _steps_told(
        self,
        generated: Generated,
        step_ends: Sequence[Sequence[int]],
        turns: Sequence[Sequence[Turn]],
    ) -> list[list[Step]]:
        """Return the steps of each rollout as a user's functions get them."""
        has_turns = generated.has_tools or generated.masks
        parts = zip(generated.completions, generated.completion_ids, step_ends, turns, strict=True)
        return [
            steps_of(completion, ids, ends, spans if has_turns else (), self.tokenizer)
            for completion, ids, ends, spans in parts
        ]


def share_verdicts(
    reward: AccuracyReward, generated: Generated, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Judge each answer of all processes' rollouts on one process, and share the verdicts.

    The reward's grader remembers them. Each of this process's rollouts has one of the `rows`.
    """
    rank, world = PartialState().process_index, PartialState().num_processes
    if world == 1:
        return
    columns: Any = ([row.get(name) for row in rows] for name in ("solution", OPTIONS))
    solutions, options = columns
    local = reward.pairs(generated.completions, solutions, generated.given_answers, options)
    pairs = [pair for pair in dict.fromkeys(gather_object(local)) if None not in pair]
    for verdicts in gather_object([reward.grader.verify_all(pairs[rank::world])]):
        reward.grader.remember(verdicts)


def model_posterior(
    answer_logps: Float[Tensor, "batch state hypothesis"] | None,
    *,
    beta: float,
    has_truth: Bool[Tensor, " batch"],
    **evidence: Any,
) -> Float[Tensor, "batch state hypothesis"]:
    """Return the paper's posterior: plausibility and consistency, eq. (adv_algo), and the prior.

    Without a truth no reward is observed, so rollouts whose hypothesis 0 is not the truth have no
    consistency. `evidence` has the other arguments of [`posterior`]: with `observation_logps` it is
    the belief of `"both"`, the model's before any observation times the task's; with None for
    `answer_logps`, that of `"task"`.
    """
    weights = posterior(answer_logps, beta=beta, **evidence)
    if has_truth.all():
        return weights
    without = posterior(answer_logps, beta=0.0, **evidence)
    return torch.where(has_truth[:, None, None], weights, without)


def scored_rollouts(
    accelerator: Any,
    scored: Scored,
    outcomes: Float[Tensor, " batch"],
    *,
    group_size: int,
    beta: float,
    belief: str = "model",
    costs: Float[Tensor, " batch"] | None = None,
    outcome_scale: float = 1.0,
    needs_truth: bool = True,
    needs_hypotheses: bool = True,
) -> ScoredRollouts:
    """Gather the scores of all processes, and compute the belief at every state.

    Args:
        accelerator: The trainer's; None means that there is one process.
        scored: The scores of this process's rollouts.
        outcomes: Outcome rewards of all processes' rollouts, (N,), NaN for a missing outcome.
        group_size: Rollouts per prompt.
        beta: Consistency coefficient of the posterior, from 0 to `inf`.
        belief: Where the belief comes from: `"model"`, `"task"` or `"both"`. With `"task"` the
            plausibilities are the task's own: a hypothesis is as plausible as it is believed.
        costs: The part of the outcome rewards that does not depend on what is true, (N,).
        outcome_scale: Outcome reward of a right answer.
        needs_truth: Whether a rollout without a true answer or without an outcome is not judged.
        needs_hypotheses: Whether a rollout without hypotheses is not judged.
    """
    logps, state_mask, hypothesis_mask, *_ = scored.likelihoods
    device = logps.device
    if belief == "task":
        sizes = [0 if one is None else len(one.answers) for one in scored.local_sets]
        numbers = torch.arange(max([1, *sizes]), device=device)
        hypothesis_mask = numbers < torch.tensor(sizes, device=device)[:, None]
    cut_off = torch.tensor(scored.is_cut_off, device=device)
    of_task = (scored.evidence or [None] * 4)[:4]
    of_turns = scored.turn_rewards, scored.states
    tensors: Any = [logps, state_mask, hypothesis_mask, cut_off, *of_task, *of_turns]
    if accelerator is not None and accelerator.num_processes > 1:
        tensors = [None if one is None else _gathered(accelerator, one) for one in tensors]
    logps, state_mask, hypothesis_mask, cut_off, *told = tensors
    log_prior, observed, rewards, under, turn_rewards, states = told
    sets = [scored.sets[n // group_size] for n in range(len(outcomes))]
    is_judged = torch.tensor(
        [one is not None or not (needs_truth or needs_hypotheses) for one in sets],
        device=outcomes.device,
    )
    if needs_truth or not needs_hypotheses:
        is_judged &= outcomes.isfinite()
    weights = torch.zeros_like(logps)
    if hypothesis_mask.shape[1]:
        evidence = {
            "beta": beta,
            "has_truth": torch.tensor([not one or one.has_truth for one in sets], device=device),
            "rewards": rewards,
            "log_prior": log_prior,
            "observation_logps": observed if belief != "model" else None,
            "state_mask": state_mask,
            "hypothesis_mask": hypothesis_mask,
        }
        weights = model_posterior(None if belief == "task" else logps, **evidence)
    if belief == "task":
        exists = state_mask[..., None] & hypothesis_mask[:, None]
        logps = weights.log().masked_fill(~exists, 0.0)
    rollouts = ScoredRollouts(
        outcomes=outcomes.masked_fill(~is_judged, 0.0).nan_to_num(),
        is_judged=is_judged,
        is_cut_off=cut_off,
        groups=torch.arange(len(outcomes), device=outcomes.device) // group_size,
        state_mask=state_mask,
        answer_logps=logps,
        hypothesis_mask=hypothesis_mask,
        belief=weights,
        members=[
            one.members[n % group_size] if one and one.members else None
            for n, one in enumerate(sets)
        ],
        rewards=rewards,
        outcomes_under=None if under is None else under * outcome_scale,
        costs=costs,
        turn_rewards=None if turn_rewards is None else turn_rewards.nan_to_num(),
        states=states,
    )
    if under is None and outcome_scale != 1.0:
        return replace(rollouts, outcomes_under=is_answered(rollouts) * outcome_scale)
    return rollouts


def _gathered(accelerator: Any, local: Tensor) -> Tensor:
    """Pad a tensor of each process to a common shape, and join them along the first dimension."""
    for dim in range(1, local.ndim):
        local = accelerator.pad_across_processes(local, dim=dim).to(local.dtype)
    if local.shape[-1:] == (0,):  # no answer was scored
        return local.new_zeros(len(local) * accelerator.num_processes, *local.shape[1:])
    return accelerator.gather(local)
