"""The tables of docs/inquiry.md are those of the trainings in runs.jsonl."""

import json
import re
from math import sqrt

import pytest

from experiments.inquiry.parts import DECIDING, PARTS

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
    "progress, the task's belief": "progress-task",
    "belief critic, the task's belief": "belief_critic",
    "BARL's V(t), the task's belief": "barl-task",
    "BARL's V(t), the model's belief": "barl-model",
    "Bayes return, the model's belief": "bayes-model",
    "delta_belief, the task's belief": "delta_belief",
    "information gain, joint, the task's belief": "information_gain-joint",
    "information gain, separate, the task's belief": "information_gain-separate",
    "control: progress without belief": "outcome-batch",
    "control: delta_belief without belief": "delta_belief-0",
    "control: information without outcome": "information-alone",
}
WITH_FILES = (
    *("rloo", "progress-task", "belief_critic", "barl-task", "bayes-model", "barl-model"),
    *("delta_belief", "information_gain-joint", "information_gain-separate"),
    *("outcome-batch", "delta_belief-0", "information-alone"),
)
"""Arms of the game of numbers all of whose trainings are there."""


def accuracies(game, arm, condition="many"):
    """In percent, in the order of the seeds."""
    runs = [run for run in RUNS if run["path"].startswith(f"{game}/{condition}/{arm}-tuned-")]
    assert sorted(run["seed"] for run in runs) == [*range(1, 11)]
    return [100 * run["final"]["accuracy"] for run in sorted(runs, key=lambda run: run["seed"])]


def share(game, arm, name):
    runs = [run for run in RUNS if run["path"].startswith(f"{game}/many/{arm}-tuned-")]
    return sum(run["final"][name] for run in runs) / len(runs)


def mean_and_error(values):
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, sqrt(variance / len(values))


def test_what_was_run_again_is_on_the_page():
    runs = [run for run in RUNS if run["path"].startswith("number/many-again/bayes-0.3-tuned-")]
    assert sorted(run["seed"] for run in runs) == [*range(1, 8)]
    mean, error = mean_and_error([100 * run["final"]["accuracy"] for run in runs])
    assert f"with the mended code: {mean:.1f} ± {error:.1f} %" in PAGE


@pytest.mark.parametrize(
    ("game", "heading", "arms"),
    [
        ("number", "The game of numbers, with new prompts", WITH_FILES),
        ("code", "Codes", DECIDING),
        ("words", "Words", DECIDING),
    ],
)
def test_tables_are_those_of_the_trainings(game, heading, arms):
    section = PAGE.split(f"### {heading}\n")[1].split("\n### ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    rows = {row[0]: row[1:] for row in cells}
    named = {name: arm for name, arm in NAMES.items() if arm in arms}
    for name, arm in named.items():
        found = accuracies(game, arm)
        mean, error = mean_and_error(found)
        shares = [share(game, arm, name) for name in ("determined", "unanswered")]
        assert rows[name][4:6] == [f"{100 * value:.0f} %" for value in shares]
        seeds = ", ".join(f"{value:.0f}" for value in found)
        seeds = "0 in all" if {*seeds.split(", ")} == {"0"} else seeds
        assert rows[name][:2] == [f"{mean:.1f} ± {error:.1f} %", seeds]
    compared = {
        tuple(name.replace("less c = 0", "less Bayes return, c = 0").split(", less ")): row[0]
        for name, row in rows.items()
        if ", less " in name
    }
    told = {pair: text for pair, text in compared.items() if {*pair} <= {*named}}
    assert len(told) >= 4
    for (first, second), text in told.items():
        pairs = zip(accuracies(game, named[first]), accuracies(game, named[second]), strict=True)
        mean, error = mean_and_error([one - other for one, other in pairs])
        half = 2.2622 * error  # Student's t, 9 degrees of freedom, 97.5 %
        shown = [float(number) for number in re.findall(r"[-+]?[\d.]+", text)]
        assert shown == pytest.approx([mean, mean - half, mean + half], abs=0.051)


@pytest.mark.parametrize("game", ["number", "animals"])
def test_the_pretrained_models_table_is_that_of_its_trainings(game):
    section = PAGE.split("### A pretrained model, in words\n")[1].split(f"| `{game}` |")[1]
    rows = {row.split(" | ")[1]: row.split(" | ")[2:] for row in section.split("\n")[1:3]}
    found = {}
    for name in ("GRPO", "Bayes return, c = 0.3"):
        path = f"pretrained/{game}/{NAMES[name]}-"
        runs = [run["after"] for run in RUNS if run["path"].startswith(path)]
        assert len(runs) == 3
        found[name] = [100 * run["accuracy"] for run in runs]
        mean, error = mean_and_error(found[name])
        seeds = ", ".join(f"{value:.0f}" for value in found[name])
        seeds = "0 in all" if {*seeds.split(", ")} == {"0"} else seeds
        questions, unanswered = (
            sum(r[key] for r in runs) / 3 for key in ("questions", "unanswered")
        )
        shown = [
            f"{mean:.1f} ± {error:.1f} %",
            seeds,
            f"{questions:.1f}",
            f"{100 * unanswered:.0f} % |",
        ]
        assert rows[name] == shown
    if game == "number":
        gains = [b - a for a, b in zip(*found.values(), strict=True)]
        mean, error = mean_and_error(gains)
        half = 4.3027 * error  # Student's t, 2 degrees of freedom, 97.5 %
        assert f"by {mean:+.1f} points [{mean - half:.1f}, {mean + half:.1f}]" in section


def test_the_table_of_redrawn_secrets_is_that_of_its_trainings():
    section = PAGE.split("**Drawing the secret anew for each rollout**")[1].split("\n\n- ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    rows = {row[0]: row[1:] for row in cells[2:]}
    titles = NAMES | {
        "Bayes return, c = 1": "bayes-1",
        "control: RLOO, steps rescaled": "rescaled",
    }
    assert {titles[name] for name in rows} == {*PARTS["redrawn"].arms}
    rival = accuracies("number", "rloo", "many-redrawn")
    for name, row in rows.items():
        found = accuracies("number", titles[name], "many-redrawn")
        mean, error = mean_and_error(found)
        seeds = ", ".join(f"{value:.0f}" for value in found)
        seeds = "0 in all" if {*seeds.split(", ")} == {"0"} else seeds
        assert row[:2] == [f"{mean:.1f} ± {error:.1f} %", seeds]
        if titles[name] != "rloo":
            gain, error = mean_and_error([a - b for a, b in zip(found, rival, strict=True)])
            half = 2.2622 * error  # Student's t, 9 degrees of freedom, 97.5 %
            assert row[-1] == f"{gain:+.1f} [{gain - half:.1f}, {gain + half:.1f}]"
