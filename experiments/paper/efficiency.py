"""The paper's figures on token efficiency: pass@k against the total tokens of the k responses."""

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from barl_trl.evaluation.responses import ResponsesByProblem, read_responses
from barl_trl.evaluation.statistics import mean_and_standard_error, pass_at_k

from ..tools import write_json
from .common import Rows, draw_lines, fewest_samples, names, panels, parser_of, read_models, show


class Point(NamedTuple):
    """Pass@k and the total tokens of k responses, as means over problems."""

    k: int
    accuracy: float
    standard_error: float | None
    """Of the accuracy; None for a single problem."""
    tokens: float


def efficiency_curve(
    sampled: ResponsesByProblem, greedy: ResponsesByProblem | None = None, *, max_k: int = 6
) -> list[Point]:
    """Compute pass@k and tokens for k = 1 … `max_k`, exactly: no draw is made.

    The k responses are drawn from a problem's samples. With `greedy` (the paper's main text), they
    are the greedy response and k - 1 samples; k = 1 is then greedy decoding.

    Raises:
        ValueError: A problem has too few samples, or not the one greedy response.
    """
    if greedy is not None and any(len(greedy.get(problem, ())) != 1 for problem in sampled):
        raise ValueError("greedy must hold one response to each of the sampled problems.")
    return [_point(sampled, greedy or {}, k) for k in range(1, max_k + 1)]


def _point(sampled: ResponsesByProblem, greedy: ResponsesByProblem, k: int) -> Point:
    accuracies, tokens = [], []
    for problem_id, samples in sampled.items():
        first = greedy.get(problem_id, [])
        drawn = k - len(first)
        solved = any(response.reward for response in first)
        num_correct = sum(sample.reward == 1 for sample in samples)
        accuracies.append(1.0 if solved else pass_at_k(len(samples), num_correct, drawn))
        mean_tokens = fmean(sample.tokens for sample in samples)
        tokens.append(sum(response.tokens for response in first) + drawn * mean_tokens)
    return Point(k, *mean_and_standard_error(accuracies), fmean(tokens))


def draw(rows: Rows, path: Path) -> None:
    """Draw accuracy against tokens, a panel for each benchmark."""
    title = "Accuracy against what it costs; bars: ± one standard error over problems"
    benchmarks = names(rows, "benchmark")
    with panels(path, len(benchmarks), title=title) as (_, axes):
        for axis, benchmark in zip(axes[0], benchmarks, strict=True):
            of_panel = [row for row in rows if row["benchmark"] == benchmark]
            draw_lines(axis, of_panel, "tokens", "accuracy", scale=100)
            axis.set(title=benchmark, xlabel="mean total tokens of k responses", ylabel="pass@k, %")
            axis.set_xlim(left=0)


def main(argv: list[str] | None = None) -> None:
    """Write `efficiency.json` and its figures, and show a table."""
    parser = parser_of(__doc__, "outputs/analysis")
    parser.add_argument("--sampled", nargs="+", type=Path, required=True, metavar="DIR")
    parser.add_argument("--greedy", nargs="+", type=Path, metavar="DIR", help="in the same order")
    parser.add_argument("--max_k", type=int, help="largest k, if not the number of samples")
    options = parser.parse_args(argv)
    samples_of = read_models(options, options.sampled)
    max_k = options.max_k or fewest_samples(samples_of)
    rows: Rows = []
    for n, (name, samples) in enumerate(samples_of.items()):
        firsts = read_responses(options.greedy[n], list(samples)) if options.greedy else {}
        for benchmark, problems in samples.items():
            for first in {id(one): one for one in (firsts.get(benchmark), None)}.values():
                most = max_k if first else min(max_k, min(map(len, problems.values())))
                place = {"benchmark": benchmark, "model": name, "with_greedy": first is not None}
                curve = efficiency_curve(problems, first, max_k=most)
                rows += [place | point._asdict() for point in curve]
    write_json(options.output_dir / "efficiency.json", {"max_k": max_k, "rows": rows})
    for file, with_greedy in {"efficiency.png": True, "efficiency_sampled.png": False}.items():
        drawn = [row for row in rows if row["with_greedy"] == with_greedy]
        if drawn:
            draw(drawn, options.output_dir / file)
    show("Token efficiency", rows, ("benchmark", "model", "with_greedy"), _cells)


def _cells(rows: Rows) -> dict[str, str]:
    first, last = rows[0], rows[-1]
    return {
        f"pass@{row['k']}, % (tokens)": f"{100 * row['accuracy']:.1f} ({row['tokens']:,.0f})"
        for row in (first, last)
    }


if __name__ == "__main__":
    main()
