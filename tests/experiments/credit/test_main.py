"""`python -m experiments.credit report` as users start it."""

import json

import pytest

from experiments.credit.__main__ import main
from experiments.credit.parts import PARTS
from experiments.credit.search.runs import CONDITIONS


def run_before(folder, letter, seeds, accuracy):
    """Writes what all runs of a part would have written."""
    [stage] = PARTS[letter].jobs(folder / letter, seeds)
    for job in stage:
        condition, arm, seed = job.arguments
        measured = dict.fromkeys(CONDITIONS[condition].tests, accuracy + seed / 10)
        record = {"arm": arm, "evaluations": [measured | {"accuracy/tokens": 50.0}]}
        job.path.parent.mkdir(parents=True, exist_ok=True)
        job.path.write_text(json.dumps(record))


def test_credit_runs_the_parts_asked_for_in_their_order(tmp_path, capsys):
    for letter, accuracy in (("C", 0.5), ("D", 0.7)):
        run_before(tmp_path, letter, 2, accuracy)
    options = ["--parts", "DCD", "--seeds", "2", "--output_dir", str(tmp_path)]
    main(["report", *options])
    out = capsys.readouterr().out
    minutes = [line for line in out.splitlines() if line.endswith(": 0 minutes")]
    assert [line[0] for line in minutes] == ["C", "D"]
    assert f"In {tmp_path}: report.md, and each run's file." in out
    lines = (tmp_path / "report.md").read_text().splitlines()
    accuracies = [line.split(" | ")[1] for line in lines if line.startswith("| grpo |")]
    assert accuracies == ["55.0 ± 5.0", "75.0 ± 5.0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--parts", "BX"), "--parts: must be letters of ABCDE, got 'BX'"),
    ],
)
def test_a_mistake_is_said_in_one_line(options, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", *options])
    assert stop.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
