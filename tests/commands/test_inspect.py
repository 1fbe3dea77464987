"""`barl inspect` as it is typed."""

import os
import shutil
import signal
import subprocess
import urllib.request

import pytest

from barl_trl.commands.inspect import main
from barl_trl.synthetic.search import TINY_MODEL_DIR

from ..evaluation.files import problems, write_responses
from ..preloaded import PRELOADED
from ..report.inspector.rollouts import write_run


@pytest.fixture
def run_folder(tmp_path):
    write_run(tmp_path / "run", steps=[0])
    return tmp_path / "run"


def test_page_lies_beside_the_records_or_where_it_is_wanted(run_folder, tmp_path, capsys):
    main([str(run_folder)])
    page = run_folder / "inspect" / "index.html"
    assert page.exists() and capsys.readouterr().out == f"12 rollouts. Open {page}\n"
    main([str(run_folder / "beliefs"), "--output", str(tmp_path / "page")])
    assert (tmp_path / "page" / "index.html").exists()


def test_records_of_one_benchmark_are_found_and_those_of_several_named(
    run_folder, tmp_path, capsys
):
    analysis = tmp_path / "analysis"
    shutil.copytree(run_folder / "beliefs", analysis / "mine" / "aime25" / "beliefs")
    main([str(analysis), "--output", str(tmp_path / "page")])
    assert "12 rollouts" in capsys.readouterr().out
    shutil.copytree(run_folder / "beliefs", analysis / "mine" / "gsm8k" / "beliefs")
    with pytest.raises(SystemExit):
        main([str(analysis), "--output", str(tmp_path / "page")])
    assert f"name one of {analysis}/mine/aime25, {analysis}/mine/gsm8k." in capsys.readouterr().err


def test_responses_of_an_evaluation_are_converted(tmp_path, capsys):
    write_responses(tmp_path / "evaluated", problems([[1, 0]]), model=str(TINY_MODEL_DIR))
    main([str(tmp_path / "evaluated")])
    assert "2 rollouts" in capsys.readouterr().out
    # evaluated again, and named as the error of several benchmarks says
    write_responses(tmp_path / "evaluated", problems([[1, 0, 0]]), model=str(TINY_MODEL_DIR))
    [benchmark] = (tmp_path / "evaluated").glob("*.jsonl")
    main([str(benchmark.with_suffix(""))])
    assert "3 rollouts" in capsys.readouterr().out


def test_an_export_is_a_file_and_no_page(run_folder, tmp_path, capsys):
    main([str(run_folder), "--export", "verifiers"])
    path = run_folder / "inspect" / "traces.jsonl"
    assert capsys.readouterr().out == f"12 rollouts in {path}\n"
    assert [*(run_folder / "inspect").iterdir()] == [path]
    main([str(run_folder), "--export", "verifiers", "--output", str(tmp_path / "there")])
    assert (tmp_path / "there" / "traces.jsonl").read_text() == path.read_text()


def test_two_runs_make_one_page(run_folder, tmp_path, capsys):
    main([str(run_folder), str(run_folder / "beliefs"), "--output", str(tmp_path / "page")])
    assert "24 rollouts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{0}/nowhere", "RUN must have records of rollouts, beliefs/rollouts_*.parquet, got"),
        ("{0}/run {0}/run {0}/run", "RUN must be one folder, or two to compare, got 3."),
        ("", "required: RUN"),
        ("{0}/run --port 99999", "must be a port, 0 to 65535, got '99999'"),
        ("{0}/run --output {0}/file", "--output must be a folder, got the file"),
        ("{0}/run --output {0}", "--output must be a new folder or an earlier page, got"),
        ("{0}/run --port 99", "--port must be left out, got 99: it is one of --serve."),
        ("{0}/run --sevre", "did you mean --serve?"),
        ("{0}/nowhere --export verifiers", "RUN must have records of rollouts, beliefs/rollouts_"),
        ("{0}/run {0}/run --export verifiers", "RUN must be one folder with --export, got 2."),
        ("{0}/run --export verifiers --serve", "--serve must be left out with --export"),
        ("{0}/run --export trackio --output x", "--output must be left out with --export trackio"),
        ("{0}/run --export verifiers --output {0}/file", "--output must be a folder, got the file"),
        ("{0}/foreign --export verifiers", "must be a file of rollout records, got"),
    ],
)
def test_mistakes_end_in_one_line(run_folder, tmp_path, capsys, options, said):
    (tmp_path / "file").touch()
    (tmp_path / "index.html").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "rollouts_00000.parquet").write_text("no parquet")
    with pytest.raises(SystemExit) as end:
        main(options.format(tmp_path).split())
    error = capsys.readouterr().err
    assert end.value.code == 2 and said in error and error.count("\n") == 1


def test_served_page_ends_with_a_line(run_folder, tmp_path):
    command = [*PRELOADED, "barl_trl.cli", "inspect", str(run_folder), "--serve", "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env=os.environ, start_new_session=True,
    ) as process:  # fmt: skip
        line = process.stdout.readline()
        address = line.split()[-1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}data/index.js") as answer:
            assert b'"live":true' in answer.read()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
