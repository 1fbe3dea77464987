"""Folders of records in, the folder of a page out."""

import json
import re

import pytest

from barl_trl.inspector import site
from barl_trl.inspector.site import write_page

from .rollouts import write_run


def shard(output, name):
    text = (output / "data" / f"{name}.js").read_text()
    return json.loads(re.fullmatch(r'barl\.receive\("[\w-]+",(.*)\);\n', text)[1])


def test_small_run_is_one_file(tmp_path):
    write_run(tmp_path / "run")
    assert write_page([tmp_path / "run" / "beliefs"], ["run"], tmp_path / "page") == 36
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["index.html"]


@pytest.mark.parametrize("limit", ["SINGLE_FILE_ROLLOUTS", "SINGLE_FILE_CHARACTERS"])
def test_larger_run_is_a_folder(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(site, limit, 30)
    write_run(tmp_path / "run")
    write_page([tmp_path / "run" / "beliefs"], ["run"], tmp_path / "page")
    index = shard(tmp_path / "page", "index")
    [run] = index["runs"]
    assert (run["name"], run["rollouts"]) == ("run", 36)
    heads = shard(tmp_path / "page", "a-list")["heads"]
    shards = [shard(tmp_path / "page", name) for name in {head[-1] for head in heads}]
    assert sum(len(group["rollouts"]) for one in shards for group in one["groups"]) == 36


def test_page_that_is_made_again_leaves_nothing_of_the_old_but_others_files(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "SINGLE_FILE_ROLLOUTS", 30)
    write_run(tmp_path / "run")
    output = tmp_path / "page"
    (output / "data").mkdir(parents=True)
    (output / "data" / "a-09999.js").write_text("old")
    (output / "data" / "mine.txt").write_text("mine")
    write_page([tmp_path / "run" / "beliefs"], ["run"], output)
    assert not (output / "data" / "a-09999.js").exists()
    assert (output / "data" / "mine.txt").read_text() == "mine"


def test_two_runs_are_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "SINGLE_FILE_ROLLOUTS", 30)
    for name in "ab":
        write_run(tmp_path / name)
    folders = [tmp_path / name / "beliefs" for name in "ab"]
    write_page(folders, ["one", "two"], tmp_path / "page")
    assert shard(tmp_path / "page", "pairs") == {"other": list(range(36)), "same": [1] * 36}
