"""`barl inspect` as it is typed."""

import shutil

import pytest

from barl_trl.commands import cli
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..evaluation.files import problems, write_responses
from ..inspector.rollouts import write_run


@pytest.fixture
def run_folder(tmp_path):
    write_run(tmp_path / "run", steps=[0])
    return tmp_path / "run"


@pytest.fixture
def inspect(capsys):
    """Runs the command; returns what it printed."""

    def run(*arguments):
        cli.main(["inspect", *map(str, arguments)])
        return capsys.readouterr().out

    return run


def test_page_lies_beside_the_records_or_where_it_is_wanted(run_folder, tmp_path, inspect):
    page = run_folder / "inspect" / "index.html"
    assert inspect(run_folder) == f"12 rollouts. Open {page}\n"
    assert page.exists()
    inspect(run_folder / "beliefs", "--output", tmp_path / "page")
    assert (tmp_path / "page" / "index.html").exists()
    both = inspect(run_folder, run_folder / "beliefs", "--output", tmp_path / "both")
    assert "24 rollouts" in both


def test_records_of_one_benchmark_are_found_and_those_of_several_named(
    run_folder, tmp_path, inspect, capsys
):
    analysis = tmp_path / "analysis"
    shutil.copytree(run_folder / "beliefs", analysis / "mine" / "aime25" / "beliefs")
    assert "12 rollouts" in inspect(analysis, "--output", tmp_path / "page")
    shutil.copytree(run_folder / "beliefs", analysis / "mine" / "gsm8k" / "beliefs")
    with pytest.raises(SystemExit):
        inspect(analysis, "--output", tmp_path / "page")
    assert f"{analysis}/mine/aime25, {analysis}/mine/gsm8k" in capsys.readouterr().err


def test_responses_of_an_evaluation_are_converted(tmp_path, inspect):
    write_responses(tmp_path / "evaluated", problems([[1, 0]]), model=str(TINY_MODEL_DIR))
    assert "2 rollouts" in inspect(tmp_path / "evaluated")
    # evaluated again, and named as the error of several benchmarks says
    write_responses(tmp_path / "evaluated", problems([[1, 0, 0]]), model=str(TINY_MODEL_DIR))
    [benchmark] = (tmp_path / "evaluated").glob("*.jsonl")
    assert "3 rollouts" in inspect(benchmark.with_suffix(""))
