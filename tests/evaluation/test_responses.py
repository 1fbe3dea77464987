"""Response files are read by benchmark, problem and sample."""

import json
import os
from dataclasses import asdict

import pytest

from barl_trl.evaluation.responses import ResponseFile, read_response_file, read_responses

from .files import problems, response, write_responses


def test_problems_and_samples_come_in_order_whatever_that_of_the_lines(tmp_path):
    made = {1: [response(1, 1, 0), response(1, 0, 1)], 0: [response(0, 0, 1)]}
    write_responses(tmp_path, made)
    read = read_responses(tmp_path)["math500"]
    assert [(p, r.sample) for p, group in read.items() for r in group] == [
        (0, 0),
        (1, 0),
        (1, 1),
    ]


def test_benchmarks_are_chosen_and_ordered(tmp_path):
    for benchmark in ("gsm8k", "math500", "aime"):
        write_responses(tmp_path, problems([[1]]), benchmark=benchmark)
    assert list(read_responses(tmp_path)) == ["aime", "gsm8k", "math500"]
    assert list(read_responses(tmp_path, ["math500", "aime"])) == ["math500", "aime"]


@pytest.mark.parametrize(
    ("content", "benchmarks", "message"),
    [
        (
            None,
            None,
            r"must hold <benchmark>.jsonl, got none in .*: write them with `barl evaluate`",
        ),
        ("", None, "must hold responses, got none in .*math500.jsonl"),
        ('{"a": 1', None, r"math500.jsonl:1 must be a response to math500, got '\{\"a\": 1' \(Exp"),
        ('{"a": 1}', None, r"math500.jsonl:1 must be a response to math500, got '\{\"a\": 1\}'"),
        ("", ["gsm8k"], r"benchmarks must be among those in .* \(math500\), got gsm8k"),
    ],
)
def test_a_folder_that_cannot_be_read(tmp_path, content, benchmarks, message):
    if content is not None:
        (tmp_path / "math500.jsonl").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_responses(tmp_path, benchmarks)


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


def lines_of(*records):
    return [json.dumps(asdict(one)).encode() + b"\n" for one in records]


FIRST, SECOND = lines_of(response(0, 0, 1), response(1, 0, 0))


def test_blank_lines_and_a_cut_off_last_line_are_skipped(tmp_path, caplog):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(b"\n" + FIRST + b" \t\r\n\n" + SECOND[:-9])
    assert read_responses(tmp_path)["math500"] == {0: [response(0, 0, 1)]}
    assert caplog.messages == [f"{path}: its last line was cut off, and does not count."]
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


def test_the_first_line_of_a_killed_run_is_known_by_its_beginning(tmp_path):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(FIRST[:30])
    assert ResponseFile(path).responses == {}
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[]", "must be a mapping, not list"),
        (b"3", "must be a mapping, not int"),
        (b"\xff", "can't decode byte 0xff"),
        (b"[" * 9999, "it is nested too deeply"),
        (b"\xef\xbb\xbf" + FIRST, "Unexpected UTF-8 BOM"),
        ({"reward": "1"}, "reward must be 0 or 1, got '1'"),
        ({"reward": 0.5}, "reward must be 0 or 1, got 0.5"),
        ({"reward": float("nan")}, "reward must be 0 or 1, got nan"),
        ({"problem_id": [1]}, r"problem_id must be a whole number from 0, got \[1\]"),
        ({"problem_id": 2**31}, "problem_id must be a whole number from 0, got 2147483648"),
        ({"sample": "0"}, "sample must be a whole number from 0, got '0'"),
        ({"tokens": -1}, "tokens must be a whole number from 0, got -1"),
        ({"tokens": True}, "tokens must be a whole number from 0, got True"),
        ({"truncated": 0}, "truncated must be true or false, got 0"),
        ({"answer": 7}, "answer must be a text or null, got 7"),
        ({"response": "\ud800"}, "response must be a text, got "),
        ({"drawing": [1]}, "drawing must be an object or null"),
        ({"messages": "m"}, "messages must be a list of messages or null"),
        ({"messages": [{"content": "m"}]}, "messages must be a list of messages or null"),
        ({"other": 1}, "unexpected keyword argument 'other'"),
        ({"benchmark": "gsm8k"}, "it is one to gsm8k"),
        ({"solution": "3"}, "another problem 0 stands before it"),
    ],
)
def test_a_line_that_is_no_response_to_the_benchmark_is_named(tmp_path, line, message):
    path = tmp_path / "math500.jsonl"
    if isinstance(line, dict):
        line = json.dumps(asdict(response(0, 1, 1)) | line).encode()
    content = FIRST + line + b"\n" + SECOND
    path.write_bytes(content)
    for read in (read_response_file, ResponseFile):
        with pytest.raises(ValueError, match=message) as error:
            read(path)
        assert str(error.value).startswith(f"{path}:2 must be a response to math500, got ")
        assert len(str(error.value).splitlines()) == 1
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b'{"problem": "p"}\n{', b'{"problem": "p"', b"p", b"\x00" * 9])
def test_a_file_of_something_else_stays_as_it_is(tmp_path, content):
    path = tmp_path / "math500.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"math500.jsonl:1 must be a response to math500, got"):
        ResponseFile(path)
    assert path.read_bytes() == content


def test_a_pipe_is_no_response_file(tmp_path):
    """Nothing writes to it: its reader would wait for ever."""
    os.mkfifo(tmp_path / "math500.jsonl")
    with pytest.raises(ValueError, match=r"math500.jsonl must be a regular file, got"):
        read_responses(tmp_path)
