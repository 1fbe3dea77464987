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
        ("a=b=c-1", "a=b"),
    ],
)
def test_the_arm_is_named_or_that_of_the_folder_up_to_its_seed(folder, arm):
    assert _arms([folder]) == {arm: [Path(folder.rpartition("=")[2])]}
