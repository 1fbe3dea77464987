"""`barl data check`: the rows of a data set that cannot be used, and those that deserve a look."""

from ..data import SUSPICIONS, TITLES, load_problems
from ..evaluation.benchmarks import load_benchmarks, parse_benchmarks
from .cli import OneLineParser


def run(argv: list[str]) -> int:
    """List the rows that cannot be used, and those that deserve a look; 1 if there are any."""
    parser = OneLineParser(
        prog="barl data",
        description="Lists rows without a problem or without a usable true answer; true answers "
        "that no grader can read; placeholders, duplicates and contradictions; and problems that "
        "are in evaluation sets. The exit status is 1 if there are any.",
    )
    parser.add_argument("action", choices=["check"], metavar="check", help="check a data set")
    parser.add_argument("path_or_id", metavar="FILE", help="a local file or folder, or a Hub id")
    parser.add_argument("--split", default="train", help="split to check")
    parser.add_argument("--config", help="configuration of a Hub dataset")
    parser.add_argument("--problem_column", help="column of the problems, if not found by its name")
    parser.add_argument("--answer_column", help="column of the true answers, likewise")
    text = "evaluation sets, named as in `barl evaluate`: lists the rows whose problem is in one"
    parser.add_argument("--against", metavar="NAME,NAME=FILE", help=text)
    options = vars(parser.parse_args(argv))
    del options["action"]
    held_out = load_benchmarks(
        parse_benchmarks(options.pop("against"), "against"), option="against"
    )
    sets = {name: benchmark.texts for name, benchmark in held_out.items()}
    _, report = load_problems(**options, most_parsed=None, evaluation_sets=sets)
    for name, title in TITLES.items():
        for row, reason, answer in getattr(report, name):
            print(f"row {row}: {title.removeprefix('kept, but ')}: {reason}: {answer[:80]!r}")
    for reason in dict.fromkeys(finding.reason for finding in report.suspicious):
        print(f"{reason}: {SUSPICIONS[reason]}")
    print(report)
    return 1 if report.has_findings else 0
