"""`barl reproduce paper` runs what is not done."""

import json
import shlex
from types import SimpleNamespace

import pytest

from barl_trl.commands.reproduce.paper import run as paper_run
from barl_trl.commands.reproduce.paper.scales import demo_scale
from barl_trl.report.markdown import escape
from barl_trl.trainer.resume import one_writer

from ...preloaded import executable


def test_a_folder_into_which_another_process_writes_is_refused(tmp_path):
    with one_writer(tmp_path), pytest.raises(ValueError, match="output_dir must have one writer"):
        paper_run.run(demo_scale(tmp_path, max_steps=80), tmp_path, [0])


@pytest.mark.slow
def test_two_arms_to_the_report(tmp_path, monkeypatch):
    python = SimpleNamespace(executable=executable(tmp_path))
    monkeypatch.setattr("barl_trl.commands.reproduce.paper.commands.sys", python)
    monkeypatch.setattr("barl_trl.commands.reproduce.paper.scales._NUM_EVALUATED", 20)
    scale = demo_scale(tmp_path, max_steps=2)
    model = scale.models[0]._replace(arms=("barl", "grpo_length_controlled"))
    few = {"train": ("--per_device_train_batch_size", "16"), "evaluate": ("--limit", "10")}
    changed = {name: [*getattr(scale, name), *more] for name, more in few.items()}
    scale = scale._replace(models=[model], **changed)
    paper_run.run(scale, tmp_path, [0, 1])
    report = json.loads((tmp_path / "report.json").read_text())
    assert [row["arm"] for row in report["table"]] == ["base", *model.arms]
    assert [len(row["average"]) for row in report["table"]] == [1, 2, 2]
    greedy = json.loads((tmp_path / "tiny-search-base" / "greedy" / "results.json").read_text())
    accuracy = greedy["benchmarks"]["search"]["accuracy"]
    assert report["table"][0]["search"] == [100 * accuracy]
    assert len(report["figures"]) == 6
    assert all((tmp_path / figure["file"]).exists() for figure in report["figures"])
    assert (tmp_path / "report.html").stat().st_size > 100_000
    options = shlex.join(scale.train).replace("\n", "\\n")
    assert f"| options of barl train | {escape(options)} |" in (tmp_path / "report.md").read_text()
    values = json.loads((tmp_path / "figures" / "tiny-search" / "values.json").read_text())
    assert max(row["num_responses"] for row in values["rows"]) == 60  # six to each of ten
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").iterdir()}
    assert len(before) == 4 + 5 * 2 + 4
    paper_run.run(scale, tmp_path, [0, 1])
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "logs").iterdir()} == before
