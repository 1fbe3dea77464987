"""`HypothesisScorer` computes the log-likelihood of each hypothesis at every state of a rollout."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from ...credit import Credit
from ...hypotheses import HypothesisSet, merge_hypotheses, truth_answer
from ...plausibility.answer_logps import AnswerLogLikelihoods, answer_log_likelihoods
from ...plausibility.elicitation import Elicitation
from ...plausibility.kv_cache import GenerationCache
from ...rewards import completion_text
from ...steps import StepSegmenter, chain_of_thought, step_ends_of
from ..barl_fields import BARLFields
from .shared_verdicts import share_hypotheses


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
    likelihoods: AnswerLogLikelihoods
    """Log-likelihood of each hypothesis at each state of this process's rollouts, in nats."""


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
    """

    tokenizer: Any
    credit: Credit
    args: BARLFields
    answer_extractor: Callable[[str], str | None]
    answer_equivalence: Callable[[str, str], bool]
    step_segmenter: StepSegmenter
    end_ids: Collection[Any]

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
        truths: Sequence[Any],
        *,
        start: int,
        group_size: int,
        score_completions: bool,
        completion_temperature: float,
        max_tokens: int | None,
    ) -> Scored:
        """Form the hypotheses of all processes' rollouts, and score them for this process's.

        All processes must call this together.

        Args:
            model: The policy, a causal language model.
            generated: This process's rollouts.
            truths: Value of the solution column for each of these rollouts.
            start: Index of the first of these rollouts among those of all processes.
            group_size: Rollouts per prompt.
            score_completions: Whether the same pass also scores the completions' own tokens.
            completion_temperature: Temperature of the completions' own log-probabilities.
            max_tokens: Most tokens of a forward pass, padding included; None: no limit.
        """
        texts = map(completion_text, generated.completions)
        answers, sets = share_hypotheses(
            [self.answer_extractor(text) for text in texts],
            [truth_answer(truth) for truth in truths],
            self._merge,
            group_size=group_size,
        )
        places = range(start, start + len(truths))
        local_sets = [sets[n // group_size] for n in places]
        is_asked = self.credit.hypotheses != "none"
        step_ends, rollouts = [], []
        masks = generated.masks or [None] * len(truths)
        for prompt_ids, completion_ids, mask, hypotheses in zip(
            generated.prompt_ids, generated.completion_ids, masks, local_sets, strict=True
        ):
            chain = chain_of_thought(completion_ids, self.end_ids)
            step_ends.append(step_ends_of(chain, self.step_segmenter))
            rollouts.append(
                self.elicitation.rollout(
                    prompt_ids,
                    completion_ids if score_completions else chain,
                    step_ends[-1],
                    hypotheses.answers if hypotheses and is_asked else (),
                    score_completion=score_completions,
                    mask=mask,
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
        return Scored(answers, sets, local_sets, step_ends, likelihoods)

    def _merge(self, truth: str, answers: list[str | None]) -> HypothesisSet | None:
        return merge_hypotheses(
            truth,
            answers if self.credit.hypotheses == "rollouts" else [],
            equivalent=self.answer_equivalence,
            max_answer_chars=self.args.max_answer_chars,
            max_hypotheses=self.args.max_hypotheses,
            special_tokens=self.special_tokens,
        )
