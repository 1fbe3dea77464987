"""Response files are read by benchmark, problem and sample."""

import json
import os
from dataclasses import asdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barl_trl.evaluation.responses import ResponseFile, read_response_file, read_responses

from ..mangled import mangled, reads_or_names_the_file
from .files import problems, response, write_responses


def lines_of(*records):
    return [json.dumps(asdict(one)).encode() + b"\n" for one in records]


FIRST, SECOND = lines_of(response(0, 0, 1), response(1, 0, 0))


def test_benchmarks_problems_and_samples_come_in_order(tmp_path):
    made = {1: [response(1, 1, 0), response(1, 0, 1)], 0: [response(0, 0, 1)]}
    for benchmark in ("gsm8k", "math500", "aime"):
        write_responses(tmp_path, made, benchmark=benchmark)
    read = read_responses(tmp_path)
    assert list(read) == ["aime", "gsm8k", "math500"]
    keys = [one.key for group in read["gsm8k"].values() for one in group]
    assert keys == [(0, 0), (1, 0), (1, 1)]
    assert list(read_responses(tmp_path, ["math500", "aime"])) == ["math500", "aime"]
    with pytest.raises(ValueError, match="benchmarks must be among"):
        read_responses(tmp_path, ["math"])


@pytest.mark.parametrize("content", [None, "", '{"a": 1', '{"a": 1}'])
def test_a_folder_that_cannot_be_read(tmp_path, content):
    if content is not None:
        (tmp_path / "math500.jsonl").write_text(content)
    with pytest.raises(ValueError, match=r"must (hold|be)"):
        read_responses(tmp_path)


def test_of_two_responses_to_the_same_problem_and_sample_the_later_counts(tmp_path):
    """As two writers have left them."""
    first, second = problems([[1, 0], [1, 1]]), problems([[0, 0], [0, 1]], text="Later.")
    write_responses(tmp_path, first)
    path = tmp_path / "math500.jsonl"
    lines = path.read_text()
    write_responses(tmp_path, second)
    path.write_text(lines + path.read_text())
    assert read_responses(tmp_path)["math500"] == second
    assert [*ResponseFile(path).responses.values()] == second[0] + second[1]


def test_blank_lines_and_a_cut_off_last_line_are_skipped(tmp_path, caplog):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(b"\n" + FIRST + b" \t\r\n\n" + SECOND[:-9])
    assert read_responses(tmp_path)["math500"] == {0: [response(0, 0, 1)]}
    assert len(caplog.messages) == 1
    path.write_bytes(FIRST + SECOND[:-1])  # an editor took the end of line away
    assert len(read_responses(tmp_path)["math500"]) == 2
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("end", [b"", b"\n", SECOND[:-1], SECOND[:-9], SECOND[:3], b"\n\x00\x00"])
def test_a_run_goes_on_behind_what_is_whole(tmp_path, end):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(FIRST + end)
    file = ResponseFile(path)
    assert [*file.responses] == [(0, 0), (1, 0)][: 1 + (end == SECOND[:-1])]
    file.append([response(2, 0, 1)])
    assert read_response_file(path) == sorted(file.responses.values(), key=lambda one: one.key)
    path.write_bytes(FIRST[:30])  # a killed run's first line is known by its beginning
    assert ResponseFile(path).responses == {} and path.read_bytes() == b""


@pytest.mark.parametrize(
    "line",
    [
        *[b"[]", b"3", b"\xff", b"[" * 9999, b"\xef\xbb\xbf" + FIRST, {"reward": "1"}],
        *[{"reward": float("nan")}, {"problem_id": [1]}, {"problem_id": 2**31}, {"tokens": -1}],
        *[{"tokens": True}, {"truncated": 0}, {"answer": 7}, {"response": "\ud800"}],
        *[{"drawing": [1]}, {"messages": [{"content": "m"}]}],
        *[{"token_ids": [2**30], "own_tokens": [1]}, {"token_ids": [5], "own_tokens": [2]}],
        *[{"token_ids": [5]}, {"other": 1}, {"benchmark": "gsm8k"}, {"solution": "3"}],
    ],
)
def test_a_line_that_is_no_response_to_the_benchmark_is_named(tmp_path, line):
    path = tmp_path / "math500.jsonl"
    if isinstance(line, dict):
        line = json.dumps(asdict(response(0, 1, 1)) | line).encode()
    content = FIRST + line + b"\n" + SECOND
    path.write_bytes(content)
    for read in (read_response_file, ResponseFile):
        with pytest.raises(ValueError, match=r"math500.jsonl:2 must be a response") as error:
            read(path)
        assert len(str(error.value).splitlines()) == 1
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b'{"problem": "p"}\n{', b'{"problem": "p"', b"p", b"\x00" * 9])
def test_a_file_of_something_else_stays_as_it_is(tmp_path, content):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"math500.jsonl:1 must be a response"):
        ResponseFile(path)
    assert path.read_bytes() == content


def test_a_pipe_is_no_response_file(tmp_path):
    """Nothing writes to it: its reader would wait for ever."""
    os.mkfifo(tmp_path / "math500.jsonl")
    with pytest.raises(ValueError, match="must be a regular file"):
        read_responses(tmp_path)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mangled_file_is_read_or_named(tmp_path, data):
    write_responses(tmp_path, problems([[1, 0], [0, 1]]))
    path = tmp_path / "math500.jsonl"
    reads_or_names_the_file(read_response_file, path, data.draw(mangled(path.read_bytes())))
