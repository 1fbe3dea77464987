"""`barl analyze curves`: runs of several seeds and arms in one figure."""

import json
from pathlib import Path

import pytest

from barl_trl import cli
from barl_trl.commands.analyze.curves import _arms


@pytest.mark.parametrize(
    ("folder", "arm"),
    [
        ("runs/barl-seed1", "barl"),
        ("barl_s2", "barl"),
        ("barl-3/", "barl"),
        ("../qwen2.5-7b-seed-4", "qwen2.5-7b"),
        ("barl", "barl"),
        ("7", "7"),
        ("grpo_s3", "grpo"),
        ("GRPO=barl-seed1", "GRPO"),
        ("a=b=c-1", "a=b"),
    ],
)
def test_the_arm_is_named_or_that_of_the_folder_up_to_its_seed(folder, arm):
    assert _arms([folder]) == {arm: [Path(folder.rpartition("=")[2])]}


def test_accuracies_are_means_over_the_seeds_of_an_arm(tmp_path, capsys):
    for seed, accuracy in ((1, 0.25), (2, 0.75)):
        log = {"step": 10, "eval_accuracy": accuracy, "eval_mean_tokens": 50.0}
        log |= {f"eval_search/{name[5:]}": log[name] for name in ("eval_accuracy",)}
        folder = tmp_path / "\x1b[2J" / f"barl-seed{seed}"
        folder.mkdir(parents=True)
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": [log]}))
    runs = [str(tmp_path / "\x1b[2J" / f"barl-seed{seed}") for seed in (1, 2)]
    cli.main(["analyze", "curves", *runs, "--output_dir", str(tmp_path / "out")])
    assert f"barl: {', '.join(runs)}".replace("\x1b", r"\x1b") in capsys.readouterr().out
    assert "0.5" in (tmp_path / "out" / "curves.json").read_text()
    assert (tmp_path / "out" / "curves.png").read_bytes().startswith(b"\x89PNG")
