"""Columns of lists from padded arrays, against lists that are cut by hand."""

import numpy as np
import pyarrow as pa
from barl_trl.report.record_columns import matrices, ragged, ragged_of
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=6)


@given(SIZES)
def test_rows_are_cut_to_their_lengths(sizes):
    values = np.arange(len(sizes) * 5, dtype=np.float32).reshape(-1, 5)
    lengths, exists = [n for n, _, _ in sizes], [known for *_, known in sizes]
    expected = [
        row[:n].tolist() if known else None
        for row, n, known in zip(values, lengths, exists, strict=True)
    ]
    assert ragged(values, lengths, exists=exists).to_pylist() == expected
    assert ragged(values, lengths).to_pylist() == [
        row[:n].tolist() for row, n in zip(values, lengths, strict=True)
    ]


@given(SIZES)
def test_matrices_are_cut_to_their_rows_and_columns(sizes):
    values = np.arange(len(sizes) * 12, dtype=np.float32).reshape(-1, 4, 3)
    rows = np.array([[k < n for k in range(4)] for n, _, _ in sizes]).reshape(-1, 4)
    columns = np.array([[k < n for k in range(3)] for _, n, _ in sizes]).reshape(-1, 3)
    exists = [known for *_, known in sizes]
    expected = [
        [row[:width].tolist() for row in matrix[:height]] if known else None
        for matrix, (height, width, known) in zip(values, sizes, strict=True)
    ]
    assert matrices(values, rows, columns, exists=exists).to_pylist() == expected


def test_one_number_holds_for_all_of_a_row():
    column = ragged(np.array([[0.5], [2.0], [3.0]]), [2, 0, 1])
    assert column.to_pylist() == [[0.5, 0.5], [], [3.0]]


def test_rows_of_python_values():
    assert ragged_of([[1, 2], [], [3]], pa.int32()).to_pylist() == [[1, 2], [], [3]]
    assert ragged_of([], pa.int32()).type == pa.list_(pa.int32())
