"""Response files are read by benchmark, problem and sample."""

import pytest

from barl_trl.evaluation.responses import ResponseFile, read_responses

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
        ('{"a": 1', None, r"math500.jsonl:1 must be a response, got '\{\"a\": 1'"),
        ('{"a": 1}', None, r"math500.jsonl:1 must be a response, got '\{\"a\": 1\}'"),
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


def test_a_folder_has_one_writer(tmp_path):
    message = "output_dir must have one writer, got "
    with one_writer(tmp_path), pytest.raises(ValueError, match=message), one_writer(tmp_path):
        pytest.fail("there were two")
    with one_writer(tmp_path):
        assert read_responses(write_responses(tmp_path, problems([[1]])))
