"""`HypothesisScorer` computes the log-likelihood of each hypothesis at every state of a rollout."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from ...credit import Credit
from ...credit.rollouts import LOG_FLOOR
from ...hypotheses import (
    GivenHypotheses,
    HypothesisSet,
    given_hypotheses,
    is_truth,
    merge_hypotheses,
    truth_answer,
)
from ...plausibility.answer_logps import AnswerLogLikelihoods, answer_log_likelihoods
from ...plausibility.elicitation import Elicitation
from ...plausibility.kv_cache import GenerationCache
from ...rewards import GivenAnswer, calls_tool, rollout_answers
from ...steps import StepSegmenter, Turn, might_go_on, turn_step_ends, turns_of
from ..config import BARLConfig
from .evidence import Evidence, Played, TaskFunctions, read_evidence, steps_of
from .shared_verdicts import RowHypotheses, share_hypotheses


class Generated(NamedTuple):
    """This process's generated rollouts, one item of each list per rollout."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    completions: list[Any]
    """The completions as texts or messages."""
    cache: GenerationCache | None = None
    """The key-value cache of the generation, if it can be used to score."""
    masks: list[list[int]] | None = None
    """1 for each completion token that the model generated, else 0; None if it generated all."""
    given_answers: list[GivenAnswer | None] | None = None
    """Answers that environments or a `rollout_func` tell; None: all are read from completions."""
    has_tools: bool = False
    """Whether the model could call tools, so that its prompts, too, are starts of turns."""
    environments: list[Any] | None = None
    """The environment of each rollout, as it is at the rollout's end."""


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
    """Whether each of this process's rollouts might have gone on: it reached the longest completion
    before its turn ended, or ended in a call of a tool and gave no answer."""
    likelihoods: AnswerLogLikelihoods
    """Log-likelihood of each hypothesis at each state of this process's rollouts, in nats; without
    hypotheses where no answer is scored."""
    evidence: Evidence | None = None
    """What the task says of the hypotheses of this process's rollouts; None where nothing is."""
    given: list[GivenHypotheses | None] | None = None
    """What the rows of all processes' groups list; None without a column that lists hypotheses."""


@dataclass(frozen=True)
class HypothesisScorer:
    """Form a rollout batch's hypotheses and compute their log-likelihoods.

    Args:
        tokenizer: The model's tokenizer.
        credit: The credit, which decides which answers are scored, and how the log-probabilities of
            an answer's tokens are reduced.
        args: Settings of elicitation, hypotheses and scoring.
        answer_extractor: Completion -> its final answer, or None.
        answer_equivalence: Two answers -> whether they are one hypothesis.
        step_segmenter: Token ids of a chain of thought -> the ends of its steps.
        end_ids: Ids of the tokens that end a turn.
        divides_turns: Whether the segmenter also divides turns that are followed by others; without
            it each of these is a step.
        functions: The user's functions that say what the task knows of hypotheses.
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
        score_completions: bool,
        completion_temperature: float,
        max_tokens: int | None,
        is_first: bool = False,
    ) -> Scored:
        """Form the hypotheses of all processes' rollouts, and score them for this process's.

        All processes must call this together.

        Args:
            model: The policy, a causal language model.
            generated: This process's rollouts.
            rows: Row of the data set of each of these rollouts.
            start: Index of the first of these rollouts among those of all processes.
            group_size: Rollouts per prompt.
            score_completions: Whether the same pass also scores the completions' own tokens.
            completion_temperature: Temperature of the completions' own log-probabilities.
            max_tokens: Most tokens of a forward pass, padding included; None: no limit.
            is_first: Whether this is the first batch, in which a user's functions may return no
                number that cannot be used.

        Raises:
            ValueError: A user's function returned something else than it must.
        """
        completions, told = generated.completions, generated.given_answers
        places = range(start, start + len(rows))
        # the row of a group's first rollout is that of all
        row_hypotheses = [
            self._row_hypotheses(row) if n % group_size == 0 else None
            for n, row in zip(places, rows, strict=True)
        ]
        answers, sets, given = share_hypotheses(
            rollout_answers(completions, self.answer_extractor, told),
            row_hypotheses,
            self._merge,
            group_size=group_size,
        )
        local_sets = [sets[n // group_size] for n in places]
        is_asked = self.args.scores_answers
        spans, step_ends, rollouts = [], [], []
        masks = generated.masks or [None] * len(rows)
        for n, (prompt_ids, completion_ids, mask, hypotheses) in enumerate(
            zip(generated.prompt_ids, generated.completion_ids, masks, local_sets, strict=True)
        ):
            is_own = mask or [1] * len(completion_ids)
            turns = turns_of(
                completion_ids, is_own, self.end_ids, runs_are_turns=generated.has_tools
            )
            is_whole = len(turns) > 1 or calls_tool(completions[n])
            is_whole = is_whole or any(turn.has_observation for turn in turns)
            segmenter = None if is_whole and not self.divides_turns else self.step_segmenter
            ends = turn_step_ends(completion_ids, is_own, turns, segmenter)
            chain = completion_ids[: ends[-1]] if ends else []
            starts = [0] if generated.has_tools or is_whole else []
            starts += [turn.stop for turn in turns if turn.has_observation]
            spans.append(turns)
            step_ends.append(ends)
            rollouts.append(
                self.elicitation.rollout(
                    prompt_ids,
                    completion_ids if score_completions else chain,
                    ends,
                    hypotheses.answers if hypotheses and is_asked else (),
                    score_completion=score_completions,
                    mask=mask,
                    turn_starts=starts,
                )
            )
        likelihoods = answer_log_likelihoods(
            model,
            rollouts,
            elicitation_ids=self.elicitation.token_ids,
            reduction=self.credit.answer_likelihood,
            method=self.args.scoring_method,
            temperature=self.args.plausibility_temperature,
            completion_temperature=completion_temperature,
            max_tokens=max_tokens,
            generation_cache=generated.cache,
        )
        if not is_asked:  # no column for a hypothesis tells that no answer was scored
            likelihoods = likelihoods._replace(
                answer_logps=likelihoods.answer_logps[..., :0],
                hypothesis_mask=likelihoods.hypothesis_mask[:, :0],
            )
        local_answers = answers[start : start + len(rows)]
        is_cut_off = [
            might_go_on(ids, turns, self.end_ids) or (answer is None and calls_tool(completion))
            for ids, turns, answer, completion in zip(
                generated.completion_ids, spans, local_answers, completions, strict=True
            )
        ]
        evidence = None
        is_told = self.args.belief != "model" or self.functions != TaskFunctions()
        is_told = is_told or any(one is not None and one.weights for one in sets)
        if self.credit.hypotheses == "rollouts" and is_told:
            evidence = read_evidence(
                self.functions,
                self._played(generated, rows, step_ends, spans),
                local_sets,
                local_answers,
                uses_observations=self.args.belief != "model",
                is_first=is_first,
                num_steps=likelihoods.state_mask.shape[1] - 1,
                device=likelihoods.state_mask.device,
            )
        scored = Scored(
            answers,
            sets,
            local_sets,
            step_ends,
            spans,
            is_cut_off,
            likelihoods,
            evidence,
            given if self.args.hypotheses_column else None,
        )
        if self.args.last_state == "answer" and is_asked:
            scored = self._with_certain_ends(scored, start, group_size)
        return scored

    def _with_certain_ends(self, scored: Scored, start: int, group_size: int) -> Scored:
        """Make each rollout's own answer certain at its last state.

        A rollout that gave no answer then believes in none; one that was cut off might still have
        answered, so what it believes stays as it was measured.
        """
        logps = scored.likelihoods.answer_logps.clone()
        for n, (hypotheses, ends) in enumerate(
            zip(scored.local_sets, scored.step_ends, strict=True)
        ):
            answer = scored.answers[start + n]
            if hypotheses is None or (answer is None and scored.is_cut_off[n]):
                continue
            member = None
            if hypotheses.members:
                member = hypotheses.members[(start + n) % group_size]
            elif answer is not None and self.answer_equivalence(hypotheses.answers[0], answer):
                member = 0  # the truth alone is a hypothesis
            logps[n, len(ends), : len(hypotheses.answers)] = LOG_FLOOR
            if member is not None:
                logps[n, len(ends), member] = 0.0
        return scored._replace(likelihoods=scored.likelihoods._replace(answer_logps=logps))

    def _row_hypotheses(self, row: Mapping[str, Any]) -> RowHypotheses:
        truth: str | None = truth_answer(row.get(self.args.solution_column))
        if not self.credit.needs_truth and not is_truth(truth):
            truth = None
        column = self.args.hypotheses_column
        if column is None or self.credit.hypotheses != "rollouts":
            return RowHypotheses(truth, None)
        given = given_hypotheses(
            row.get(column),
            None if self.args.prior_column is None else row.get(self.args.prior_column, ()),
            max_chars=self.args.max_answer_chars,
            special_tokens=self.special_tokens,
        )
        return RowHypotheses(truth, given)

    def _played(
        self,
        generated: Generated,
        rows: Sequence[Mapping[str, Any]],
        step_ends: Sequence[Sequence[int]],
        spans: Sequence[Sequence[Turn]],
    ) -> Played:
        """Return what the user's functions get of the rollouts."""
        if self.functions == TaskFunctions() and generated.environments is None:
            return Played([], [], [], {})  # nothing is asked
        has_turns = generated.has_tools or generated.masks
        parts = zip(generated.completions, generated.completion_ids, step_ends, spans, strict=True)
        steps = [
            steps_of(completion, ids, ends, turns if has_turns else (), self.tokenizer)
            for completion, ids, ends, turns in parts
        ]
        # as TRL passes them to reward functions
        names = [name for name in rows[0] if name not in ("prompt", "completion", "completion_ids")]
        return Played(
            [row["prompt"] for row in rows],
            generated.completions,
            steps,
            {name: [row[name] for row in rows] for name in names},
            generated.environments,
        )

    def _merge(self, row: RowHypotheses, answers: list[str | None]) -> HypothesisSet | None:
        return merge_hypotheses(
            row.truth,
            answers if self.credit.hypotheses == "rollouts" else [],
            equivalent=self.answer_equivalence,
            given=row.given,
            is_closed=self.args.belief != "model",
            max_answer_chars=self.args.max_answer_chars,
            max_hypotheses=self.args.max_hypotheses,
            special_tokens=self.special_tokens,
        )
