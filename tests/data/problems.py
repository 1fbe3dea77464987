"""What tests of problem files share."""

from barl_trl.data import load_problems

GSM8K = (
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in "
    "May. How many clips did Natalia sell altogether in April and May?"
)
MATH = r"Simplify $\dfrac{x+1}{2}$."
CHECKED = [
    ("1+1?", "2", None),
    ("1 + 1?", "3", None),
    (" 1+1?\n", "2.0", "duplicate"),
    ("1+1?", "3", "contradiction"),
    ("", "2", "no_problem"),
    ("p1", "", "no_answer"),
    ("p2", "N/A", "placeholder"),
    ("p3", r"\frac{1}{2", "unbalanced"),
    ("p4", "9^{9^9}", "unreadable"),
    ("p5", "!?", "unreadable"),
    ("p6", r"2\sqrt{3}", None),
    ("p7", "Evelyn", None),
    ("p8", "Adding both sides gives x = 5", "sentence"),
    ("p9", "def f(x): return x", "code"),
    ("Which letter?", "C", "options"),
    ("p10", "?;", "unreadable"),
    ("p11", "(,)", "unreadable"),
]
"""Problems, true answers, and what `barl data check` says of each."""


def solutions(path, **options):
    """The true answers, without the parser's check of them."""
    return load_problems(path, **{"most_parsed": 0} | options)[0]["solution"][:]


def reasons(report):
    return [finding.reason for finding in report.skipped]
