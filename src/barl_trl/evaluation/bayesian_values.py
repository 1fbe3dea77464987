r"""How well chains of thought explore and exploit: the Bayesian value, to any checkpoint, of every
step of the responses in a file.

It is not the value that weighs the policy gradient. Both are expectations of the progress rewards
that are left, and of the outcome reward v, on the response as it is:

| | belief about the reward of step t' >= t | |
|---|---|---|
| posterior-weighted value $V(t)$ | $w(t)$: frozen at the step that is judged | `posterior.py` |
| Bayesian value $B(t)$ | $w(t')$: updated at every step | [`bayesian_values`] |
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise, product
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from ..config import BARLConfig
from ..graders import Grader
from ..posterior import closing_values, posterior, posterior_weighted_values, progress_rewards
from ..scoring import Generated, HypothesisScorer
from ..steps import StepSegmenter, delimited_steps, fixed_size_steps
from .metrics import mean_and_standard_error
from .responses import Responses

KEPT = ("benchmark", "problem_id", "sample", "prompt", "reward")
"""What a record of values keeps of its response."""
VALUES = ("bayesian_values", "posterior_weighted_values")


def bayesian_values(
    answer_logps: Float[Tensor, "batch state hypothesis"],
    outcome_rewards: Float[Tensor, " batch"],
    *,
    beta: float,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    hypothesis_mask: Bool[Tensor, "batch hypothesis"] | None = None,
) -> Float[Tensor, "batch step"]:
    r"""The Bayesian state-action value of every step (the paper's section 6.3), on the rollout as
    it is, which is one sample of the policy:

    $$B(t) = \sum_i w_i(t) \, r_i(t) + B(t+1), \qquad t = 0 \dots T-1, \qquad B(T) = v$$

    `w(t)`, the posterior, is the belief $b_t$, `r_i(t)` the progress reward, `v` the outcome
    reward that eq. (def_q_m) adds behind the last step. The belief at t + 1 follows from the
    observed rewards, so that it is the same whichever hypothesis is drawn at t. With one hypothesis
    the sum telescopes to the progress return $p_0(T) - p_0(t) + v$, as `V(t)` does.

    Args:
        answer_logps: As in [`progress_rewards`].
        outcome_rewards: Outcome reward v of each rollout.
        beta: As in [`posterior`].
        state_mask: As in [`progress_rewards`].
        hypothesis_mask: As in [`posterior`].

    Returns:
        Values in [v - (T - t), v + (T - t)], 0 in padding, detached from any graph.

    Raises:
        ValueError: As in [`posterior_weighted_values`].

    Example:
    ```python
    >>> p = torch.tensor([[[0.2, 0.6], [0.6, 0.2], [0.8, 0.2]]])  # found out in the first step
    >>> outcome_rewards = torch.tensor([1.0])
    >>> bayesian_values(p.log(), outcome_rewards, beta=float("inf"))  # .25 * .4 - .75 * .4 + 1.2
    tensor([[1.0000, 1.2000]])

    ```
    """
    with torch.no_grad():
        masks: Any = {"state_mask": state_mask, "hypothesis_mask": hypothesis_mask}
        belief = posterior(answer_logps, beta=beta, **masks)[:, :-1]
        rewards = progress_rewards(answer_logps, state_mask=state_mask)
        # a hypothesis that is not believed adds nothing, also where its reward is undefined
        expected = torch.where(belief > 0, belief * rewards, 0.0).sum(dim=-1)
        outcomes = closing_values(answer_logps, outcome_rewards, beta=beta, **masks)
        values = expected.flip(1).cumsum(dim=1).flip(1) + outcomes[:, None]
        return values if state_mask is None else values.where(state_mask[:, 1:], 0.0)


def load(
    name: str, args: BARLConfig, *, grader: Grader, step_delimiter: str | None = None
) -> tuple[nn.Module, HypothesisScorer]:
    """A checkpoint, and the scorer that [`response_values`] needs.

    Args:
        name: Local folder or Hub id of a causal language model.
        args: Settings of steps, hypotheses and scoring.
        grader: Reads the responses' answers and merges them.
        step_delimiter: Text that ends a step, in place of `args.step_size` tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype="auto", device_map="auto")
    segmenter: StepSegmenter = partial(fixed_size_steps, step_size=args.step_size)
    if step_delimiter is not None:
        segmenter = partial(delimited_steps, decode=tokenizer.decode, delimiter=step_delimiter)
    return model, response_scorer(tokenizer, args, grader=grader, step_segmenter=segmenter)


def response_scorer(
    tokenizer: Any, args: BARLConfig, *, grader: Grader, step_segmenter: StepSegmenter
) -> HypothesisScorer:
    """What forms the hypotheses of a problem and reads their log-likelihoods, as in training.

    Args:
        tokenizer: The model's.
        args: As in [`load`].
        grader: As in [`load`].
        step_segmenter: As in [`BARLTrainer`].
    """
    return HypothesisScorer(
        tokenizer,
        args,
        grader.extract_answer,
        grader.equivalent,
        step_segmenter,
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
    )


def response_values(
    model: nn.Module, scorer: HypothesisScorer, responses: Responses
) -> Iterator[dict[str, Any]]:
    """Beliefs and both values of the responses to one problem, whose answers, with the truth, are
    the hypotheses.

    The texts are tokenised again, prompt and response each on its own.

    Args:
        model: A causal language model of transformers: the policy whose beliefs are read.
        scorer: As made by [`response_scorer`].
        responses: As in a response file.

    Yields:
        For each response `benchmark`, `problem_id`, `sample`, `prompt` and `reward` as they are,
        the hypotheses' `answers` (H, the truth first), the texts of its `steps` (T), the
        `posterior` (T + 1 rows of H), and `bayesian_values` and `posterior_weighted_values` (T
        each). Nothing, if the solution is no usable truth.
    """
    generated = _tokenized(scorer.tokenizer, responses)
    scored = scorer.score(
        model,
        generated,
        [response["solution"] for response in responses],
        start=0,
        group_size=len(responses),
        read_completions=False,
        own_temperature=1.0,
        max_tokens=scorer.args.scoring_max_tokens,
    )
    [hypotheses] = scored.sets
    if hypotheses is None:
        return
    logps, states, exists, *_ = scored.likelihoods
    outcomes = torch.tensor([response["reward"] for response in responses], device=logps.device)
    options: Any = {"state_mask": states, "hypothesis_mask": exists}
    options["beta"] = scorer.args.consistency_beta
    belief = posterior(logps, **options)
    values = bayesian_values(logps, outcomes, **options)
    training_values = posterior_weighted_values(logps, outcomes, **options)
    for row, (chain, ends) in enumerate(
        zip(generated.completion_ids, scored.step_ends, strict=True)
    ):
        steps = (chain[start:end] for start, end in pairwise([0, *ends]))
        yield {name: responses[row][name] for name in KEPT} | {
            "answers": list(hypotheses.answers),
            "steps": [scorer.tokenizer.decode(step) for step in steps],
            "posterior": belief[row, : len(ends) + 1].tolist(),
            "bayesian_values": values[row, : len(ends)].tolist(),
            "posterior_weighted_values": training_values[row, : len(ends)].tolist(),
        }


def _tokenized(tokenizer: Any, responses: Responses) -> Generated:
    def prompt_ids(prompt: str) -> list[int]:
        # a chat template writes the token that begins a text itself
        begins = tokenizer.bos_token is not None and prompt.startswith(tokenizer.bos_token)
        return tokenizer.encode(prompt, add_special_tokens=not begins)

    texts = [response["response"] for response in responses]
    return Generated(
        [prompt_ids(response["prompt"]) for response in responses],
        [tokenizer.encode(text, add_special_tokens=False) for text in texts],
        texts,
    )


def values_by_timestep(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means of both values at each timestep, over all, correct and wrong responses.

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
        for name, selection in product(VALUES, ("all", _selection(record))):
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
