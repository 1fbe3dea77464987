r"""The paper's figure on the effectiveness of chains of thought: Bayesian values of responses.

The Bayesian value of a reasoning step says how well a chain of thought explores and exploits. It is
not the value that weighs the policy gradient. Both are expectations, over the belief, of the sum of
the remaining progress rewards and the outcome reward v. They differ in the belief about the reward
of a step t' >= t: the posterior-weighted value V(t) freezes it at w(t), the step that is judged;
the Bayesian value B(t) takes w(t'), updated at every step.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from barl_trl import BARLConfig
from barl_trl.evaluation.records import response_table, write_responses
from barl_trl.evaluation.responses import Response
from barl_trl.evaluation.statistics import mean_and_standard_error
from barl_trl.graders import Grader, get_grader
from barl_trl.hypotheses import HypothesisSet, merge_hypotheses, truth_answer
from barl_trl.plausibility import answer_log_likelihoods
from barl_trl.plausibility.elicitation import DEFAULT_ELICITATION, Elicitation
from barl_trl.posterior import posterior, posterior_weighted_values, progress_rewards, values_under
from barl_trl.steps import chain_of_thought, segmenter_of, step_ends_of
from barl_trl.trainer.recorder import TokenTexts

from ..tools import read_json, write_json
from .common import Rows, draw_lines, names, panels, parser_of, read_models, show

VALUES = ("bayesian_values", "posterior_weighted_values")
_KEPT = ("benchmark", "problem_id", "sample", "prompt", "reward")
_SELECTIONS = ("all", "correct", "wrong")


def bayesian_values(
    answer_logps: Float[Tensor, "batch state hypothesis"],
    outcome_rewards: Float[Tensor, " batch"],
    *,
    beta: float,
    state_mask: Bool[Tensor, "batch state"] | None = None,
    hypothesis_mask: Bool[Tensor, "batch hypothesis"] | None = None,
) -> Float[Tensor, "batch step"]:
    r"""Compute the Bayesian state-action value of every step; no other continuation is sampled.

    $$B(t) = \sum_i w_i(t) \, r_i(t) + B(t+1), \qquad t = 0 \dots T-1, \qquad B(T) = v$$

    The posterior $w(t)$ is the belief $b_t$, $r_i(t)$ is the progress reward, and v is the outcome
    reward, which eq. (def_q_m) adds after the last step. With one hypothesis, both $B(t)$ and
    $V(t)$ telescope to the progress return $p_0(T) - p_0(t) + v$.

    Args:
        answer_logps: Log-likelihood of each answer at each state, in nats; hypothesis 0 is the
            ground truth.
        outcome_rewards: Outcome reward v of each rollout.
        beta: Consistency coefficient, from 0 to `inf`.
        state_mask: The states that exist. None: all.
        hypothesis_mask: The hypotheses that exist. None: all.

    Returns:
        Values B(t), 0 in padding.

    Example:
    ```python
    >>> p = torch.tensor([[[0.2, 0.6], [0.6, 0.2], [0.8, 0.2]]])  # found out in the first step
    >>> outcome_rewards = torch.tensor([1.0])
    >>> bayesian_values(p.log(), outcome_rewards, beta=float("inf"))  # .25 * .4 - .75 * .4 + 1.2
    tensor([[1.0000, 1.2000]])

    ```
    """
    belief = posterior(
        answer_logps, beta=beta, state_mask=state_mask, hypothesis_mask=hypothesis_mask
    )
    closing = values_under(belief, answer_logps, outcome_rewards, state_mask=state_mask).closing
    belief, rewards = belief[:, :-1], progress_rewards(answer_logps, state_mask=state_mask)
    # a hypothesis that is not believed adds nothing, also where its reward is undefined
    expected = torch.where(belief > 0, belief * rewards, 0.0).sum(dim=-1)
    returns = expected.flip(1).cumsum(dim=1).flip(1) + closing[:, None]
    return returns if state_mask is None else returns.where(state_mask[:, 1:], 0.0)


@dataclass(frozen=True)
class Reader:
    """Reads the beliefs of a checkpoint.

    Attributes:
        model, tokenizer: The checkpoint, whose beliefs are read.
        grader: Reads the responses' answers, and merges equivalent ones.
        segmenter: Token ids of a response -> the ends of its steps, in tokens.
        beta: Consistency coefficient.
        elicitation: Text that asks for an answer.
        reduction: How the log-probabilities of an answer's tokens are reduced.
        temperature: Divides the logits of answers.
        max_chars: Longest admissible answer.
    """

    model: Any
    tokenizer: Any
    grader: Grader
    segmenter: Callable[[Sequence[int]], Any]
    beta: float = 1.0
    elicitation: str = DEFAULT_ELICITATION
    reduction: Any = "mean"
    temperature: float = 1.0
    max_chars: int = BARLConfig.max_answer_chars

    def tokens(self, response: Response) -> tuple[list[int], list[int], list[int]]:
        """Return the token ids of prompt and response, each tokenised alone, and the step ends."""
        # a chat template may already have written the token that begins a text
        bos, prompt = self.tokenizer.bos_token, response.prompt
        begins = bos is not None and prompt.startswith(bos)
        ids = self.tokenizer.encode(response.response, add_special_tokens=False)
        thought = chain_of_thought(ids, [self.tokenizer.eos_token_id, self.tokenizer.pad_token_id])
        ends = step_ends_of(thought, self.segmenter)
        return self.tokenizer.encode(prompt, add_special_tokens=not begins), ids, list(ends)

    def read(self, responses: Sequence[Response]) -> "Beliefs | None":
        """Return the beliefs at the states of the responses to a problem; None without a truth.

        The true answer and the answers of the responses are the hypotheses.

        Raises:
            ValueError: The responses are agents', whose texts lack what tools returned.
        """
        if any(response.messages for response in responses):
            raise ValueError("responses must be of one turn: texts of agents lack tools' results.")
        hypotheses = merge_hypotheses(
            truth_answer(responses[0].solution),
            [self.grader.extract_answer(response.response) for response in responses],
            equivalent=self.grader.equivalent,
            max_answer_chars=self.max_chars,
        )
        if hypotheses is None:
            return None
        asked = Elicitation(self.tokenizer, self.elicitation)
        tokens = [self.tokens(response) for response in responses]
        found = answer_log_likelihoods(
            self.model,
            [
                asked.rollout(prompt, ids[: ends[-1] if ends else 0], ends, hypotheses.answers)
                for prompt, ids, ends in tokens
            ],
            elicitation_ids=asked.token_ids,
            reduction=self.reduction,
            temperature=self.temperature,
        )
        masks = {"state_mask": found.state_mask, "hypothesis_mask": found.hypothesis_mask}
        believed = posterior(found.answer_logps, beta=self.beta, **masks)
        return Beliefs(responses, hypotheses, tokens, found, believed)


@dataclass(frozen=True)
class Beliefs:
    """B responses to one problem, and what a checkpoint believed at their states."""

    responses: Sequence[Response]
    hypotheses: HypothesisSet
    tokens: Sequence[tuple[list[int], list[int], list[int]]]
    """Token ids of prompt and response, and the ends of the steps."""
    likelihoods: Any
    """The [`~barl_trl.plausibility.answer_logps.AnswerLogLikelihoods`]."""
    posterior: Tensor

    def records(self, tokenizer: Any, beta: float) -> Iterator[dict[str, Any]]:
        """Yield a record of the beliefs and both values of each response."""
        logps, state_mask, hypothesis_mask, *_ = self.likelihoods
        outcomes = torch.tensor([one.reward for one in self.responses], device=logps.device)
        masks = {"state_mask": state_mask, "hypothesis_mask": hypothesis_mask}
        bayesian = bayesian_values(logps, outcomes, beta=beta, **masks)
        weighted = posterior_weighted_values(logps, outcomes, beta=beta, **masks)
        for row, (response, (_, ids, ends)) in enumerate(
            zip(self.responses, self.tokens, strict=True)
        ):
            steps = (ids[start:end] for start, end in pairwise([0, *ends]))
            yield {name: getattr(response, name) for name in _KEPT} | {
                "answers": list(self.hypotheses.answers),
                "steps": [tokenizer.decode(step) for step in steps],
                "posterior": self.posterior[row, : len(ends) + 1].tolist(),
                "bayesian_values": bayesian[row, : len(ends)].tolist(),
                "posterior_weighted_values": weighted[row, : len(ends)].tolist(),
            }

    def columns(self, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the columns of rollout records that hold beliefs."""
        number = len(self.responses)
        rows = zip(self.likelihoods.answer_logps.tolist(), self.tokens, strict=True)
        return {
            "step_ends": [ends for *_, ends in self.tokens],
            "step_values": [record["posterior_weighted_values"] for record in records],
            "hypotheses": [list(self.hypotheses.answers)] * number,
            "member": list(self.hypotheses.members),
            "answer_logps": [logps[: len(ends) + 1] for logps, (*_, ends) in rows],
            "posterior": [record["posterior"] for record in records],
            "scored_tokens": list(self.likelihoods.rollout_tokens),
            "has_truth": [True] * number,
        }


def values_by_timestep(records: Iterable[dict[str, Any]]) -> Rows:
    """Average both values at each timestep, over all, the correct and the wrong responses.

    The mean at a timestep is over the responses that have this step: first over the responses to
    each problem, then over problems. The standard error is over problems.

    Returns:
        Rows with the keys `value` (its name), `responses` (`"all"`, `"correct"` or `"wrong"`),
        `timestep` (from 0; None for the mean over a response's steps), `mean`, `standard_error`
        (None for one problem), `num_problems` and `num_responses`.
    """
    grouped: Any = defaultdict(lambda: defaultdict(list))
    for record in records:
        verdict = "correct" if record["reward"] == 1 else "wrong"
        for name, selection in product(VALUES, ("all", verdict)):
            of_steps = record[name]
            for timestep, value in [*enumerate(of_steps), (None, fmean(of_steps or [0.0]))]:
                if of_steps:
                    grouped[name, selection, timestep][record["problem_id"]].append(value)
    table = []
    for place in sorted(grouped, key=lambda place: (*place[:2], place[2] is None, place[2])):
        by_problem = grouped[place]
        mean, error = mean_and_standard_error(list(map(fmean, by_problem.values())))
        row = dict(zip(("value", "responses", "timestep"), place, strict=True))
        row |= {"mean": mean, "standard_error": error, "num_problems": len(by_problem)}
        table.append(row | {"num_responses": sum(map(len, by_problem.values()))})
    return table


def draw(rows: Rows, path: Path, value: str, step: str) -> None:
    """Draw a value by timestep: of all responses, the correct and the wrong ones."""
    rows = [row for row in rows if row["value"] == value and row["timestep"] is not None]
    benchmarks, title = names(rows, "benchmark"), value.replace("_", " ").capitalize()
    with panels(path, len(benchmarks), len(_SELECTIONS), f"{title} of each step") as (_, axes):
        for line, selection in zip(axes, _SELECTIONS, strict=True):
            for axis, benchmark in zip(line, benchmarks, strict=True):
                place = (benchmark, selection)
                of_panel = [r for r in rows if (r["benchmark"], r["responses"]) == place]
                # timesteps that few problems reach are noise
                fewest = 0.05 * max((row["num_problems"] for row in of_panel), default=0)
                of_panel = [row for row in of_panel if row["num_problems"] >= fewest]
                draw_lines(axis, of_panel, "timestep", "mean")
                axis.set(title=benchmark, xlabel=f"timestep (step: {step})")
            line[0].set_ylabel(f"{selection} responses")


def add_reader_options(parser: Any) -> None:
    """Add the options of [`reader_of`]."""
    parser.add_argument("--model", help="checkpoint, if not the one that gave the responses")
    parser.add_argument("--step_size", type=int, default=BARLConfig.step_size, help="tokens")
    parser.add_argument("--step_delimiter", help="text that ends a step; replaces step_size")
    parser.add_argument("--consistency_beta", type=float, default=1.0)
    parser.add_argument("--max_answer_chars", type=int, default=BARLConfig.max_answer_chars)
    parser.add_argument("--grader", default="math_verify")
    parser.add_argument("--extraction", default="boxed")
    parser.add_argument("--max_problems", type=int, help="first problems of each benchmark")


def reader_of(options: Any, folder: Path) -> tuple[str, Reader]:
    """Load the checkpoint that the options name, or that gave the responses in a folder."""
    name = options.model or read_json(folder / "results.json")["model"]
    disable_progress_bar()
    tokenizer: Any = AutoTokenizer.from_pretrained(name)
    segmenter = segmenter_of(
        tokenizer.decode, step_size=options.step_size, delimiter=options.step_delimiter
    )
    return name, Reader(
        AutoModelForCausalLM.from_pretrained(name, dtype="auto", device_map="auto").eval(),
        tokenizer,
        get_grader(options.grader, options.extraction),
        segmenter,
        options.consistency_beta,
        max_chars=options.max_answer_chars,
    )


def main(argv: list[str] | None = None) -> None:
    """Write the beliefs and values of every response, their means, and figures.

    In `<name>/<benchmark>.jsonl`, in rollout records that `barl inspect` shows, and in
    `values.json`.
    """
    parser = parser_of(__doc__, "outputs/values")
    parser.add_argument("responses", nargs="+", type=Path, metavar="DIR")
    add_reader_options(parser)
    options = parser.parse_args(argv)
    responses_of = read_models(options, options.responses)
    for name, source in zip(responses_of, options.responses, strict=True):
        if (options.output_dir / name).resolve() == source.resolve():
            raise ValueError(f"--output_dir must not hold the responses in {source}.")
    rows: Rows = []
    for (name, by_benchmark), source in zip(responses_of.items(), options.responses, strict=True):
        model, reader = reader_of(options, source)
        for benchmark, problems in by_benchmark.items():
            groups = [*problems.values()][: options.max_problems]
            records = _write(options.output_dir / name, benchmark, groups, model, reader)
            means = values_by_timestep(records)
            rows += [{"benchmark": benchmark, "model": name, **row} for row in means]
    step = options.step_delimiter or f"{options.step_size} tokens"
    settings = {"step": step, "consistency_beta": options.consistency_beta}
    write_json(options.output_dir / "values.json", {"settings": settings, "rows": rows})
    for value in VALUES:
        draw(rows, options.output_dir / f"{value}.png", value, step)
    means = [row for row in rows if row["timestep"] is None]
    show("Mean over a response's steps", means, ("benchmark", "model", "responses"), _cells)


def _write(
    folder: Path, benchmark: str, groups: Sequence[list[Response]], model: str, reader: Reader
) -> list[dict[str, Any]]:
    tables, first, written = [], 0, []
    texts = TokenTexts(reader.tokenizer)
    for responses in groups:
        believed = reader.read(responses)
        records = [*believed.records(reader.tokenizer, reader.beta)] if believed else []
        columns = believed.columns(records) if believed else {}
        place = {"first": first, "tokenizer": reader.tokenizer}
        tables.append(response_table(texts, responses, **place, **columns))
        first += len(responses)
        written.append(records)
    settings = {"credit": "barl", "consistency_beta": reader.beta, "answer_likelihood": "mean"}
    write_responses(folder, benchmark, tables, model, settings=settings)
    records = [*chain.from_iterable(written)]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / f"{benchmark}.jsonl").write_text(text, encoding="utf-8")
    return records


def _cells(rows: Rows) -> dict[str, str]:
    cells = {}
    for row in rows:
        error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.3f}"
        cells[row["value"].replace("_", " ")] = f"{row['mean']:.3f}{error}"
    return cells


if __name__ == "__main__":
    main()
