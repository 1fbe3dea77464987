"""Records of rollouts: what is written is read, and files of others are refused."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barl_trl.report.rollout_records import (
    SCHEMA,
    VERSION,
    file_name,
    read_metadata,
    read_records,
    write_records,
)

RECORD = {
    "step": 3,
    "group": 0,
    "rollout": 1,
    "prompt_id": "0123456789ab",
    "prompt": "1 + 1 =",
    "token_ids": [5, 6],
    "tokens": [" 2", "\u2028"],
    "step_ends": [2],
    "rewards": [1.0],
    "hypotheses": ["2", "3"],
    "posterior": [[0.5, 0.5], [0.75, 0.25]],
}


def test_records_are_read_in_the_order_of_steps(tmp_path):
    for step in (12, 3):
        write_records(tmp_path / file_name(step), [RECORD | {"step": step}], {"credit": "barl"})
    first, second = read_records(tmp_path)
    assert first == dict.fromkeys(SCHEMA.names) | RECORD
    assert second["step"] == 12
    assert read_metadata(tmp_path / file_name(3)) == {"version": VERSION, "credit": "barl"}
    assert [*read_records(tmp_path, columns=["step"])] == [{"step": 3}, {"step": 12}]
    assert {path.name for path in tmp_path.iterdir()} == {file_name(3), file_name(12)}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({}, "has no metadata"), ({b"barl_trl": json.dumps({"version": 99}).encode()}, "got 99 in")],
)
def test_files_of_others_are_refused(tmp_path, metadata, message):
    path = tmp_path / file_name(0)
    pq.write_table(pa.table({"step": [1]}).replace_schema_metadata(metadata), path)
    with pytest.raises(ValueError, match=message):
        next(read_records(tmp_path))
