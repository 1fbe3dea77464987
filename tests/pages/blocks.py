"""The fenced blocks of the pages, and what the comments in front of them say.

Every block is run by the tests, unless a comment says why not. Readers do not see the comments:

    <!-- not run: needs two GPUs -->     `barl` commands in it are parsed all the same
    <!-- slow: a minute of training -->  run with the slow tests
    <!-- before: COMMANDS -->            what a reader has by then, made in a shell
    <!-- status: 1 -->                   the exit status of its last command, if it is not 0

A block with a title (```python title="my_credits.py") is written to that file, too.
"""

import re
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from ..paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("README.md"))
COMMENT = re.compile(r"<!-- (not run|slow|before|status):\s*(.*?)\s*-->", re.DOTALL)


class Block(NamedTuple):
    """A fenced block: page and first line, language, text, comments, and the file that it is."""

    page: Path
    line: int
    language: str
    text: str
    comments: dict[str, str]
    title: str | None

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page):
    """The blocks of a page, in their order."""
    found, comments = [], {}
    for token in MarkdownIt().parse(page.read_text()):
        if token.type == "html_block":
            comments = comments | dict(COMMENT.findall(token.content))
        elif token.type == "fence":
            language, _, options = token.info.strip().partition(" ")
            title = re.fullmatch(r'title="(.+)"', options)
            line = token.map[0] + 1
            found.append(Block(page, line, language, token.content, comments, title and title[1]))
            comments = {}
        else:
            comments = {}
    return found


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
