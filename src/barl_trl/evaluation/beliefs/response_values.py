"""Beliefs and values of responses to benchmarks, under any checkpoint."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from ...credit.rollouts import ScoredRollouts
from ...credit.token_weights import weigh_steps
from ...graders import Grader
from ...steps import StepSegmenter, segmenter_of
from ...trainer.config import BARLConfig
from ...trainer.rollouts.all_rollouts import scored_rollouts
from ...trainer.rollouts.hypothesis_scorer import Generated, HypothesisScorer, Scored
from ..responses import Response
from ..statistics.metrics import mean_and_standard_error
from .bayesian_values import bayesian_values

_KEPT = ("benchmark", "problem_id", "sample", "prompt", "reward")
_VALUES = ("bayesian_values", "posterior_weighted_values")


def load(
    name: str, args: BARLConfig, *, grader: Grader, step_delimiter: str | None = None
) -> tuple[nn.Module, HypothesisScorer]:
    """Load a causal language model, by folder or Hub id, and make its [`response_scorer`].

    A step ends with the text `step_delimiter`; if that is None, it has `args.step_size` tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", device_map="auto")
    segmenter = segmenter_of(tokenizer.decode, step_size=args.step_size, delimiter=step_delimiter)
    return model, response_scorer(tokenizer, args, grader=grader, step_segmenter=segmenter)


def response_scorer(
    tokenizer: Any, args: BARLConfig, *, grader: Grader, step_segmenter: StepSegmenter
) -> HypothesisScorer:
    """Make the scorer that forms a problem's hypotheses and reads their log-likelihoods.

    Args:
        tokenizer: The model's tokenizer.
        args: Settings of steps, hypotheses and scoring.
        grader: Reads the responses' answers, and merges equivalent ones.
        step_segmenter: Token ids of a response -> the ends of its steps, in tokens.
    """
    return HypothesisScorer(
        tokenizer,
        args.own_credit,
        args,
        grader.extract_answer,
        grader.equivalent,
        step_segmenter,
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
    )


class BelievedResponses(NamedTuple):
    """B responses to one problem, and what a checkpoint believed at their states."""

    responses: Sequence[Response]
    """The responses."""
    generated: Generated
    """Token ids of their prompts and completions."""
    scored: Scored
    """Their steps and hypotheses, and the log-likelihoods of the hypotheses."""
    rollouts: ScoredRollouts
    """What estimators of credit see of the responses."""
    values: Tensor
    """Value of each step under the scorer's credit, (B, T)."""


def believe(
    model: nn.Module, scorer: HypothesisScorer, responses: Sequence[Response]
) -> BelievedResponses:
    """Read a checkpoint's beliefs at the states of the responses to one problem.

    The true answer and the answers of the responses are the hypotheses. Prompt and response are
    tokenised again, each alone.

    Args:
        model: A causal language model of transformers: the policy whose beliefs are read.
        scorer: The scorer that [`response_scorer`] made.
        responses: The responses to the problem.

    Raises:
        ValueError: The responses are agents'.
    """
    if any(response.messages for response in responses):
        raise ValueError(
            f"responses must be of one turn, got agents' in {responses[0].benchmark}: their texts "
            "lack what tools returned, so beliefs would be wrong. `barl train --log_beliefs true` "
            "records agents' beliefs."
        )
    generated = tokenized(scorer.tokenizer, responses)
    scored = scorer.score(
        model,
        generated,
        [{scorer.args.solution_column: response.solution} for response in responses],
        start=0,
        group_size=len(responses),
        score_completions=False,
        completion_temperature=1.0,
        max_tokens=scorer.args.scoring_max_tokens,
    )
    logps = scored.likelihoods.answer_logps
    rollouts = scored_rollouts(
        None,
        scored,
        torch.tensor([response.reward for response in responses], device=logps.device),
        group_size=len(responses),
        beta=scorer.args.consistency_beta,
    )
    settings = scorer.args.settings
    weighted = weigh_steps(rollouts, scorer.credit, settings | settings["credit_options"]).steps
    return BelievedResponses(responses, generated, scored, rollouts, weighted)


def value_records(
    believed: BelievedResponses, scorer: HypothesisScorer
) -> Iterator[dict[str, Any]]:
    """Yield a record of the beliefs and both values of each response to a problem.

    Its keys: `benchmark`, `problem_id`, `sample`, `prompt` and `reward` of the response, the
    `answers` of the hypotheses (H, the truth first), the texts of the `steps` (T), the `posterior`
    (T + 1 rows of H), the `bayesian_values` (T) and the `posterior_weighted_values` (T). If the
    solution cannot be used as the truth, there are no records.
    """
    [hypotheses] = believed.scored.sets
    if hypotheses is None:
        return
    rollouts = believed.rollouts
    unbiased = bayesian_values(
        rollouts.answer_logps,
        rollouts.outcomes,
        beta=scorer.args.consistency_beta,
        state_mask=rollouts.state_mask,
        hypothesis_mask=rollouts.hypothesis_mask,
    )
    for row, (chain, ends) in enumerate(
        zip(believed.generated.completion_ids, believed.scored.step_ends, strict=True)
    ):
        steps = (chain[start:end] for start, end in pairwise([0, *ends]))
        yield {name: getattr(believed.responses[row], name) for name in _KEPT} | {
            "answers": list(hypotheses.answers),
            "steps": [scorer.tokenizer.decode(step) for step in steps],
            "posterior": rollouts.belief[row, : len(ends) + 1].tolist(),
            "bayesian_values": unbiased[row, : len(ends)].tolist(),
            "posterior_weighted_values": believed.values[row, : len(ends)].tolist(),
        }


def tokenized(tokenizer: Any, responses: Sequence[Response]) -> Generated:
    """Tokenise the prompt and the text of each response, each alone."""

    def prompt_ids(prompt: str) -> list[int]:
        # a chat template may already have written the token that begins a text
        begins = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
        return tokenizer.encode(prompt, add_special_tokens=not begins)

    texts = [response.response for response in responses]
    return Generated(
        [prompt_ids(response.prompt) for response in responses],
        [tokenizer.encode(text, add_special_tokens=False) for text in texts],
        texts,
    )


def values_by_timestep(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average both values at each timestep, over all, the correct and the wrong responses.

    The mean at a timestep is over the responses that have this step: first over the responses to
    each problem, then over problems. The standard error is over problems.

    Args:
        records: The records that [`value_records`] yields.

    Returns:
        Rows with the keys `value` (its name), `responses` (`"all"`, `"correct"` or `"wrong"`),
        `timestep` (from 0; None for the mean over a response's steps), `mean`, `standard_error`
        (None for one problem), `num_problems` and `num_responses`.
    """
    grouped: Any = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record["steps"]:
            continue
        verdict = "correct" if record["reward"] == 1 else "wrong"
        for name, selection in product(_VALUES, ("all", verdict)):
            of_steps = record[name]
            for timestep, value in [*enumerate(of_steps), (None, fmean(of_steps))]:
                grouped[name, selection, timestep][record["problem_id"]].append(value)
    table = []
    for place in sorted(grouped, key=lambda place: (*place[:2], place[2] is None, place[2])):
        (name, selection, timestep), by_problem = place, grouped[place]
        mean, error = mean_and_standard_error(list(map(fmean, by_problem.values())))
        table.append(
            {
                "value": name,
                "responses": selection,
                "timestep": timestep,
                "mean": mean,
                "standard_error": error,
                "num_problems": len(by_problem),
                "num_responses": sum(map(len, by_problem.values())),
            }
        )
    return table
