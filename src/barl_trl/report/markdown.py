"""Names and values of others in Markdown, written so that nothing in them is markup."""

import re
from collections.abc import Iterable, Sequence

# what starts a span, tag, link, entity, formula or cell; `_` inside a name starts none
_MARKUP = re.compile(r"[\\`*<|$]|(?<!\w)_|_(?!\w)|~(?=~)|\](?=[(\[:])|&(?=#?\w+;)")


def escape(text: object) -> str:
    r"""Return a text on one line that Markdown shows as it is, also in the cell of a table.

    Example:
        >>> escape("a|b <i>*my_model*")
        'a\\|b \\<i>\\*my_model\\*'
    """
    return _MARKUP.sub(lambda match: "\\" + match[0], " ".join(str(text).split()))


def code(text: str, *, in_table: bool = False) -> str:
    r"""Return a text as a span of code, fenced by more backticks than it has in a row.

    Example:
        >>> code("a|b"), code("a|b", in_table=True), code("`x`")
        ('`a|b`', '`a\\|b`', '`` `x` ``')
    """
    text = " ".join(text.splitlines())
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    if text.startswith("`") or text.endswith("`") or not text:
        text = f" {text} "
    return f"{fence}{text.replace('|', chr(92) + '|') if in_table else text}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return a table; its cells are escaped.

    Example:
        >>> table(["arm", "n"], [["a|b", 1]])
        '| arm | n |\n| --- | --- |\n| a\\|b | 1 |'
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(escape, cells))} |" for cells in lines)
