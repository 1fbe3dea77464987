"""How graders judge labelled pairs of answers: a Markdown table by family.

python benchmarks/answer_cases.py tests/cases/answers.jsonl [MORE.jsonl ...]

Two kinds of rows are read: `gold`, `answer`, `equivalent`, `family` (this project's), and
`gold_bare`, `answer`, `expected`, `source`, of which pairs without bare answers and those marked
`answer_protocol: false` are left out, for they need more than a comparison of two answers.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

from barl_trl.graders import GRADERS


def read_cases(path: Path) -> list[tuple[str, str, str, bool]]:
    """Return family, true answer, answer and label of each pair."""
    cases = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "family" in row:
            cases.append((row["family"], row["gold"], row["answer"], row["equivalent"]))
        elif row["gold_bare"] and row["answer"] and row.get("answer_protocol", True):
            repository = row["source"].split(":")[0]
            family = "HardVerify" if "HardVerify" in row["source"] else repository
            cases.append((family, row["gold_bare"], row["answer"], row["expected"]))
    return cases


def tally(cases: list[tuple[str, str, str, bool]]) -> str:
    """Return right verdicts of all, and wrong accepts of all wrong answers, for each grader."""
    cells = [str(len(cases))]
    for grader in GRADERS.values():
        verdicts = grader.verify_all((gold, answer) for _, gold, answer, _ in cases)
        accepted = [(bool(verdicts[g, a]), label) for _, g, a, label in cases]
        right = sum(verdict == label for verdict, label in accepted)
        wrong_accepts = sum(verdict and not label for verdict, label in accepted)
        negatives = sum(not label for _, label in accepted)
        cells.append(f"{right / len(cases):.3f} ({wrong_accepts} of {negatives})")
    return " | ".join(cells)


def main(paths: list[str]) -> None:
    """Print a table for each file."""
    for path in map(Path, paths):
        cases = read_cases(path)
        families = defaultdict(list)
        for case in cases:
            families[case[0]].append(case)
        print(f"\n{path.name}\n\n| family | pairs | {' | '.join(GRADERS)} |")
        print(f"|---|{'---|' * (len(GRADERS) + 1)}")
        for family in sorted(families, key=str.casefold):
            print(f"| {family} | {tally(families[family])} |")
        print(f"| all | {tally(cases)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
