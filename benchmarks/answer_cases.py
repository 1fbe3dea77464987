"""How graders judge labelled pairs of answers: a Markdown table by family.

`python benchmarks/answer_cases.py tests/cases/answers.jsonl [MORE.jsonl ...] [--json FILE]`

Two kinds of rows are read: `gold`, `answer`, `equivalent`, `family` (this project's), and
`gold_bare`, `answer`, `expected` with `source` or `family`, of which pairs without bare answers and
those marked `answer_protocol: false` or `excluded` are left out: they need more than two answers.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from barl_trl.graders import GRADERS


def read_cases(path: Path) -> list[tuple[str, str, str, bool]]:
    """Return family, true answer, answer and label of each pair."""
    cases = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "equivalent" in row:
            cases.append((row["family"], row["gold"], row["answer"], row["equivalent"]))
        elif "excluded" in row:
            if not row["excluded"]:
                cases.append((row["family"], row["gold_bare"], row["answer"], row["expected"]))
        elif row["gold_bare"] and row["answer"] and row.get("answer_protocol", True):
            repository = row["source"].split(":")[0]
            family = "HardVerify" if "HardVerify" in row["source"] else repository
            cases.append((family, row["gold_bare"], row["answer"], row["expected"]))
    return cases


def tally(cases: list[tuple[str, str, str, bool]]) -> dict[str, Any]:
    """Return right verdicts of all, and wrong accepts of all wrong answers, for each grader."""
    wrong_answers = sum(not label for *_, label in cases)
    record: dict[str, Any] = {"pairs": len(cases), "wrong_answers": wrong_answers}
    for name, grader in GRADERS.items():
        verdicts = grader.verify_all((gold, answer) for _, gold, answer, _ in cases)
        accepted = [(bool(verdicts[g, a]), label) for _, g, a, label in cases]
        right = sum(verdict == label for verdict, label in accepted)
        wrong_accepts = sum(verdict and not label for verdict, label in accepted)
        record[name] = {"right": right, "wrong_accepts": wrong_accepts}
    return record


def row(record: dict[str, Any]) -> str:
    """Return a family's row of the table."""
    cells = [record["family"], str(record["pairs"])]
    for counts in (record[name] for name in GRADERS):
        share = counts["right"] / record["pairs"]
        cells.append(f"{share:.3f} ({counts['wrong_accepts']} of {record['wrong_answers']})")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table for each file."""
    parser = argparse.ArgumentParser(description="How graders judge labelled pairs of answers.")
    parser.add_argument("files", nargs="+", type=Path, help="pairs, as JSON lines")
    parser.add_argument("--quick", action="store_true", help="40 pairs of each file")
    parser.add_argument("--json", type=Path, help="file for a list of records")
    args = parser.parse_args()
    records: list[dict[str, Any]] = []
    for path in args.files:
        cases = read_cases(path)[: 40 if args.quick else None]
        families = defaultdict(list)
        for case in cases:
            families[case[0]].append(case)
        print(f"\n{path.name}\n\n| family | pairs | {' | '.join(GRADERS)} |")
        print(f"|---|{'---|' * (len(GRADERS) + 1)}")
        for family in [*sorted(families, key=str.casefold), "all"]:
            tallied = tally(families.get(family, cases))
            records.append({"file": path.name, "family": family, **tallied})
            print(row(records[-1]))
    if args.json:
        args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
