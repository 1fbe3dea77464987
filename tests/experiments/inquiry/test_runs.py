"""The tables of docs/inquiry.md are those of the trainings in runs.jsonl."""

import json
import re
from math import sqrt

import pytest

from experiments.inquiry.parts import DECIDING

from ...paths import ROOT

LINES = (ROOT / "experiments" / "inquiry" / "runs.jsonl").read_text().splitlines()
RUNS = [json.loads(line) for line in LINES]
PAGE = (ROOT / "docs" / "inquiry.md").read_text()
NAMES = {
    "GRPO": "grpo",
    "RLOO": "rloo",
    "progress, the model's belief": "progress-model",
    "Bayes return, c = 0": "bayes-0",
    "Bayes return, c = 0.3": "bayes-0.3",
}


def accuracies(game, arm):
    """In percent, in the order of the seeds."""
    runs = [run for run in RUNS if run["path"].startswith(f"{game}/many/{arm}-tuned-")]
    assert sorted(run["seed"] for run in runs) == [*range(1, 11)]
    return [100 * run["final"]["accuracy"] for run in sorted(runs, key=lambda run: run["seed"])]


def mean_and_error(values):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, sqrt(variance / len(values))


@pytest.mark.parametrize(("game", "heading"), [("code", "Codes"), ("words", "Words")])
def test_tables_are_those_of_the_trainings(game, heading):
    section = PAGE.split(f"### {heading}\n")[1].split("\n### ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    rows = {row[0]: row[1:] for row in cells}
    assert {NAMES[name] for name in rows if name in NAMES} == {*DECIDING}
    for name, arm in NAMES.items():
        found = accuracies(game, arm)
        mean, error = mean_and_error(found)
        assert rows[name][:2] == [
            f"{mean:.1f} ± {error:.1f} %",
            ", ".join(f"{value:.0f}" for value in found),
        ]
    differences = {name: row[0] for name, row in rows.items() if ", less " in name}
    assert len(differences) == 5
    for name, text in differences.items():
        first, second = name.replace("less c = 0", "less Bayes return, c = 0").split(", less ")
        pairs = zip(accuracies(game, NAMES[first]), accuracies(game, NAMES[second]), strict=True)
        mean, error = mean_and_error([one - other for one, other in pairs])
        half = 2.2622 * error  # Student's t, 9 degrees of freedom, 97.5 %
        shown = [float(number) for number in re.findall(r"[-+]?[\d.]+", text)]
        assert shown == pytest.approx([mean, mean - half, mean + half], abs=0.051)
