"""The paper's figure on reflections: how often responses reflect, by the problem's difficulty."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from scipy.stats import binomtest

from barl_trl.evaluation.responses import ResponsesByProblem

from ..tools import write_json
from .common import (
    Rows,
    fewest_samples,
    line_style,
    names,
    panels,
    parser_of,
    plain,
    read_models,
    show,
)

KEYWORDS = (
    *("recheck", "rethink", "reassess", "reevaluate", "re-evaluate", "reevaluation"),
    *("re-examine", "reexamine", "reconsider", "reanalyze", "double-check", "check again"),
    *("think again", "verify again", "go over the steps"),
)
"""Words and phrases that show a reflection, from Liu et al. (2025), whom the paper cites."""


class Level(NamedTuple):
    """The problems with `difficulty` wrong responses, and the share with a reflection in any.

    The frequency and its 95 % interval (Clopper and Pearson) are None without such problems.
    """

    difficulty: int
    num_problems: int
    frequency: float | None
    low: float | None
    high: float | None


def reflections_by_difficulty(
    problems: ResponsesByProblem, *, keywords: Sequence[str] = KEYWORDS, num_samples: int = 6
) -> list[Level]:
    """Measure the frequency of reflections for 0 … `num_samples` wrong responses.

    A response reflects if it contains a keyword, in upper or lower case, also within a word. As in
    the paper, a problem counts as one with reflections if any of its responses reflects.
    """
    by_difficulty: list[list[bool]] = [[] for _ in range(num_samples + 1)]
    for responses in problems.values():
        taken = responses[:num_samples]
        texts = [response.response.lower() for response in taken]
        hit = any(keyword.lower() in text for text in texts for keyword in keywords)
        by_difficulty[sum(response.reward != 1 for response in taken)].append(hit)
    levels = []
    for difficulty, hits in enumerate(by_difficulty):
        if not hits:
            levels.append(Level(difficulty, 0, None, None, None))
            continue
        ends = binomtest(sum(hits), len(hits)).proportion_ci(0.95, method="exact")
        low, high = float(ends.low), float(ends.high)
        levels.append(Level(difficulty, len(hits), sum(hits) / len(hits), low, high))
    return levels


def draw(rows: Rows, path: Path, num_samples: int) -> None:
    """Draw the frequencies: a panel for each benchmark, a line for each model."""
    benchmarks = names(rows, "benchmark")
    title = "How often responses reflect; bars: intervals of 95 %"
    with panels(path, len(benchmarks), title=title) as (_, axes):
        for axis, benchmark in zip(axes[0], benchmarks, strict=True):
            for n, model in enumerate(names(rows, "model")):
                points = [
                    row
                    for row in rows
                    if (row["benchmark"], row["model"]) == (benchmark, model)
                    and row["frequency"] is not None
                ]
                heights = [100 * row["frequency"] for row in points]
                lows = [100 * (row["frequency"] - row["low"]) for row in points]
                highs = [100 * (row["high"] - row["frequency"]) for row in points]
                steps = [row["difficulty"] for row in points]
                axis.errorbar(steps, heights, [lows, highs], label=plain(model), **line_style(n))
            axis.set(title=benchmark, xlabel=f"difficulty (wrong responses of {num_samples})")
            axis.set_ylim(bottom=0)
        axes[0][0].set_ylabel("problems with a reflection (%)")


def main(argv: list[str] | None = None) -> None:
    """Write `reflections.json` and `reflections.png`, and show a table."""
    parser = parser_of(__doc__, "outputs/analysis")
    parser.add_argument("sampled", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--keywords", type=Path, help="a file with one keyword in a line")
    parser.add_argument("--num_samples", type=int, help="responses per problem that count")
    options = parser.parse_args(argv)
    keywords: Sequence[str] = KEYWORDS
    if options.keywords:
        lines = map(str.strip, options.keywords.read_text(encoding="utf-8").splitlines())
        keywords = [line for line in lines if line]
    samples_of = read_models(options, options.sampled)
    number = options.num_samples or fewest_samples(samples_of)
    rows = [
        {"benchmark": benchmark, "model": name, **level._asdict()}
        for name, samples in samples_of.items()
        for benchmark, problems in samples.items()
        for level in reflections_by_difficulty(problems, keywords=keywords, num_samples=number)
    ]
    settings = {"num_samples": number, "keywords": list(keywords)}
    write_json(options.output_dir / "reflections.json", {"settings": settings, "rows": rows})
    draw(rows, options.output_dir / "reflections.png", number)
    title = f"Problems with a reflection, by wrong responses of {number}"
    show(title, rows, ("benchmark", "model"), _cells)


def _cells(rows: Rows) -> dict[str, str]:
    return {
        str(row["difficulty"]): f"{100 * row['frequency']:.0f} % of {row['num_problems']:,}"
        if row["num_problems"]
        else "–"
        for row in rows
    }


if __name__ == "__main__":
    main()
