"""Rows of a data set as they stand, and the names of their columns."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ._text_files import TEXT_SUFFIXES, read_text_file

if TYPE_CHECKING:
    from datasets import Dataset

_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")


def find_column(
    columns: Sequence[str], option: str, wanted: str | None, candidates: Sequence[str]
) -> str:
    lowered = {column.lower(): column for column in columns}
    names = candidates if wanted is None else [wanted]
    for name in names:
        if name in columns:
            return name
        if name.lower() in lowered:
            return lowered[name.lower()]
    nearest = [
        lowered[match]
        for name in names
        for match in difflib.get_close_matches(name.lower(), lowered, n=1)
    ]
    hint = f"did you mean {nearest[0]!r}?" if nearest else "name the column that holds it"
    raise ValueError(
        f"{option} must be a column of the data set, got {wanted or ' | '.join(candidates)!r} "
        f"with columns {', '.join(columns)}: {hint}"
    )


def read_rows(path_or_id: str, split: str, config: str | None) -> "Dataset":
    from datasets import load_dataset
    from datasets.exceptions import DatasetGenerationError
    from pyarrow import ArrowInvalid

    path = Path(path_or_id)
    if path.is_file():
        if path.suffix not in _SUFFIXES:
            raise ValueError(
                f"path_or_id must end in {', '.join(_SUFFIXES)}, got {path_or_id}: "
                "convert the file to JSON lines"
            )
        if path.suffix in TEXT_SUFFIXES:
            return read_text_file(path, split)
    elif path.suffix in _SUFFIXES:
        raise FileNotFoundError(
            f"path_or_id must name an existing file, got {path_or_id}: "
            f"there is none in {path.absolute().parent}"
        )
    try:
        if path.is_file():
            return load_dataset("parquet", data_files=str(path), split=split)
        return load_dataset(path_or_id, config, split=split)
    except (DatasetGenerationError, ArrowInvalid) as error:
        raise ValueError(
            f"path_or_id must name readable data, got {path_or_id} ({error.__cause__ or error}): "
            "for mixed types name the JSONL or CSV file itself"
        ) from error
