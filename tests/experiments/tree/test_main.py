"""`python -m experiments.tree`: the table, the results and the picture."""

import json
from functools import partial

import pytest

from experiments.tree import gap
from experiments.tree.__main__ import main

from ..running import experiment


def results_in(folder):
    assert (folder / "tree.png").read_bytes().startswith(b"\x89PNG")
    return json.loads((folder / "results.json").read_text())


def test_results_and_a_picture_are_written(tmp_path, capsys, monkeypatch):
    """In this process, on the two smaller depths."""
    monkeypatch.setattr(gap, "results", partial(gap.results, range(2, 4)))
    main(["--output_dir", str(tmp_path)])
    assert [(tree["depth"], tree["back"]) for tree in results_in(tmp_path)["trees"]] == [
        *((2, "root"), (2, "parent"), (3, "root"), (3, "parent"))
    ]
    assert "Return within the steps that the adaptive policy needs" in capsys.readouterr().out


@pytest.mark.slow
def test_trees_are_solved_to_depth_six(tmp_path):
    done = experiment("tree", "--output_dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(results_in(tmp_path)["trees"]) == 10
    assert "│ 191 " in done.stdout
