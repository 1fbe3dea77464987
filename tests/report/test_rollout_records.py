"""Files of rollout records: whole, in order, with a schema that the documentation has, too."""

import os
import re
import runpy
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barl_trl.trainer import records as rollout_records
from barl_trl.trainer.records import (
    SCHEMA,
    VERSION,
    file_name,
    forget_from,
    read_file,
    read_metadata,
    read_records,
    record_files,
    record_table,
)

from ..paths import ROOT
from .inspector.rollouts import make_record, write_records


def record(step=0, **known):
    return {
        "step": step,
        "group": 0,
        "rollout": 0,
        "prompt_id": "0" * 12,
        "prompt": "1+1?",
        "token_ids": [1, 2],
        "tokens": ["a", "b"],
        "step_ends": [2],
        "rewards": [1.0],
        "outcome": 1.0,
    } | known


FULL = record(
    solution="2",
    token_logps=[-0.5, -1.0],
    importance_ratios=[1.0, 1.5],
    token_weights=[0.25, 0.0],
    step_values=[0.5],
    advantage=-1.0,
    answer="3",
    hypotheses=["2", "3"],
    member=1,
    answer_logps=[[-1.0, float("-inf")], [-2.0, -0.5]],
    posterior=[[1.0, 0.0], [0.25, 0.75]],
    reason="numbers",
    is_cut_off=False,
    scored_tokens=40,
    own_tokens=[1, 0],
    turn_ends=[2],
    observed_tools=[["look", "look"]],
    ended_in_call=False,
    has_truth=True,
    cost=-0.5,
    outcomes_under=[0.0, 0.25],
    predicted_rewards=[[0.5, -1.0]],
)


def test_records_are_read_as_they_were_written(tmp_path):
    path = tmp_path / file_name(3)
    write_records(path, [FULL, record()], {"credit": "barl"})
    assert [*read_records(tmp_path)] == [FULL, dict.fromkeys(SCHEMA.names) | record()]
    assert read_metadata(path) == {"version": VERSION, "credit": "barl"}
    columns = {name: [row[name] for row in (FULL, FULL)] for name in FULL}
    rollout_records.write_records(path, [record_table(columns)], {})
    assert [*read_records(tmp_path)] == [FULL, FULL]
    assert [*read_records(tmp_path, columns=["answer"])] == [{"answer": "3"}] * 2


def test_a_column_that_all_have_cannot_be_left_out():
    columns = {name: [value] for name, value in FULL.items()} | {"tokens": None}
    with pytest.raises(ValueError, match="tokens must be known of every rollout, got none of 1"):
        record_table(columns)


def test_files_are_in_the_order_of_steps_and_of_batches_in_them(tmp_path):
    places = [(5, 0), (100_000, 0), (20, 10), (20, 0), (20, 2)]
    for n, place in enumerate(places):
        write_records(tmp_path / file_name(*place), [record(place[0], group=n)], {})
    (tmp_path / "rollouts_new.parquet").touch()
    assert [step for step, _ in record_files(tmp_path)] == [5, 20, 20, 20, 100_000]
    assert [found["group"] for found in read_records(tmp_path)] == [0, 3, 4, 2, 1]


def test_parts_of_a_file_are_together_in_its_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(rollout_records, "ROWS_TOGETHER", 4)
    path = tmp_path / file_name(0)
    tables = [pa.Table.from_pylist([record(group=n)] * 2, SCHEMA) for n in range(5)]
    rollout_records.write_records(path, tables, {})
    assert [found["group"] for found in read_records(tmp_path)] == [n // 2 for n in range(10)]
    assert pq.ParquetFile(path).num_row_groups == 3


def test_what_is_done_again_is_forgotten(tmp_path):
    for place in [(5, 0), (8, 0), (8, 1), (12, 0)]:
        write_records(tmp_path / file_name(*place), [record()], {})
    (tmp_path / "rollouts_00020.partial").touch()
    (tmp_path / "notes.txt").touch()
    forget_from(tmp_path, 8)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", file_name(5)]
    forget_from(tmp_path / "nowhere", 0)


# Killed

WRITER = """
import sys
from pathlib import Path
from barl_trl.trainer.records import file_name, record_table, write_records
from tests.report.test_rollout_records import FULL
columns = {name: [value] * 4000 for name, value in FULL.items()}
table = record_table(columns)
for step in range(10**6):
    write_records(Path(sys.argv[1]) / file_name(step), [table], {"credit": "barl"})
    print(step, flush=True)
"""


@pytest.mark.slow
def test_killed_while_it_writes_a_process_leaves_whole_files_alone(tmp_path):
    """It is killed again and again, until it was in the middle of a file."""
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        command = [sys.executable, "-c", WRITER, str(folder)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(2):
            process.stdout.readline()  # it writes another one
        while process.poll() is None and not [*folder.glob("*.partial")]:
            time.sleep(0.0005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        files = record_files(folder)
        assert [step for step, _ in files] == [*range(len(files))] and len(files) >= 2
        assert all(len(pq.read_table(path)) == 4000 for _, path in files)
        assert read_metadata(files[-1][1])["credit"] == "barl"
        if left := [*folder.glob("*.partial")]:
            with pytest.raises(pa.ArrowInvalid):  # which has no end yet
                pq.read_table(left[0])
            break
    else:
        pytest.fail("it was never killed in the middle of a file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ends": [6, 3, 9, 12]}, r"got step_ends \[6, 3, 9, 12\], which do not ascend"),
        ({"step_ends": [3, 6, 9, 99]}, "which do not ascend up to 13, in row 0"),
        ({"token_ids": [1]}, "got 1 token_ids where there must be 13 in row 0"),
        ({"posterior": [[1.0]]}, "got 1 posterior where there must be 5 in row 0"),
        ({"answer_logps": [[0.0]] * 5}, "answer_logps of another number of hypotheses in row 0"),
        ({"member": 9}, r"got member 9 of \d hypotheses in row 0"),
        ({"answer_logps": None}, "one without answer_logps or posterior, in row 0"),
        ({"posterior": None}, "one without answer_logps or posterior, in row 0"),
        ({"own_tokens": [1]}, "got 1 own_tokens where there must be 13 in row 0"),
        ({"turn_ends": [13], "observed_tools": []}, "got 0 observed_tools where there must be 1"),
        ({"outcomes_under": [0.0]}, "got 1 outcomes_under where there must be 3 in row 0"),
        ({"predicted_rewards": [[0.0] * 3]}, "got 1 predicted_rewards where there must be 4 in"),
        ({"predicted_rewards": [[0.0]] * 4}, "predicted_rewards of another number of hypotheses"),
    ],
)
def test_a_malformed_record_is_named(tmp_path, change, message):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0) | change], {})
    with pytest.raises(ValueError, match=message) as error:
        read_file(path)
    assert str(error.value).startswith(f"{path} must have whole records, got ")


@pytest.mark.parametrize("settings", [None, [1], "barl"])
def test_settings_that_are_no_object_are_named(tmp_path, settings):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0)], {"settings": settings})
    with pytest.raises(
        ValueError, match=r"must have settings by name in its metadata, got "
    ) as error:
        read_metadata(path)
    assert str(path) in str(error.value)


# Documentation


def section():
    page = (ROOT / "docs" / "inspector.md").read_text()
    return page.split("\n## The files\n")[1].split("\n## ")[0]


def test_the_page_says_what_each_column_of_the_schema_means():
    rows = re.findall(r"^\| (`\w+`.*?) \|", section(), re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == SCHEMA.names


def test_the_pages_reader_reads(tmp_path, monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", section(), re.DOTALL)
    wrong, alone = FULL | {"outcome": 0.0}, record(hypotheses=None)
    folder = tmp_path / "outputs" / "mine" / "beliefs"
    for n, (records, credit) in enumerate((([FULL, wrong, alone], "barl"), ([wrong], "progress"))):
        write_records(folder / file_name(n), records, {"settings": {"credit": credit}})
    (tmp_path / "reader.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("reader.py")
    printed = ["0 barl", "1 progress", "right 1 0.25", "wrong 2 0.25"]
    assert capsys.readouterr().out.splitlines() == printed


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0)], {})
    column = pq.ParquetFile(path).metadata.row_group(0).column(SCHEMA.get_field_index("token_ids"))
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path} must be a file of rollout records, got .*CRC"):
        read_file(path)


def test_files_of_others_and_of_other_versions_are_named(tmp_path):
    path = tmp_path / file_name(0)
    write_records(path, [make_record(0)], {"version": VERSION + 1})
    with pytest.raises(ValueError, match=f"must have records of version {VERSION} at most, got"):
        [*read_records(tmp_path)]
    write_records(path, [make_record(0)], {})
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["posterior", "step"]), path)
    with pytest.raises(ValueError, match=f"{path} must have the columns step, posterior, got"):
        read_file(path)
    for metadata in ({b"barl_trl": b'{"version": "1"}'}, None):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(ValueError, match=f"{path} must be a file of rollout records, got .* w"):
            read_file(path)


@pytest.mark.parametrize(("version", "lacking"), [(1, 8), (2, 4)])
def test_a_file_of_an_older_version_is_read_without_what_it_lacks(tmp_path, version, lacking):
    path, added = tmp_path / file_name(0), SCHEMA.names[-lacking:]
    table = pa.Table.from_pylist([FULL], SCHEMA).drop_columns(added)
    rollout_records.write_records(path, [table], {"version": version})
    assert read_file(path) == ({"version": version}, [FULL | dict.fromkeys(added)])
    assert [*read_records(tmp_path, columns=[added[0]])] == [{added[0]: None}]


def test_no_record_says_where_a_model_lies_on_this_machine(tmp_path):
    path = tmp_path / file_name(0)
    for model, shown in (("/home/me/runs/tiny", "tiny"), ("org/tiny", "org/tiny")):
        write_records(path, [make_record(0)], {"model": model})
        assert b"/home/me" not in path.read_bytes()
        assert read_file(path)[0]["model"] == shown
