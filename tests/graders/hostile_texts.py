"""Texts that a policy may write to hang, break or fool whoever reads them; and pieces of some."""

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from ..paths import read_jsonl

MILLION = 200_000  # what is quadratic takes minutes
TRUTH = "42"
HANGS = "9^{9^{9}}"  # for a comparison that no refusal stands before


def rows(cell: Callable[[int, int], str], size: int) -> str:
    return r"\\".join("&".join(cell(i, j) for j in range(size)) for i in range(size))


HERE = Path(__file__).parent
REPEATED, PIECES, MORE = json.loads((HERE / "pieces.json").read_text()).values()
"""What is repeated a million times; what the parsers and rules look for, halves of it, and what no
encoder would take; and more, which extractions look for."""
HOSTILE = {
    **{row["name"]: row["text"] for row in read_jsonl(HERE / "hostile.jsonl")},
    **{f"million {piece!r}": piece * (MILLION // len(piece)) for piece in REPEATED},
    "million decimals": "0." + "3" * MILLION,
    "million spaces": "1" + " " * MILLION + "1",
    "box without a brace": r"\boxed" + " " * MILLION,
    "nested boxes": r"\boxed{" * 1000 + "41" + "}" * 1000,
    "a million nested boxes": r"\boxed{" * (MILLION // 14) + "}" * (MILLION // 14),
    "deep braces": "{" * 50 + "1" + "}" * 50,
    "deep parentheses": "(" * 200 + "1" + ")" * 200,
    "deep brackets and bars": "[|" * 40 + "1" + "|]" * 40,
    "deep fraction": r"1+\frac{1}{" * 40 + "2" + "}" * 40,
    "deep roots": r"\sqrt{1+" * 40 + "2" + "}" * 40,
    "deep subscripts": "x_{" * 40 + "1" + "}" * 40,
    "fraction of nothing": r"\frac" * 500,
    "determinant": rf"\det\begin{{pmatrix}}{rows(lambda i, j: f'x_{i + j}', 8)}\end{{pmatrix}}",
    "huge matrix": rf"\begin{{pmatrix}}{rows(lambda i, j: '1', 100)}\end{{pmatrix}}",
    "matrix of letters": rf"\begin{{bmatrix}}{rows(lambda i, j: 'a', 15)}\end{{bmatrix}}",
    "huge set": r"\{" + ",".join(map(str, range(1000))) + r"\}",
    "huge list": ",".join(map(str, range(1, 100))),
    "set of a set": r"\{" * 10 + "1" + r"\}" * 10,
    "interval unions": r"\cup".join(f"({i},{i + 1})" for i in range(0, 400, 2)),
    "union of unions": r"(0,1)\cup" * 60 + "(0,1)",
    "chained relations": "<".join(["x"] * 120),
    "cases": r"\begin{cases}" + r"x&y\\" * 300 + r"\end{cases}",
    "control characters": "".join(map(chr, range(32))),
    "combining marks": "4" + "\u0301" * 300 + "2",
    "all planes": "".join(chr(0x10000 * plane + 0x1D7CE) for plane in range(15)),
    "percent format": "%n%s%d" * 50,
}

SHORTER = {name: text[:30_000] for name, text in HOSTILE.items()}
"""The same, where a million characters would take the same way, and seconds."""

soup = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
