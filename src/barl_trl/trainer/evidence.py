"""What the task says of the hypotheses: priors, likelihoods of observations, predicted rewards.

The user's functions, or the environments, say it; this module calls them and checks what they
return.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import send_to_device
from jaxtyping import Float
from torch import Tensor

from ..hypotheses import HypothesisSet
from ..rewards import Completion
from ..steps import Turn

ENVIRONMENT_METHOD = "_observation_log_likelihoods"
"""Method of an environment that stands for `observation_likelihood`. Its name begins with an
underscore because TRL makes every public method a tool."""

Step = str | list[dict[str, Any]]
"""A step for the user's functions: its text; of an agent the messages of a turn, the model's and
those of the tools that it called."""


class TaskFunctions(NamedTuple):
    """A user's functions that say what the task knows of hypotheses."""

    observation_likelihood: Callable[..., Any] | None = None
    """Columns of rollouts -> for each rollout, step and hypothesis the log-likelihood of what was
    observed, in nats."""
    hypothesis_rewards: Callable[..., Any] | None = None
    """Columns of rollouts -> for each rollout, step and hypothesis the reward that it predicts."""
    outcome_under: Callable[[str, str], float] | None = None
    """Answer, hypothesis -> the outcome reward of the answer if the hypothesis is true."""


Lists = Mapping[str, Sequence[Any]]
"""What the user's functions get of this process's rollouts, one item for each rollout: `prompts`,
`completions`, `steps`, the data's other columns and, if there are any, `environments`."""


class Evidence(NamedTuple):
    """What the task says of b rollouts with T steps and H hypotheses; 0 in padding."""

    log_prior: Float[Tensor, "batch hypothesis"]
    """Log of the prior weight of each hypothesis, in nats."""
    observation_logps: Float[Tensor, "batch step hypothesis"]
    """Log-likelihood of each step's observation under each hypothesis, in nats."""
    rewards: Float[Tensor, "batch step hypothesis"] | None
    """Rewards that each hypothesis predicts; None without a function that says it."""
    outcomes_under: Float[Tensor, "batch hypothesis"] | None
    """Outcome reward under each hypothesis; None without a function that says it."""
    unusable: int = 0
    """Number of times that a function returned a number that cannot be used."""


def read_evidence(
    functions: TaskFunctions,
    lists: Lists,
    local_sets: Sequence[HypothesisSet | None],
    answers: Sequence[str | None],
    *,
    uses_observations: bool,
    is_first: bool,
    num_steps: int,
    device: torch.device,
) -> Evidence:
    """Ask the user's functions, or the environments, what the task says of this process's rollouts.

    Nothing is asked of a rollout without hypotheses. The likelihoods of observations are asked only
    if the belief `uses_observations`. All rollouts are padded to `num_steps`.

    Raises:
        ValueError: A function returned something of another shape, or a number that cannot be used
            in the first batch. Later such numbers say nothing, and are counted.
    """
    texts = [list(one.answers) if one is not None else [] for one in local_sets]
    sizes = [*map(len, texts)]
    usable = [n for n, size in enumerate(sizes) if size]
    shape = len(sizes), num_steps, max([1, *sizes])  # as many as the model's scores have
    log_prior = torch.zeros(shape[0], shape[2])
    for n in usable:
        if weights := getattr(local_sets[n], "weights", ()):
            logs = torch.tensor(weights, dtype=torch.float64).log()
            log_prior[n, : sizes[n]] = (logs - logs.max()).float()
    # a column named `hypotheses` is not passed
    given, steps = {**lists, "hypotheses": texts}, lists.get("steps", ())
    observed, predicted, outcomes, unusable = torch.zeros(shape), None, None, 0
    if uses_observations and usable:
        name, asked, output = _observation_logps(functions, given, usable)
        unusable += _fill(observed, output, asked, sizes, steps, name, is_first)
    if functions.hypothesis_rewards is not None:
        predicted = torch.zeros(shape)
        asked = [n for n in usable if getattr(local_sets[n], "has_truth", False)]
        output = functions.hypothesis_rewards(**_of(given, asked)) if asked else []
        unusable += _fill(predicted, output, asked, sizes, steps, "hypothesis_rewards", is_first)
    if functions.outcome_under is not None:
        outcomes = torch.zeros(shape[0], shape[2])
        outcome_under = functions.outcome_under
        for n in usable:
            unusable += _fill_outcomes(outcomes[n], outcome_under, answers[n], texts[n], is_first)
    told = Evidence(log_prior, observed, predicted, outcomes, unusable)
    sent: Any = send_to_device(told, device)
    return sent


def _of(lists: Lists, places: Sequence[int]) -> dict[str, list[Any]]:
    """Return the keywords of a user's function for some of the rollouts."""
    return {name: [values[place] for place in places] for name, values in lists.items()}


def _observation_logps(
    functions: TaskFunctions, lists: Lists, usable: Sequence[int]
) -> tuple[str, Sequence[int], Any]:
    """Return who says what observations mean, of which rollouts, and what it says."""
    if functions.observation_likelihood is not None:
        output = functions.observation_likelihood(**_of(lists, usable))
        return "observation_likelihood", usable, output
    owners = lists.get("environments", [None] * len(lists["hypotheses"]))
    asked = [n for n in usable if hasattr(owners[n], ENVIRONMENT_METHOD)]
    output = [
        getattr(owners[n], ENVIRONMENT_METHOD)(lists["hypotheses"][n], lists["steps"][n])
        for n in asked
    ]
    return ENVIRONMENT_METHOD, asked, output


def _fill_outcomes(
    target: Float[Tensor, " hypothesis"],
    function: Callable[[str, str], float],
    answer: str | None,
    texts: Sequence[str],
    is_first: bool,
) -> int:
    """Put an answer's outcome rewards into a tensor; return how many cannot be used and stay 0."""
    unusable = 0
    for i, text in enumerate(texts if answer is not None else ()):
        try:
            outcome = float(function(str(answer), text))
            reason = None if np.isfinite(outcome) else str(outcome)
        except Exception as error:  # a policy may answer anything
            outcome, reason = 0.0, repr(error)
        if reason and is_first:
            raise ValueError(
                f"outcome_under must return a finite number for every answer, got {reason} for "
                f"the answer {answer!r:.80} under {text!r:.80}."
            )
        target[i] = 0.0 if reason else outcome
        unusable += bool(reason)
    return unusable


def _fill(
    target: Float[Tensor, "batch step hypothesis"],
    output: Any,
    places: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[Sequence[Step]],
    name: str,
    is_first: bool,
) -> int:
    """Put what a function returned for some rollouts into a tensor.

    Return the number of steps that have a number which cannot be used. They are left at 0.
    """
    if not hasattr(output, "__len__") or len(output) != len(places):
        count = len(output) if hasattr(output, "__len__") else type(output).__name__
        raise ValueError(
            f"{name} must return a list for each of {len(places)} rollouts, got {count}."
        )
    unusable = 0
    for n, of_rollout in zip(places, output, strict=True):
        shape = len(steps[n]), sizes[n]
        try:
            numbers = np.asarray(of_rollout, dtype=np.float32)
        except (TypeError, ValueError):  # ragged, or no numbers
            numbers = np.empty(0, dtype=np.float32) if shape[0] else np.empty(1, dtype=np.float32)
        if numbers.size == 0 and not shape[0]:
            continue
        if numbers.shape != shape:
            raise ValueError(
                f"{name} must return for each rollout a list of numbers for each step, one for "
                f"each hypothesis, got {of_rollout!r:.80} for rollout {n} with {shape[0]} steps "
                f"and {shape[1]} hypotheses."
            )
        is_bad = np.isnan(numbers) | (numbers == np.inf)
        if name == "hypothesis_rewards":
            is_bad |= numbers == -np.inf
        is_bad = is_bad.any(axis=1)
        if is_bad.any() and is_first:
            step = int(is_bad.argmax())
            raise ValueError(
                f"{name} must return numbers that are not infinite (a log-likelihood may be -inf), "
                f"got {numbers[step]!s:.80} for step {step} of rollout {n}."
            )
        numbers = np.where(is_bad[:, None], np.float32(0), numbers)
        target[n, : shape[0], : shape[1]] = torch.from_numpy(numbers)
        unusable += int(is_bad.sum())
    return unusable


def steps_of(
    completion: Completion,
    token_ids: Sequence[int],
    step_ends: Sequence[int],
    turns: Sequence[Turn],
    tokenizer: Any,
) -> list[Step]:
    """Return the steps of a rollout as the user's functions get them.

    A step is its text without special tokens; if the `turns` have messages it is messages: the
    model's, and the results of tools that it saw. If a turn has several steps, each is a message of
    the model, and the last one has the turn's calls and results.
    """
    spans = [*pairwise([0, *step_ends])]
    if isinstance(completion, str) or not turns:
        parts = [token_ids[start:end] for start, end in spans]
        return tokenizer.batch_decode(parts, skip_special_tokens=True)
    messages: list[list[dict[str, Any]]] = []
    for message in completion:
        if message.get("role") == "assistant" or not messages:
            messages.append([])
        messages[-1].append(message)
    messages += [[]] * (len(turns) - len(messages))
    # a last turn without words has no step: it ends where the step of the turn before it does
    turn_that_ends = {
        turn.stop if turn.has_observation else turn.end: (turn, of_turn)
        for turn, of_turn in reversed([*zip(turns, messages[: len(turns)], strict=True)])
    }
    steps = []
    for start, end in spans:
        turn, of_turn = turn_that_ends.get(end, (None, []))
        step = of_turn if turn is None or turn.has_observation else of_turn[:1]
        if turn is None or start > turn.start:  # a part of a turn
            words = token_ids[start : end if turn is None else turn.end]
            text = tokenizer.decode(words, skip_special_tokens=True)
            step = [{"role": "assistant", **dict(*step[:1]), "content": text}, *step[1:]]
        steps.append(step)
    return steps
