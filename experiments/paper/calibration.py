"""Whether beliefs are right: plausibility and posterior beside what the model goes on to answer.

From every state of a response the model goes on several times. The plausibility of an answer should
be the share of continuations that end with it. The posterior of the truth should be the share that
end right.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from barl_trl.evaluation.responses import Response, read_responses
from barl_trl.evaluation.statistics import Estimate, mean_and_standard_error

from ..sampling import continued_texts
from ..tools import write_json
from .common import Rows, line_style, panels, parser_of, plain, show
from .values import Reader, add_reader_options, reader_of

_QUESTION = "What is the final answer?"
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "elicitation: paper": {
        "elicitation": "\nBased on the above reasoning, the answer is \\boxed",
    },
    "elicitation: short": {"elicitation": "\nThe answer is \\boxed"},
    "likelihood: sum": {"reduction": "sum"},
    "likelihood: token_mean": {"reduction": "token_mean"},
    "temperature: 0.5": {"temperature": 0.5},
    "temperature: 2": {"temperature": 2.0},
}
"""Ways of asking. `elicitation: turn` is another, made by [`next_turn`]."""
QUANTITIES = {
    "plausibility": ("plausibility of an answer", "share of continuations with it"),
    "truth_mass": ("posterior of the truth", "share of continuations that end right"),
}
BINS = 10
"""Equal parts of [0, 1] that beliefs are sorted into."""


class Point(NamedTuple):
    """What is believed of an answer at a state, and what comes of it.

    Attributes:
        quantity: A name of [`QUANTITIES`].
        problem_id: The problem.
        believed: The plausibility or posterior, in [0, 1].
        share: Share of continuations in which it comes true: what the belief should be.
    """

    quantity: str
    problem_id: int
    believed: float
    share: float


def next_turn(tokenizer: Any) -> str | None:
    """Return the text that ends the model's turn and asks in the next; None without a template."""
    if tokenizer.chat_template is None:
        return None
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "@@"}]
    asked = [*messages, {"role": "user", "content": _QUESTION}]
    text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    return text.split("@@")[-1] + "The final answer is \\boxed"


State = tuple[int, ...]


def _states(reader: Reader, responses: Sequence[Response]) -> Iterable[list[tuple[int, State]]]:
    """Yield for each response the length of the prompt and all tokens of each state."""
    for response in responses:
        prompt, ids, ends = reader.tokens(response)
        yield [(len(prompt), (*prompt, *ids[:end])) for end in (0, *ends)]


def continued(
    reader: Reader,
    responses: Sequence[Response],
    *,
    number: int,
    max_tokens: int,
    generator: torch.Generator,
) -> dict[State, list[str]]:
    """Let a model go on `number` times from every state of its responses to a problem.

    It returns, for each state, the texts of the responses that continue it.
    """
    states = {state: size for row in _states(reader, responses) for size, state in row}
    starts = [state for state in sorted(states, key=len) for _ in range(number)]
    ends = {reader.tokenizer.eos_token_id, reader.tokenizer.pad_token_id} - {None}
    texts = continued_texts(
        reader.model,
        reader.tokenizer,
        starts,
        [states[start] for start in starts],
        max_new_tokens=[max(1, max_tokens - len(start) + states[start]) for start in starts],
        rows=64,
        end_ids=ends,
        generator=generator,
    )
    texts_of: dict[State, list[str]] = {state: [] for state in states}
    for start, text in zip(starts, texts, strict=True):
        texts_of[start].append(text)
    return texts_of


def points(
    reader: Reader, responses: Sequence[Response], texts: Mapping[State, Sequence[str]]
) -> list[Point]:
    """Set the beliefs at the states of the responses to a problem beside what comes of them.

    It returns a point for every state and hypothesis, and for every state one of the truth.
    """
    beliefs = reader.read(responses)
    if beliefs is None:
        return []
    answers, problem = beliefs.hypotheses.answers, responses[0].problem_id
    shares = {state: _shares(of_state, answers, reader) for state, of_state in texts.items()}
    results = []
    for row, states in enumerate(_states(reader, responses)):
        for t, (_, state) in enumerate(states):
            if row and not t:  # the prompt is one state of all responses
                continue
            plausible = beliefs.likelihoods.answer_logps[row, t].exp().tolist()
            pairs = zip(plausible, shares[state], strict=False)
            results += [Point("plausibility", problem, p, s) for p, s in pairs]
            truth = beliefs.posterior[row, t, 0].item()
            results.append(Point("truth_mass", problem, truth, shares[state][0]))
    return results


def _shares(texts: Sequence[str], answers: Sequence[str], reader: Reader) -> list[float]:
    """Return the share of texts that end with each answer."""
    ends = [reader.grader.extract_answer(text) for text in texts]
    pairs = {(answer, end) for answer in answers for end in ends if end is not None}
    verdicts = reader.grader.verify_all(pairs)
    return [
        fmean(end is not None and verdicts[answer, end].correct for end in ends)
        for answer in answers
    ]


def squared_error(believed: float, share: float, number: int) -> float:
    """Return an unbiased estimate of (belief - probability)^2, given a share of `number` samples.

    The variance of the share, estimated by share * (1 - share) / (number - 1), is taken off.
    """
    return (believed - share) ** 2 - share * (1 - share) / (number - 1)


def summary(of_quantity: Sequence[Point], number: int) -> dict[str, Any]:
    """Summarise the points of one quantity; there were `number` continuations of a state.

    `gap` is the mean absolute difference of belief and share over bins of equal width, weighted by
    their points: the expected calibration error. Standard errors are over problems.
    """
    bins: dict[int, list[Point]] = {}
    for point in of_quantity:
        bins.setdefault(min(int(point.believed * BINS), BINS - 1), []).append(point)
    rows = []
    for _, members in sorted(bins.items()):
        believed, share = fmean(p.believed for p in members), fmean(p.share for p in members)
        error = _by_problem(members, [p.share for p in members]).standard_error
        row = {"believed": believed, "share": share, "standard_error": error}
        rows.append(row | {"number": len(members)})
    errors = _by_problem(
        of_quantity, [squared_error(p.believed, p.share, number) for p in of_quantity]
    )
    gaps = (row["number"] * abs(row["believed"] - row["share"]) for row in rows)
    return {
        "squared_error": errors.mean,
        "standard_error": errors.standard_error,
        "gap": sum(gaps) / len(of_quantity),
        "num_points": len(of_quantity),
        "bins": rows,
    }


def _by_problem(members: Iterable[Point], numbers: Iterable[float]) -> Estimate:
    """Average numbers over the points of a problem, then over problems, which are independent."""
    groups: dict[int, list[float]] = {}
    for point, number in zip(members, numbers, strict=True):
        groups.setdefault(point.problem_id, []).append(number)
    return mean_and_standard_error([*map(fmean, groups.values())])


def draw(rows: Rows, path: Path) -> None:
    """Draw a column for each kind of variant, a row for each quantity; the diagonal is right."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    kinds = list(dict.fromkeys(name.split(": ")[0] for name in variants if ": " in name))
    title = "What is believed, and how often it comes true; bars: ± one standard error"
    with panels(path, len(kinds), len(QUANTITIES), title) as (_, axes):
        for line, (quantity, (believed, share)) in zip(axes, QUANTITIES.items(), strict=True):
            for axis, kind in zip(line, kinds, strict=True):
                axis.plot([0, 1], [0, 1], color="0.7", linewidth=1)
                for row in rows:
                    is_shown = row["variant"] == "default" or row["variant"].startswith(kind)
                    if row["quantity"] != quantity or not is_shown:
                        continue
                    bins = [b for b in row["bins"] if b["number"] >= 0.01 * row["num_points"]]
                    axis.errorbar(
                        [b["believed"] for b in bins],
                        [b["share"] for b in bins],
                        yerr=[b["standard_error"] or 0 for b in bins],
                        label=plain(row["variant"]),
                        **line_style(variants.index(row["variant"])),
                    )
                axis.set(title=f"by {kind}", xlabel=believed)
            line[0].set_ylabel(share)


def main(argv: list[str] | None = None) -> None:
    """Write `calibration.json` and `calibration.png`, and show a table."""
    parser = parser_of(__doc__, "outputs/calibration")
    parser.add_argument("responses", type=Path, metavar="DIR")
    parser.add_argument("--continuations", type=int, default=16, help="of a state, at least 2")
    parser.add_argument("--max_tokens", type=int, default=1024, help="most tokens of a response")
    parser.add_argument("--seed", type=int, default=0)
    add_reader_options(parser)
    options = parser.parse_args(argv)
    model, reader = reader_of(options, options.responses)
    benchmarks = options.benchmarks and options.benchmarks.split(",")
    problems = read_responses(options.responses, benchmarks)
    groups = [group for of_benchmark in problems.values() for group in of_benchmark.values()]
    variants = dict(VARIANTS)
    if turn := next_turn(reader.tokenizer):
        variants["elicitation: turn"] = {"elicitation": turn}
    readers = {name: replace(reader, **changed) for name, changed in variants.items()}
    generator = torch.Generator().manual_seed(options.seed)
    points_of: dict[str, list[Point]] = {name: [] for name in readers}
    number = options.continuations
    for group in groups[: options.max_problems]:
        sampled = {"number": number, "max_tokens": options.max_tokens, "generator": generator}
        texts = continued(reader, group, **sampled)
        for name, variant in readers.items():
            points_of[name] += points(variant, group, texts)
    rows: Rows = [
        {"variant": name, "quantity": quantity}
        | summary([p for p in points_of[name] if p.quantity == quantity], number)
        for name in readers
        for quantity in QUANTITIES
    ]
    settings = {"model": model, "continuations": number, "seed": options.seed}
    write_json(options.output_dir / "calibration.json", {"settings": settings, "rows": rows})
    draw(rows, options.output_dir / "calibration.png")
    show("Beliefs beside what the model goes on to answer", rows, ("variant",), _cells)


def _cells(rows: Rows) -> dict[str, str]:
    cells = {}
    for row in rows:
        name = "p" if row["quantity"] == "plausibility" else "w_0"
        cells[f"{name} error"] = f"{row['squared_error']:.3f}"
        cells[f"{name} gap"] = f"{row['gap']:.3f}"
    return cells


if __name__ == "__main__":
    main()
