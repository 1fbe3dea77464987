"""`barl data check`: what the model will see, and the rows that cannot or should not be used."""

from itertools import islice
from typing import Any

from ..data import PAPER_SYSTEM_PROMPT, SUSPICIONS, TITLES, load_problems
from ..evaluation.benchmarks import load_benchmarks, parse_benchmarks
from ..rows import messages_of
from .cli import OneLineParser


def run(argv: list[str]) -> int:
    """Show the first rows; list those that cannot be used or deserve a look, 1 if there are any."""
    parser = OneLineParser(
        prog="barl data",
        description="Shows the first prompts and true answers, as `barl train` takes them. Lists "
        "rows without a problem or without a usable true answer; true answers that no grader can "
        "read; sentences, code, duplicates and contradictions; and problems that are in "
        "evaluation sets. The exit status is 1 if there are any.",
    )
    parser.add_argument("action", choices=["check"], metavar="check", help="check a data set")
    parser.add_argument("path_or_id", metavar="FILE", help="a local file or folder, or a Hub id")
    parser.add_argument("--split", default="train", help="split to check")
    parser.add_argument("--config", help="configuration of a Hub dataset")
    parser.add_argument("--problem_column", help="column or path of the problems")
    parser.add_argument("--answer_column", help="that of the true answers")
    parser.add_argument("--system_prompt", default=PAPER_SYSTEM_PROMPT, help="as in `barl train`")
    text = "evaluation sets, named as in `barl evaluate`: lists the rows whose problem is in one"
    parser.add_argument("--against", metavar="NAME,NAME=FILE", help=text)
    options = vars(parser.parse_args(argv))
    del options["action"]
    held_out = load_benchmarks(
        parse_benchmarks(options.pop("against"), "against"), option="against"
    )
    sets = {name: benchmark.texts for name, benchmark in held_out.items()}
    data, report = load_problems(**options, most_parsed=None, evaluation_sets=sets)
    first: Any = islice(data, 3)
    for number, row in enumerate(first, 1):
        said = []
        for message in messages_of(row["prompt"]) or ():
            said.append(f"[{message.pop('role')}] {message.pop('content')!r}")
            said += [repr(message)] if message else []  # calls of tools, and the like
        print(f"prompt {number}: {' '.join(said)}\ntrue answer {number}: {row['solution']!r}")
    for name, title in TITLES.items():
        for row, reason, answer in getattr(report, name):
            print(f"row {row}: {title.removeprefix('kept, but ')}: {reason}: {answer[:80]!r}")
    for reason in dict.fromkeys(finding.reason for finding in report.suspicious):
        print(f"{reason}: {SUSPICIONS[reason]}")
    print(report)
    return 1 if report.has_findings else 0
