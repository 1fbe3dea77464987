"""Beliefs and values of the responses in a file, under any checkpoint."""

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
from ...trainer.barl_fields import BARLFields
from ...trainer.rollouts.all_rollouts import scored_rollouts
from ...trainer.rollouts.hypothesis_scorer import Generated, HypothesisScorer, Scored
from ..responses import Response
from ..statistics.metrics import mean_and_standard_error
from .bayesian_values import bayesian_values

_KEPT = ("benchmark", "problem_id", "sample", "prompt", "reward")
"""Fields of its response that a record of values keeps."""
_VALUES = ("bayesian_values", "posterior_weighted_values")


def load(
    name: str, args: BARLFields, *, grader: Grader, step_delimiter: str | None = None
) -> tuple[nn.Module, HypothesisScorer]:
    """Load a checkpoint, with the scorer that [`response_values`] needs.

    Args:
        name: Local folder or Hub id of a causal language model.
        args: Settings of steps, hypotheses and scoring.
        grader: Reads the responses' answers and merges them.
        step_delimiter: Text that ends a step, in place of `args.step_size` tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", device_map="auto")
    segmenter = segmenter_of(tokenizer.decode, step_size=args.step_size, delimiter=step_delimiter)
    return model, response_scorer(tokenizer, args, grader=grader, step_segmenter=segmenter)


def response_scorer(
    tokenizer: Any, args: BARLFields, *, grader: Grader, step_segmenter: StepSegmenter
) -> HypothesisScorer:
    """Make the scorer that forms a problem's hypotheses and reads their log-likelihoods.

    Args:
        tokenizer: The model's.
        args: Settings of steps, hypotheses and scoring.
        grader: Reads the responses' answers and merges them.
        step_segmenter: Token ids of a response -> the ends of its steps.
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
    """The responses to one problem, and what a checkpoint believed at their states."""

    responses: Sequence[Response]
    generated: Generated
    scored: Scored
    rollouts: ScoredRollouts
    """How estimators of credit see them."""
    values: Tensor
    """Values of their steps under the scorer's credit, (B, T)."""


def believe(
    model: nn.Module, scorer: HypothesisScorer, responses: Sequence[Response]
) -> BelievedResponses:
    """Read a checkpoint's beliefs at the states of the responses to one problem.

    Their answers, with the truth, are the hypotheses. The texts are tokenised again, prompt and
    response each on its own.

    Args:
        model: A causal language model of transformers: the policy whose beliefs are read.
        scorer: As made by [`response_scorer`].
        responses: The responses, of one problem.
    """
    generated = tokenized(scorer.tokenizer, responses)
    scored = scorer.score(
        model,
        generated,
        [response.solution for response in responses],
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
        generated.completion_ids,
        group_size=len(responses),
        beta=scorer.args.consistency_beta,
    )
    values = weigh_steps(rollouts, scorer.credit, scorer.args.settings).steps
    return BelievedResponses(responses, generated, scored, rollouts, values)


def response_values(
    model: nn.Module, scorer: HypothesisScorer, responses: Sequence[Response]
) -> Iterator[dict[str, Any]]:
    """Compute beliefs and both values of the responses to one problem.

    Args:
        model: A causal language model of transformers: the policy whose beliefs are read.
        scorer: As made by [`response_scorer`].
        responses: The responses, of one problem.

    Yields:
        For each response `benchmark`, `problem_id`, `sample`, `prompt` and `reward` as they are,
        the hypotheses' `answers` (H, the truth first), the texts of its `steps` (T), the
        `posterior` (T + 1 rows of H), and `bayesian_values` and `posterior_weighted_values` (T
        each). Nothing, if the solution is no usable truth.
    """
    yield from value_records(believe(model, scorer, responses), scorer)


def value_records(found: BelievedResponses, scorer: HypothesisScorer) -> Iterator[dict[str, Any]]:
    """Yield a record of each response to a problem, as [`response_values`] does."""
    [hypotheses] = found.scored.sets
    if hypotheses is None:
        return
    rollouts = found.rollouts
    values = bayesian_values(
        rollouts.answer_logps,
        rollouts.outcomes,
        beta=scorer.args.consistency_beta,
        state_mask=rollouts.state_mask,
        hypothesis_mask=rollouts.hypothesis_mask,
    )
    for row, (chain, ends) in enumerate(
        zip(found.generated.completion_ids, found.scored.step_ends, strict=True)
    ):
        steps = (chain[start:end] for start, end in pairwise([0, *ends]))
        yield {name: getattr(found.responses[row], name) for name in _KEPT} | {
            "answers": list(hypotheses.answers),
            "steps": [scorer.tokenizer.decode(step) for step in steps],
            "posterior": rollouts.belief[row, : len(ends) + 1].tolist(),
            "bayesian_values": values[row, : len(ends)].tolist(),
            "posterior_weighted_values": found.values[row, : len(ends)].tolist(),
        }


def tokenized(tokenizer: Any, responses: Sequence[Response]) -> Generated:
    """Return responses as tokens, prompt and response each tokenised on its own."""

    def prompt_ids(prompt: str) -> list[int]:
        # a chat template writes the token that begins a text itself
        begins = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
        return tokenizer.encode(prompt, add_special_tokens=not begins)

    texts = [response.response for response in responses]
    return Generated(
        [prompt_ids(response.prompt) for response in responses],
        [tokenizer.encode(text, add_special_tokens=False) for text in texts],
        texts,
    )


def values_by_timestep(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average both values at each timestep, over all, correct and wrong responses.

    A timestep's mean is over the responses that are so long: first over those to one problem, then
    over problems, whose number gives the standard error.

    Args:
        records: What [`response_values`] yields.

    Returns:
        Rows of `value` (its name), `responses` (`"all"`, `"correct"` or `"wrong"`), `timestep`
        (from 0; `None`: the mean over a response's steps), `mean`, `standard_error` (`None` for
        one problem), `num_problems`, `num_responses`.
    """
    grouped: Any = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record["steps"]:
            continue
        for name, selection in product(_VALUES, ("all", _selection(record))):
            values = record[name]
            for timestep, value in [*enumerate(values), (None, fmean(values))]:
                grouped[name, selection, timestep][record["problem_id"]].append(value)
    rows = []
    for place in sorted(grouped, key=lambda place: (*place[:2], place[2] is None, place[2])):
        (name, selection, timestep), by_problem = place, grouped[place]
        mean, error = mean_and_standard_error(list(map(fmean, by_problem.values())))
        rows.append(
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
    return rows


def _selection(record: dict[str, Any]) -> str:
    return "correct" if record["reward"] == 1 else "wrong"
