"""`barl analyze export` as users start it."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from barl_trl import cli

from ...evaluation.files import problems, write_responses


@pytest.fixture
def export(tmp_path, capsys):
    """Runs the command on two folders; returns what it printed."""
    names = ["barl", "grpo"]
    folders = [write_responses(tmp_path / n, problems([[1, 0]]), model=n) for n in names]

    def run(*options):
        output_dir = ["--output_dir", str(tmp_path / "my logs")]
        cli.main(["analyze", "export", *map(str, folders), *output_dir, *options])
        return capsys.readouterr().out

    return run


@pytest.mark.inspect_ai
def test_every_folder_and_benchmark_is_a_log_and_the_viewer_is_named(export, tmp_path):
    from inspect_ai.log import list_eval_logs, read_eval_log

    *paths, last = export("--benchmarks", "math500").splitlines()
    assert all(Path(path).exists() for path in paths)
    logs = [read_eval_log(found) for found in list_eval_logs(str(tmp_path / "my logs"))]
    assert {log.eval.model for log in logs} == {"barl", "grpo"}
    assert len(logs) == len(paths) == 2
    assert last == f"To look at them: inspect view --log-dir '{tmp_path}/my logs'"


@pytest.mark.inspect_ai
def test_a_benchmark_that_is_not_there_is_refused(export):
    with pytest.raises(SystemExit, match="barl analyze: benchmarks must be among those in"):
        export("--benchmarks", "gsm8k")


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect_ai is installed")
def test_without_inspect_ai_one_line_says_how_to_get_it(export):
    message = "barl analyze: inspect_ai must be installed for its log format"
    with pytest.raises(SystemExit, match=re.escape(message)):
        export()
