"""Conversion of padded arrays to Arrow columns, without a Python object for each number."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa


def ragged(values: Any, lengths: Sequence[int], *, exists: Sequence[bool] | None = None) -> Any:
    """Return rows of padded numbers as a column of lists.

    Args:
        values: The numbers, (rows, longest). With shape (rows, 1), each row repeats its number.
        lengths: Number of values of each row, without padding.
        exists: Whether each row is not null. None: no row is null.
    """
    padded = np.asarray(values)
    sizes = np.asarray(lengths, dtype=np.int64)
    if exists is not None:
        sizes = sizes * np.asarray(exists, dtype=bool)
    if padded.shape[1] == 1:
        padded = np.broadcast_to(padded, (len(padded), max(sizes, default=0)))
    is_value = np.arange(padded.shape[1]) < sizes[:, None]
    return lists(padded[is_value], sizes, exists)


def ragged_of(rows: Sequence[Sequence[Any]], kind: pa.DataType) -> Any:
    """Return rows of Python values as a column of lists."""
    return lists(pa.array([*chain.from_iterable(rows)], kind), [*map(len, rows)])


def matrices(
    values: Any, row_mask: Any, column_mask: Any, *, exists: Sequence[bool] | None = None
) -> Any:
    """Return padded matrices as a column of lists of rows.

    Args:
        values: The numbers, (matrices, rows, columns).
        row_mask: Whether each row of each matrix exists, (matrices, rows).
        column_mask: Whether each column of each matrix exists, (matrices, columns).
        exists: Whether each matrix is not null. None: no matrix is null.
    """
    row_mask, column_mask = (np.asarray(mask, dtype=bool) for mask in (row_mask, column_mask))
    if exists is not None:
        row_mask = row_mask & np.asarray(exists, dtype=bool)[:, None]
    heights, widths = row_mask.sum(axis=1), column_mask.sum(axis=1)
    flat = np.asarray(values)[row_mask[:, :, None] & column_mask[:, None]]
    return lists(lists(flat, np.repeat(widths, heights)), heights, exists)


def lists(values: Any, sizes: Any, exists: Sequence[bool] | None = None) -> Any:
    """Cut values into a column of lists.

    Args:
        values: The values of all lists, one after another.
        sizes: Number of values of each list, 0 where it is null.
        exists: Whether each list is not null. None: no list is null.
    """
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    mask = None if exists is None else pa.array(~np.asarray(exists, dtype=bool))
    items = values if isinstance(values, pa.Array) else pa.array(values)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)
