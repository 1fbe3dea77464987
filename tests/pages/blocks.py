"""The fenced blocks of the pages, and what the comments in front of them say.

Every block is run by the tests, unless a comment says why not. Readers do not see the comments:

    <!-- not run: needs two GPUs -->     its commands are parsed all the same
    <!-- slow: a minute of training -->  run with the slow tests
    <!-- before: COMMANDS -->            what a reader has by then, made in a shell
    <!-- status: 1 -->                   the exit status of its last command, if it is not 0

A block with a title (```python title="my_credits.py") is written to that file, too.

Not Sybil: its parsers pass over a block that has a title, no language, or one that nobody runs.
"""

import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from ..paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
COMMENT = re.compile(r"<!-- (not run|slow|before|status):\s*(\S.*?)\s*-->", re.DOTALL)


class Block(NamedTuple):
    """A block of code: page and first line, language and title, text, comments."""

    page: Path
    line: int
    language: str
    title: str
    text: str
    comments: dict[str, str]

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    """The blocks of a page, in their order."""
    comments = {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type in ("fence", "code_block"):  # one that is merely indented has no language
            language, _, title = token.info.partition(" title=")
            line = token.map[0] + 1
            yield Block(page, line, language, title.strip('"'), token.content, comments)
        found = COMMENT.findall(token.content) if token.type == "html_block" else ()
        comments = comments | dict(found) if found else {}


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
