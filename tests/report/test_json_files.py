"""One way to read JSON: what a file holds, or a mistake that names it."""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barl_trl.data import load_problems
from barl_trl.data.files import read_rows
from barl_trl.evaluation.benchmarks import parse_benchmarks
from barl_trl.evaluation.responses import read_response_file
from barl_trl.report.inspector.rows import groups_of
from barl_trl.report.json_files import read_json
from barl_trl.report.rollout_records import file_name, read_file

from ..evaluation.files import problems, write_responses
from ..mangled import mangled, reads_or_names_the_file
from ..paths import ROOT
from .inspector.rollouts import write_run


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "x.json must hold JSON, got Expecting"),
        (b"[" * 9999, "x.json must hold JSON, got it is nested too deeply"),
        (b'"\xff"', "x.json must be UTF-8 text, got "),
        (b"[]", "x.json must have step, a whole number, got None"),
        (b'{"step": "1"}', "x.json must have step, a whole number, got '1'"),
        (b'{"step": 1, "epoch": null}', "x.json must have epoch, a number, got None"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_json(path, step=int, epoch=float)
    path.write_text('{"step": 1, "epoch": 1}')
    assert read_json(path, step=int, epoch=float) == {"step": 1, "epoch": 1}


def test_a_pipe_is_not_waited_for(tmp_path):
    for name in ("x.json", "x.jsonl", file_name(0)):
        os.mkfifo(tmp_path / name)
    for read, name in ((read_json, "x.json"), (read_response_file, "x.jsonl")):
        with pytest.raises(ValueError, match="must be a regular file, got"):
            read(tmp_path / name)
    with pytest.raises(
        ValueError, match=r"^\S+parquet must be a regular file, got a [^\n]*: name one.$"
    ):
        read_file(tmp_path / file_name(0))
    for read in (parse_benchmarks, load_problems):
        text = f"mine={tmp_path / 'x.jsonl'}" if read is parse_benchmarks else tmp_path / "x.jsonl"
        with pytest.raises(ValueError, match="must be a regular file, got"):
            read(str(text))


def test_nothing_else_reads_json_or_parquet():
    source = ROOT / "src" / "barl_trl"
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"json\.loads?\(|read_parquet|pq\.(read|ParquetFile)", path.read_text())
    }
    own = {"report/json_files.py", "report/rollout_records.py"}
    copies = {"trainer/resume.py"}
    assert found == own | copies | {"graders/worker.py"}  # a pipe


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("kind", ["responses", "records", "jsonl", "csv", "json"])
def test_any_mangled_file_is_read_or_named(tmp_path, kind, data):
    if kind == "responses":
        folder = write_responses(tmp_path / "responses", problems([[1, 0], [0, 1]]))
        path, read = folder / "math500.jsonl", read_response_file
    elif kind == "records":
        write_run(tmp_path, steps=[0])
        path = tmp_path / "beliefs" / file_name(0)

        def read(path):
            metadata, records = read_file(path)
            if records:
                groups_of(records, metadata)
    else:
        path = tmp_path / f"rows.{kind}"
        lines = {"csv": "problem,answer\np,1\nq,2\n", "json": '[{"problem": "p", "answer": 1}]'}
        path.write_text(lines.get(kind, '{"problem": "p", "answer": "1"}\n' * 2))

        def read(path):
            read_rows(str(path), "train", None, lambda columns: columns[:1])

    content = data.draw(mangled(path.read_bytes()))
    reads_or_names_the_file(read, path, content)
