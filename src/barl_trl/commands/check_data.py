"""`barl data check`: the rows of a data set that cannot be used, and those that deserve a look."""

import sys

from ..data import SUSPICIONS, load_problems
from ..evaluation.benchmarks import load_benchmarks, parse_benchmarks
from .shell.console import mistakes_in_one_line
from .shell.parsers import OneLineParser


def main(argv: list[str]) -> None:
    """List the rows that cannot be used, and those that deserve a look."""
    parser = OneLineParser(prog="barl data")
    check = parser.add_subparsers(dest="command", required=True, metavar="COMMAND").add_parser(
        "check",
        help="list the rows of a dataset that cannot be trained on or deserve a look",
        description="Lists rows without a problem or without a usable true answer; true answers "
        "that no grader can read; placeholders, duplicates and contradictions; and problems that "
        "are in evaluation sets. The exit status is 1 if there are any.",
    )
    check.add_argument("data", metavar="FILE", help="a local file or folder, or a Hub id")
    check.add_argument("--split", default="train", help="split to check")
    check.add_argument("--config", help="configuration of a Hub dataset")
    check.add_argument(
        "--problem_column", help="column of the problems (default: found by its name)"
    )
    check.add_argument(
        "--answer_column", help="column of the true answers (default: found by its name)"
    )
    check.add_argument(
        "--against",
        metavar="NAME,NAME=FILE",
        help="evaluation sets, named as in `barl evaluate`: lists the rows whose problem is in one",
    )
    options = vars(parser.parse_args(argv))
    del options["command"]
    with mistakes_in_one_line("barl data check", path_or_id="FILE"):
        sources = parse_benchmarks(options.pop("against"), "against")
        held_out = load_benchmarks(sources, option="against")
        texts = {name: benchmark.texts for name, benchmark in held_out.items()}
        _, report = load_problems(
            options.pop("data"),
            **options,
            most_parsed=None,
            evaluation_sets=texts,
        )
    for title, findings in (
        ("skipped", report.skipped),
        ("look at", report.suspicious),
        ("in evaluation sets", report.contaminated),
    ):
        for row, reason, answer in findings:
            print(f"row {row}: {title}: {reason}: {answer[:80]!r}")
    for reason in dict.fromkeys(finding.reason for finding in report.suspicious):
        print(f"{reason}: {SUSPICIONS[reason]}")
    print(report)
    sys.exit(1 if report.has_findings else 0)
