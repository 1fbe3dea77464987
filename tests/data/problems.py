"""What tests of problem files share."""

from pathlib import Path

from barl_trl.data import load_problems

from ..paths import read_jsonl

GSM8K = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in "
    "May. How many clips did Natalia sell altogether in April and May?"
)
MATH = r"Simplify $\dfrac{x+1}{2}$."
CHECKED = read_jsonl(Path(__file__).with_name("checked.jsonl"))
"""Problems, true answers, and what `barl data check` says of each."""


def solutions(path, **options):
    """The true answers, without the parser's check of them."""
    return load_problems(path, **{"most_parsed": 0} | options)[0]["solution"][:]


def reasons(report):
    return [finding.reason for finding in report.skipped]
