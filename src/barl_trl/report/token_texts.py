"""Texts of single tokens, which joined in their order are the text of the completion."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from .record_columns import lists

_LOST = "\N{REPLACEMENT CHARACTER}"
"""The character to which a tokenizer decodes a part of a character."""

_MOST_PARTS = 16
"""Most tokens that are joined in search of one character, which has at most 4 bytes."""


class TokenTexts:
    """The texts of a tokenizer's tokens. Each id is decoded once, so that millions cost little.

    An id is decoded behind another token, because some tokenizers drop the space in front of a
    token that stands alone. If several tokens make up one character, the last of them gets it, and
    the others get an empty text. Texts of special tokens are kept.

    Args:
        tokenizer: A tokenizer of transformers.
    """

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self._anchor = tokenizer.encode("a", add_special_tokens=False)[-1:]
        self._anchor_text = self._decode([self._anchor])[0]
        self._texts: list[str] = []
        self._codes = np.empty(0, dtype=np.int32)  # id -> its place in the texts, or -1
        self._text_of_parts = lru_cache(1 << 16)(lambda ids: self._behind_anchor([ids])[0])

    def column(self, rows: Sequence[Sequence[int]]) -> Any:
        """Return the texts of the tokens of each row, as a column of lists.

        Args:
            rows: Token ids of each completion.
        """
        sizes = [*map(len, rows)]
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=sum(sizes))
        self._learn(ids)
        codes, extra = self._codes[ids], list[str]()
        starts = np.cumsum([0, *sizes[:-1]], dtype=np.int64)[np.asarray(sizes, dtype=bool)]

        def replace(place: int, text: str) -> None:
            codes[place] = len(self._texts) + len(extra)
            extra.append(text)

        for first in np.unique(ids[starts]).tolist():  # a completion begins without a token before
            [text] = self._decode([[first]])
            if text != self._texts[self._codes[first]] and _LOST not in text:
                for place in starts[ids[starts] == first]:
                    replace(place, text)
        is_part = np.array([_LOST in text for text in self._texts], dtype=bool)
        [parts] = np.nonzero(np.append(is_part, [False] * len(extra))[codes])
        is_start = (np.diff(parts, prepend=-2) > 1) | np.isin(parts, starts)
        for run in np.split(parts, np.nonzero(is_start)[0]):
            for place, text in zip(run, self._characters(ids[run].tolist()), strict=True):
                replace(place, text)
        return lists(pa.array(self._texts + extra, pa.string()).take(pa.array(codes)), sizes)

    def _learn(self, ids: Any) -> None:
        """Decode those of the ids that were not decoded before."""
        size = int(ids.max(initial=-1)) + 1
        if size > len(self._codes):
            more = np.full(size - len(self._codes), -1, dtype=np.int32)
            self._codes = np.concatenate([self._codes, more])
        is_new = np.zeros(len(self._codes), dtype=bool)
        is_new[ids] = True
        [new] = np.nonzero(is_new & (self._codes < 0))
        self._codes[new] = np.arange(len(self._texts), len(self._texts) + len(new))
        self._texts += self._behind_anchor([[token] for token in new.tolist()])

    def _characters(self, ids: Sequence[int]) -> list[str]:
        """Return the texts of neighbouring tokens that are parts of characters."""
        texts, start = [], 0
        for stop in range(1, len(ids) + 1):
            text = self._text_of_parts(tuple(ids[start:stop]))
            is_whole = not text.endswith(_LOST) or stop - start == _MOST_PARTS or stop == len(ids)
            texts.append(text if is_whole else "")
            start = stop if is_whole else start
        return texts

    def _behind_anchor(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Return the text that each row of ids adds when it follows the anchor token."""
        texts = self._decode([[*self._anchor, *row] for row in rows])
        return [text[len(self._anchor_text) :] for text in texts]

    def _decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return self._tokenizer.batch_decode(rows, clean_up_tokenization_spaces=False)
