"""`barl analyze curves`: which runs are the seeds of an arm."""

from pathlib import Path

import pytest

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
        ("a=lr=1/b-1", "a"),
    ],
)
def test_the_arm_is_named_or_that_of_the_folder_up_to_its_seed(folder, arm):
    assert _arms([folder]) == {arm: [Path(folder.removeprefix(f"{arm}="))]}


def test_a_folder_may_have_an_equals_sign(tmp_path):
    folder = tmp_path / "lr=1e-3" / "g-1"
    folder.mkdir(parents=True)
    assert _arms([str(folder)]) == {"g": [folder]}
    with pytest.raises(ValueError, match="each seed of a must be given once, got"):
        _arms([f"a={folder}", f"a={folder}/"])
