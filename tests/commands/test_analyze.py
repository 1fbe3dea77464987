"""`barl analyze`: mistakes are said in one line."""

import pytest

from .analyzing import analyze


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("efficiency",), "the following arguments are required: --sampled"),
        (("efficiencies",), "invalid choice: 'efficiencies'"),
        (("reflections", "{}/nowhere"), "must hold <benchmark>.jsonl, got none in"),
        (
            ("reflections", "{}/barl", "--num_samples", "6"),
            r"num_samples must be in [1, 3], the fewest samples",
        ),
        (
            ("reflections", "{}/barl", "--names", "a", "b"),
            "--names must be given once for each of the 1 folders, got 2",
        ),
        (("reflections", "{}/barl", "{}/barl"), "--names must differ, got barl, barl"),
        (
            ("efficiency", "--sampled", "{}/barl", "{}/grpo", "--greedy", "{}/barl"),
            "--greedy must be given once for each of the 2 folders, got 1",
        ),
    ],
)
def test_a_mistake_is_said(folders, tmp_path, options, message):
    done = analyze(*(option.format(tmp_path) for option in options))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
