"""From rollouts as generated to the log-likelihoods of their hypotheses at every state."""

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
    """This process's rollouts as they were generated, and the cache that was left behind.

    The masks have a 1 for each token of a completion that is the model's, 0 for others; None: all
    are.
    """

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    completions: list[Any]
    cache: GenerationCache | None = None
    masks: list[list[int]] | None = None


class Scored(NamedTuple):
    """What is known of this process's rollouts before their rewards."""

    answers: list[str | None]
    """Answer of each rollout of all processes."""
    sets: list[HypothesisSet | None]
    """Hypothesis set of each group of all processes."""
    local_sets: list[HypothesisSet | None]
    """Hypothesis set of each of this process's rollouts: that of its group."""
    step_ends: list[list[int]]
    likelihoods: AnswerLogLikelihoods


@dataclass(frozen=True)
class HypothesisScorer:
    """Form a rollout batch's hypotheses and read their log-likelihoods.

    Args:
        tokenizer: The model's.
        credit: Says which answers are scored, and how their tokens count.
        args: Settings of elicitation, hypotheses and scoring.
        answer_extractor: Completion -> its final answer, or None.
        answer_equivalence: Whether two answers are one hypothesis.
        step_segmenter: Chain-of-thought token ids -> the ends of its steps.
        end_ids: Token ids that end a turn.
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
        """What is placed after a state."""
        return Elicitation(self.tokenizer, self.args.elicitation)

    @cached_property
    def special_tokens(self) -> set[str]:
        """Texts that no answer may hold."""
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
        """Score the rollouts of this process, together with all others.

        Args:
            model: The policy, a causal language model.
            generated: The rollouts.
            truths: The solution column's value for each.
            start: Index of the first of them among those of all processes.
            group_size: Rollouts per prompt.
            score_completions: Whether to score the completions' own tokens in that pass too.
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
        if not is_asked:  # nor is there room for an answer
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
