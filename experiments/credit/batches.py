"""Batches of sampled rollouts, scored once, and the weights that each arm gives to their tokens."""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from barl_trl.credit.registry import Credit
from barl_trl.credit.rollouts import ScoredRollouts
from barl_trl.credit.token_weights import token_weights
from barl_trl.posterior import posterior
from barl_trl.rewards import AccuracyReward
from barl_trl.steps import StepSegmenter, spread_over_tokens
from barl_trl.trainer.config import BARLConfig
from barl_trl.trainer.rollouts.all_rollouts import scored_rollouts
from barl_trl.trainer.rollouts.hypothesis_scorer import Generated, HypothesisScorer

from ..sampling import sample
from .arms import CreditArm


@dataclass(frozen=True)
class TokenizedProblem:
    """A prompt and its true answer."""

    prompt_ids: Sequence[int]
    solution: str


@dataclass(frozen=True)
class CreditTask:
    """What turns a model's rollouts into scored ones.

    Attributes:
        tokenizer: The model's tokenizer.
        reward: Judges completions; its grader reads the answers and merges them.
        step_segmenter: Maps the token ids of a chain of thought to the ends of its steps.
        end_ids: Token ids that end a turn.
        max_new_tokens: Most tokens of a completion.
        fields: Settings of scoring.
    """

    tokenizer: Any
    reward: AccuracyReward
    step_segmenter: StepSegmenter
    end_ids: Collection[int]
    max_new_tokens: int
    fields: BARLConfig

    def scorer(self, credit: Credit) -> HypothesisScorer:
        """Return the scorer of what a credit needs."""
        grader = self.reward.grader
        return HypothesisScorer(
            self.tokenizer,
            credit,
            self.fields,
            grader.extract_answer,
            grader.equivalent,
            self.step_segmenter,
            end_ids=self.end_ids,
        )


@dataclass(frozen=True)
class RolloutTokens:
    """B rollouts of whole groups.

    Attributes:
        prompt_ids: Token ids of each rollout's prompt.
        completion_ids: Token ids of each completion.
        outcomes: Outcome reward of each rollout.
        has_answer: Whether an answer was found in each rollout.
        group_size: Rollouts per prompt.
        step_ends: Ends of each rollout's steps, in tokens.
        scored: The scored rollouts, by answer likelihood.
        fields: Settings of scoring.
    """

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    outcomes: Float[Tensor, " batch"]
    has_answer: Bool[Tensor, " batch"]
    group_size: int
    step_ends: list[list[int]]
    scored: dict[str, ScoredRollouts]
    fields: BARLConfig

    @cached_property
    def token_mask(self) -> Bool[Tensor, "batch token"]:
        """The completions' tokens, the end of the turn included."""
        lengths = torch.tensor([len(ids) for ids in self.completion_ids])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        return mask.to(self.outcomes.device)

    @cached_property
    def step_places(self) -> Int[Tensor, "batch token"]:
        """Number of each token's step, from 0; the end of the turn has the next one, padding -1."""
        mask = self.token_mask
        number = max(map(len, self.step_ends))
        steps = torch.arange(number, device=mask.device).expand(len(mask), -1).float()
        closing = torch.tensor([float(len(ends)) for ends in self.step_ends], device=mask.device)
        places = spread_over_tokens(steps, self.step_ends, closing, num_tokens=mask.shape[1])
        return places.long().masked_fill(~mask, -1)

    def token_weights(self, arm: CreditArm) -> Float[Tensor, "batch token"]:
        """Return the weights of the tokens, as [`BARLTrainer`] computes them."""
        credit = arm.credit_in_use
        is_scored = credit.hypotheses != "none"  # if not, any scoring pass will do
        rollouts = self.scored[credit.answer_likelihood if is_scored else min(self.scored)]
        settings = settings_of(arm, self.fields)
        rollouts = for_credit(rollouts, arm)
        return token_weights(rollouts, credit, settings, self.step_ends, self.token_mask).weights


def settings_of(arm: CreditArm, fields: BARLConfig) -> dict[str, Any]:
    """Return the settings that an arm's estimator gets: those of a trainer, and the arm's own.

    Raises:
        ValueError: The arm's credit and these settings do not fit.
    """
    of_arm = copy(fields)
    of_arm.credit, of_arm.consistency_beta = arm.credit, arm.consistency_beta
    own = {name: value for name, value in arm.settings.items() if name in fields.settings}
    vars(of_arm).update(own)
    of_arm.credit_options = {n: value for n, value in arm.settings.items() if n not in own}
    of_arm.check_credit_options()
    return of_arm.settings | dict(arm.settings)


def for_credit(rollouts: ScoredRollouts, arm: CreditArm) -> ScoredRollouts:
    """Return the rollouts with only the hypotheses that an arm's credit asks for."""
    number = {"rollouts": None, "truth": 1, "none": 0}[arm.credit_in_use.hypotheses]
    logps, exists = rollouts.answer_logps[..., :number], rollouts.hypothesis_mask[:, :number]
    belief = torch.zeros_like(logps)
    if number != 0:
        belief = posterior(
            logps,
            beta=arm.consistency_beta,
            state_mask=rollouts.state_mask,
            hypothesis_mask=exists,
        )
    return replace(rollouts, answer_logps=logps, hypothesis_mask=exists, belief=belief)


def scoring_passes(arms: Collection[CreditArm]) -> dict[str, Credit]:
    """Return a credit for each answer likelihood of the arms: the one with the most hypotheses.

    A scoring pass for it serves all arms with this likelihood. Likelihoods whose arms all need no
    hypotheses are left out, unless there are no others.
    """
    passes: dict[str, Credit] = {}
    needs = ("none", "truth", "rollouts")
    for credit in sorted(
        (arm.credit_in_use for arm in arms), key=lambda credit: needs.index(credit.hypotheses)
    ):
        passes[credit.answer_likelihood] = credit
    scored = {name: credit for name, credit in passes.items() if credit.hypotheses != "none"}
    return scored or passes


def rollout_batch(
    model: nn.Module,
    task: CreditTask,
    problems: Sequence[TokenizedProblem],
    *,
    group_size: int,
    arms: Collection[CreditArm],
    generator: torch.Generator,
) -> RolloutTokens:
    """Sample, judge and score rollouts.

    Args:
        model: The policy, in evaluation mode.
        task: What judges and scores its rollouts.
        problems: One for each group.
        group_size: Rollouts per prompt.
        arms: The arms that will weigh the rollouts.
        generator: Source of the samples' draws, on the CPU.
    """
    repeated = [problem for problem in problems for _ in range(group_size)]
    prompts = [list(problem.prompt_ids) for problem in repeated]
    completions = sample(
        model,
        prompts,
        max_new_tokens=task.max_new_tokens,
        end_ids=task.end_ids,
        generator=generator,
    )
    return scored_tokens(model, task, repeated, completions, group_size=group_size, arms=arms)


def scored_tokens(
    model: nn.Module,
    task: CreditTask,
    problems: Sequence[TokenizedProblem],
    completions: list[list[int]],
    *,
    group_size: int,
    arms: Collection[CreditArm],
) -> RolloutTokens:
    """Judge and score completions, one for each of the problems (repeated for each rollout)."""
    prompts = [list(problem.prompt_ids) for problem in problems]
    solutions = [problem.solution for problem in problems]
    texts = [task.tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
    judged = task.reward(texts, solutions)
    device: Any = next(model.parameters()).device
    rewards = torch.tensor([torch.nan if r is None else r for r in judged], device=device)
    scored, step_ends, answers = {}, [], []
    for likelihood, credit in sorted(scoring_passes(arms).items()):
        scores = task.scorer(credit).score(
            model,
            Generated(prompts, completions, texts),
            [{task.fields.solution_column: solution} for solution in solutions],
            start=0,
            group_size=group_size,
            score_completions=False,
            completion_temperature=1.0,
            max_tokens=task.fields.scoring_max_tokens,
        )
        step_ends, answers = scores.step_ends, scores.answers
        scored[likelihood] = scored_rollouts(
            None,
            scores,
            rewards,
            group_size=group_size,
            beta=1.0,
        )
    return RolloutTokens(
        prompts,
        completions,
        rewards.nan_to_num(),
        torch.tensor([answer is not None for answer in answers]),
        group_size,
        step_ends,
        scored,
        task.fields,
    )


def completion_logps(
    model: nn.Module, batch: RolloutTokens, rows: list[int]
) -> Float[Tensor, "row token"]:
    """Return the log-probabilities of the tokens of some completions; anything in padding."""
    device: Any = next(model.parameters()).device
    prompts = [batch.prompt_ids[row] for row in rows]
    completions = [batch.completion_ids[row] for row in rows]
    width, length = max(map(len, prompts)), max(map(len, completions))
    pairs = list(zip(prompts, completions, strict=True))
    ids = torch.tensor([[0] * (width - len(p)) + p + c + [0] * (length - len(c)) for p, c in pairs])
    mask = torch.tensor(
        [[0] * (width - len(p)) + [1] * len(p + c) + [0] * (length - len(c)) for p, c in pairs]
    )
    logits = model(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0).to(device),
        logits_to_keep=length + 1,
    ).logits[:, :-1]
    targets = ids[:, width:].to(device)
    return logits.float().log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0]
