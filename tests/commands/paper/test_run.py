"""`barl reproduce paper` runs what is not done, and says what failed."""

import json
import os
import shlex
import signal
import threading
import time

import psutil
import pytest

from barl_trl.commands.interruption import Interrupted, raised
from barl_trl.commands.paper import run as paper_run
from barl_trl.commands.paper.scales import demo_scale
from barl_trl.report.markdown import escape
from barl_trl.trainer.output_folder import one_writer


def sh(name, script):
    return paper_run.Command(name, ["sh", "-c", script])


def test_a_failed_command_is_named_with_the_end_of_its_output(tmp_path):
    book = paper_run.Book(tmp_path, num_threads=1)
    with pytest.raises(RuntimeError, match=r"train a failed, see .*train-a.txt:\n.*oh no"):
        book.run(sh("train a", "echo oh no; exit 3"))
    book.run(sh("train b", f"[ ! -e {tmp_path}/b ] && touch {tmp_path}/b"))
    again = paper_run.Book(tmp_path, num_threads=1)
    again.run(sh("train b", f"[ ! -e {tmp_path}/b ] && touch {tmp_path}/b"))  # is done
    with pytest.raises(RuntimeError, match="train b failed"):
        again.run(sh("train b", "exit 1"))  # another one of that name


def test_a_failure_ends_what_runs_and_starts_nothing_more(tmp_path):
    book = paper_run.Book(tmp_path, num_threads=1)
    lanes = [
        [sh("a", "sleep 1; exit 1")],
        [sh("b", "sleep 100"), sh("c", "true")],
        [sh("d", "true")],
    ]
    with pytest.raises(RuntimeError, match="a failed"):
        book.run_lanes(lanes, at_once=2, advance=lambda: None)
    assert [path.stem for path in sorted((tmp_path / "logs").iterdir())] == ["a", "b"]
    assert not book.seconds


def told_when(path):
    """Sends SIGTERM to this process when a file is there."""

    def tell():
        while not path.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell).start()


def test_sigterm_leaves_no_child(tmp_path, monkeypatch):
    """Not even one that does not listen, nor its own."""
    monkeypatch.setattr(paper_run, "GRACE", 0.5)
    book, number = paper_run.Book(tmp_path, num_threads=1), f"1000.{os.getpid()}"
    lanes = [
        [sh("a", f"sleep {number} & wait"), sh("b", "true")],
        [sh("c", f"trap '' TERM; sleep {number} & touch {tmp_path}/started; wait; wait")],
    ]
    told_when(tmp_path / "started")
    with raised(), pytest.raises(Interrupted):
        book.run_lanes(lanes, at_once=2, advance=lambda: None)
    processes = psutil.process_iter(["cmdline"])
    killed = [process for process in processes if number in (process.info["cmdline"] or [])]
    assert not psutil.wait_procs(killed, timeout=60)[1]  # a busy kernel ends them a little later
    assert not book.seconds


def test_a_folder_into_which_another_process_writes_is_refused(tmp_path):
    with one_writer(tmp_path), pytest.raises(ValueError, match="output_dir must have one writer"):
        paper_run.run(demo_scale(tmp_path, max_steps=80), tmp_path, [0])


def test_a_folder_of_other_settings_is_refused(tmp_path):
    paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=80), tmp_path)
    paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=80), tmp_path)
    with pytest.raises(ValueError, match="output_dir must hold results of the same settings, got"):
        paper_run.refuse_other_settings(demo_scale(tmp_path, max_steps=60), tmp_path)


@pytest.mark.slow
def test_two_arms_to_the_report(tmp_path):
    scale = demo_scale(tmp_path, max_steps=2)
    model = scale.models[0]._replace(arms=("barl", "grpo_length_controlled"))
    scale = scale._replace(models=[model], evaluate=[*scale.evaluate, "--limit", "10"])
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
    before = (tmp_path / "done.txt").read_text()
    paper_run.run(scale, tmp_path, [0, 1])
    assert (tmp_path / "done.txt").read_text() == before
