"""Files of users that were mangled are read, or named in one line."""

import os

import pytest
from barl_trl.data.files import read_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barl_trl.data import load_problems
from barl_trl.evaluation.responses import read_response_file

from .evaluation.files import problems, write_responses
from .mangled import mangled, reads_or_names_the_file

LINES = {"jsonl": '{"problem": "p", "answer": "1"}\n' * 2, "csv": "problem,answer\np,1\nq,2\n"}
LINES |= {"json": '[{"problem": "p", "answer": 1}]'}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("kind", ["responses", *LINES])
def test_any_mangled_file_is_read_or_named(tmp_path, kind, data):
    def read(path):
        read_rows(str(path), "train", None, lambda columns: columns[:1])

    path = tmp_path / f"rows.{kind}"
    if kind == "responses":
        folder = write_responses(tmp_path / "responses", problems([[1, 0], [0, 1]]))
        path, read = folder / "math500.jsonl", read_response_file
    else:
        path.write_text(LINES[kind])
    reads_or_names_the_file(read, path, data.draw(mangled(path.read_bytes())))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.jsonl")
    with pytest.raises(ValueError, match="must be a regular file, got"):
        load_problems(str(tmp_path / "x.jsonl"))
