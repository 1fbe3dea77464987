r"""How graders judge the public set of completions of the package reward-doctor: a Markdown table.

`python benchmarks/public_completions.py [--json FILE]`

The set's pairs of answers ("equivalence", "distinction") are put into a box, since the graders read
completions. Its "exploit" and "format" completions stay as they are. math-verify gets the true
answer in a box, and TRL's `accuracy_reward` in a box and bare. Contested cases are left out.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify
from reward_doctor.corpus import load
from trl.rewards import accuracy_reward

from barl_trl.graders import Grader, get_grader

KINDS = ("equivalence", "distinction", "format", "exploit")


def completion(case) -> str:
    """Return what a model would have written."""
    is_answer = case.category in ("equivalence", "distinction")
    return rf"\boxed{{{case.completion}}}" if is_answer else case.completion


def by_grader(grader: Grader) -> Callable[..., bool]:
    """Return the judge that extracts and verifies with one of this package's graders."""

    def accepts(case) -> bool:
        answer = grader.extract_answer(completion(case))
        return answer is not None and bool(grader.verify(case.reference, answer))

    return accepts


def by_math_verify(case) -> bool:
    """Return math-verify's verdict, with its defaults."""
    return verify(parse(rf"\boxed{{{case.reference}}}"), parse(completion(case)))


def by_trl(true_answer: str) -> Callable[..., bool]:
    """Return TRL's judge, with the true answer as a format string writes it."""

    def accepts(case) -> bool:
        messages = [[{"role": "assistant", "content": completion(case)}]]
        return bool(accuracy_reward(messages, [true_answer.format(case.reference)])[0])

    return accepts


JUDGES = {
    "math_verify": by_grader(get_grader("math_verify")),
    "math_verify, `stated`": by_grader(get_grader("math_verify", "stated")),
    "qwen": by_grader(get_grader("qwen")),
    "string": by_grader(get_grader("string")),
    "math-verify": by_math_verify,
    "TRL, boxed": by_trl(r"\boxed{{{}}}"),
    "TRL, bare": by_trl("{}"),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How graders judge a public set of completions.")
    parser.add_argument("--json", type=Path, help="file for the cases that each judges wrongly")
    args = parser.parse_args()
    cases = load()
    print(f"| judge | right of {len(cases)} | {' | '.join(KINDS)} | wrong accepts |")
    print("|---" * (len(KINDS) + 3) + "|")
    misjudged = {}
    for name, accepts in JUDGES.items():
        wrong = [case for case in cases if accepts(case) != case.expect]
        misjudged[name] = [case.id for case in wrong]
        cells = [f"{len(cases) - len(wrong)}"]
        for kind in KINDS:
            total = sum(case.category == kind for case in cases)
            cells.append(f"{total - sum(case.category == kind for case in wrong)} of {total}")
        cells.append(f"{sum(not case.expect for case in wrong)}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if args.json:
        args.json.write_text(json.dumps(misjudged, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
