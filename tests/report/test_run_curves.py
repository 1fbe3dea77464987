"""Curves of accuracy and response length over training, from the folders of runs."""

import json

import matplotlib.pyplot as plt
import pytest

from barl_trl import cli
from barl_trl.report.figures.run_curves import MEAN, TRAINING, summarize


def write(folder, seed=0, steps=6, gain=0.1):
    """A run's log: every step of training, every second one evaluated."""
    logs = []
    for step in range(1, steps + 1):
        accuracy = gain * step + 0.02 * seed
        logs.append(
            {
                "step": step,
                "rewards/format_reward/mean": 1.0,
                "rewards/accuracy_reward/mean": accuracy,
                "completions/mean_length": 100 - 5 * step + seed,
                "barl/truth_mass": accuracy / 2,
            }
        )
        if step % 2 == 0:
            logs.append(
                {
                    "step": step,
                    "eval_math500/accuracy": accuracy / 2,
                    "eval_math500/mean_tokens": 80.0 + seed,
                    "eval_accuracy": accuracy / 2,
                }
            )
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": logs}))
    return folder


def curves_of(folder):
    """The curves of a single run, by set of problems and kind, as values by step."""
    curves = summarize({"run": [folder]})["run"]["curves"]
    return {
        (name, kind): dict(zip(curve["steps"], curve["mean"], strict=True))
        for name, kinds in curves.items()
        for kind, curve in kinds.items()
    }


def test_a_run_has_the_curves_of_training_and_of_each_benchmark(tmp_path):
    found = curves_of(write(tmp_path / "run"))
    assert found[TRAINING, "accuracy"] == pytest.approx({n: n / 10 for n in range(1, 7)})
    assert found[TRAINING, "mean_tokens"][6] == 70
    assert found[TRAINING, "truth_mass"][6] == pytest.approx(0.3)
    assert found["math500", "accuracy"] == pytest.approx({2: 0.1, 4: 0.2, 6: 0.3})
    assert found["math500", "mean_tokens"] == {2: 80.0, 4: 80.0, 6: 80.0}
    assert found[MEAN, "accuracy"][6] == pytest.approx(0.3)


def test_runs_without_a_common_step_are_named(tmp_path):
    runs = [write(tmp_path / str(steps), steps=steps) for steps in (1, 6)]
    state = runs[1] / "trainer_state.json"
    logs = json.loads(state.read_text())["log_history"]
    state.write_text(json.dumps({"log_history": [log for log in logs if log["step"] > 1]}))
    with pytest.raises(ValueError, match="at common steps, got none: summarize runs"):
        summarize({"barl": runs})


def test_a_run_that_was_killed_has_those_of_its_last_checkpoint(tmp_path):
    for step in (9, 10):
        write(tmp_path / "run" / f"checkpoint-{step}", steps=step)
    assert max(curves_of(tmp_path / "run")[TRAINING, "accuracy"]) == 10
    for broken in ("trainer_state.json", "checkpoint-10/trainer_state.json"):
        (tmp_path / "run" / broken).write_text("")
    assert max(curves_of(tmp_path / "run")[TRAINING, "accuracy"]) == 9


def test_the_band_is_the_standard_error_over_seeds_at_the_steps_of_all(tmp_path):
    runs = [write(tmp_path / f"run-{seed}", seed, steps=6 - 4 * seed) for seed in range(2)]
    accuracy = summarize({"barl": runs})["barl"]["curves"][TRAINING]["accuracy"]
    assert accuracy["steps"] == [1, 2]
    assert accuracy["mean"] == pytest.approx([0.11, 0.21])
    assert accuracy["standard_error"] == pytest.approx([0.01, 0.01])


def test_seeds_are_put_together_and_drawn(tmp_path, capsys):
    named = tmp_path / "\x1b[2J"
    for seed in range(3):
        write(named / f"barl-seed{seed}", seed)
    grpo = write(tmp_path / "other", gain=0.05)
    folders = [str(named / f"barl-seed{seed}") for seed in range(3)]
    options = ["--output_dir", str(tmp_path / "out")]
    cli.main(["analyze", "curves", *folders, f"GRPO={grpo}", *options])
    said = f"barl: {', '.join(folders)}".replace("\x1b", r"\x1b")
    assert said in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "curves.json").read_text())
    assert {arm: results["seeds"] for arm, results in summary.items()} == {"barl": 3, "GRPO": 1}
    assert list(summary["barl"]["curves"]) == [TRAINING, "math500", MEAN]
    accuracy = summary["barl"]["curves"]["math500"]["accuracy"]
    assert accuracy["steps"] == [2, 4, 6]
    assert accuracy["mean"] == pytest.approx([0.11, 0.21, 0.31])
    assert accuracy["standard_error"] == pytest.approx([0.01 / 3**0.5] * 3)
    assert summary["GRPO"]["curves"][MEAN]["accuracy"]["standard_error"] is None
    height, width, _ = plt.imread(tmp_path / "out" / "curves.png").shape
    assert height == pytest.approx(130 * (0.7 + 3 * 2.6), rel=0.05)  # a row for each
    assert width == pytest.approx(130 * 3 * 3.3, rel=0.05)  # accuracy, tokens, truth mass


def test_folders_without_curves_are_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no must have a trainer_state.json, or checkpoints"):
        cli.main(["analyze", "curves", str(tmp_path / "no"), "--output_dir", str(tmp_path)])
    (tmp_path / "trainer_state.json").write_text('{"log_history": [{"step": 1, "loss": 0.1}]}')
    with pytest.raises(SystemExit, match=r"must have rewards or evaluations logged, got none"):
        cli.main(["analyze", "curves", str(tmp_path), "--output_dir", str(tmp_path / "out")])
