"""What the analyses share."""

import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

from barl_trl.commands.analyze.common import add_grader_options, as_many, named, show, write


def test_models_have_the_names_of_their_folders_or_those_given(tmp_path):
    folders = [tmp_path / "barl", tmp_path / "runs" / ".." / "grpo"]
    assert named(None, folders) == {"barl": folders[0], "grpo": folders[1]}
    assert named(["a", "b"], folders) == {"a": folders[0], "b": folders[1]}


def test_two_models_of_one_name_are_refused():
    with pytest.raises(ValueError, match="--names must differ, got out, out: name each model"):
        named(None, [Path("barl/out"), Path("grpo/out")])


def test_an_option_is_wanted_once_for_each_folder():
    assert as_many("--greedy", ["a", "b"], {"one": 1, "two": 2}) == ["a", "b"]
    with pytest.raises(ValueError, match="--greedy must be given once for each of the 2 folders"):
        as_many("--greedy", ["a"], ["one", "two"])


def test_answers_are_read_as_in_training_by_default(capsys):
    parser = ArgumentParser()
    add_grader_options(parser)
    assert vars(parser.parse_args([])) == {"grader": "math_verify", "extraction": "boxed"}
    assert parser.parse_args(["--extraction", "stated"]).extraction == "stated"
    parser.print_help()
    assert "`#### 42`" in capsys.readouterr().out


def test_results_are_written_with_what_they_were_made_with(tmp_path):
    path = write(tmp_path / "new" / "values.json", {"k": 3}, [{"value": 0.5}])
    assert json.loads(path.read_text()) == {"settings": {"k": 3}, "rows": [{"value": 0.5}]}


def test_a_line_is_shown_for_each_benchmark_and_model(capsys):
    rows = [
        {"benchmark": benchmark, "model": model, "k": k}
        for model in ("barl", "grpo")
        for benchmark in ("math500", "aime")
        for k in (1, 2)
    ]
    show("Title", rows, None, lambda rows: {"points": str(len(rows))})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [line.split()[1:6:2] for line in lines] == [
        ["math500", "barl", "2"],
        ["math500", "grpo", "2"],
        ["aime", "barl", "2"],
        ["aime", "grpo", "2"],
    ]
