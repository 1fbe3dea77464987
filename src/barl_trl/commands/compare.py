"""`barl compare`: whether one arm is better than another, and how sure that is."""

from collections.abc import Sequence
from glob import glob
from itertools import groupby
from pathlib import Path
from typing import Any

from ..evaluation.comparison import comparison_rows
from ..evaluation.json_files import write_json
from ..evaluation.responses import read_responses
from ..evaluation.results import text_table
from .cli import OneLineParser

_LEGEND = (
    "Accuracy and pass@k are in percent. [95 %]: over training seeds and problems. p: corrected "
    "over benchmarks and arms (Holm). detects: the smallest difference that is found with a "
    "probability of 80 %. seeds: so many of each arm find one of the size seen; - where a hundred "
    "do not, and more problems are needed. Where the difference does not vary at all, nothing says "
    "how sure it is: all are -."
)


def run(argv: list[str]) -> None:
    """Compare every arm but the last with the last one: `compare.json` and tables."""
    parser = OneLineParser(prog="barl compare", description=__doc__)
    text = "an arm's folders of responses that `barl evaluate` wrote, one for each training seed; "
    text += "all arms are compared with the last"
    parser.add_argument("arms", nargs="+", metavar="NAME=DIR[,DIR...]", help=text)
    parser.add_argument("--benchmarks", help="separated by commas (default: those of the last arm)")
    parser.add_argument("--output_dir", type=Path, default=Path("outputs/analysis"))
    options = parser.parse_args(argv)
    folders = _named_folders(options.arms)
    benchmarks = options.benchmarks and options.benchmarks.split(",")
    rows = comparison_rows(
        {arm: [read_responses(folder, benchmarks) for folder in folders[arm]] for arm in folders}
    )
    names = {arm: [str(folder) for folder in of_arm] for arm, of_arm in folders.items()}
    write_json(options.output_dir / "compare.json", {"settings": {"arms": names}, "rows": rows})
    title = "{benchmark}: {arm} and {base} ({seeds} against {base_seeds} seeds)".format_map
    for text, of_table in groupby(rows, title):
        print(text_table(text, [*map(_cells, of_table)]))
    fewest_seeds = min(min(row["seeds"], row["base_seeds"]) for row in rows)
    if fewest_seeds < 2:
        print(
            "With one seed of an arm, its luck in training is not in the interval: this compares "
            "two checkpoints, not two methods. The number of seeds that would do is unknown (?)."
        )
    elif fewest_seeds < 3:
        print("With two seeds the interval covers the truth 92 times of 100, not 95.")
    print(f"{_LEGEND}\nIn {options.output_dir}: compare.json.")


def _named_folders(texts: Sequence[str]) -> dict[str, list[Path]]:
    """Return the folders of each arm; a folder may be a pattern."""
    arms: dict[str, list[Path]] = {}
    for text in texts:
        name, equals, patterns = text.partition("=")
        if not equals or Path(text).exists():
            name, patterns = Path(text).resolve().name, text
        if name in arms:
            raise ValueError(f"arms must have different names, got {name} twice.")
        arms[name] = []
        for pattern in patterns.split(","):
            matches = [pattern] if Path(pattern).exists() else sorted(glob(pattern))
            if not matches:
                raise ValueError(f"the folders of an arm must exist, got {pattern} for {name}.")
            arms[name] += map(Path, matches)
        if len({folder.resolve() for folder in arms[name]}) < len(arms[name]):
            raise ValueError(f"each seed of {name} must be given once: a folder stands twice.")
    if len(arms) < 2:
        raise ValueError(f"there must be at least two arms, got {', '.join(arms)}.")
    return arms


def _cells(row: dict[str, Any]) -> dict[str, str]:
    scale, form = (1, ",.0f") if row["metric"] == "tokens" else (100, ",.1f")

    def text(key: str, form: str = form, scale: int = scale) -> str:
        return "-" if row[key] is None else format(scale * row[key], form)

    middle, low, high = (text(key, f"+{form}") for key in ("difference", "low", "high"))
    is_single = min(row["seeds"], row["base_seeds"]) < 2
    return {
        "metric": row["metric"],
        row["arm"]: text("mean"),
        row["base"]: text("base_mean"),
        "difference [95 %]": f"{middle} [{low}, {high}]",
        "p": text("p_holm", ".3f", 1),
        "detects": text("detectable"),
        "seeds": "?" if is_single else text("seeds_needed", "d", 1),
    }
