"""The messages that the page on troubleshooting quotes are those of the source."""

import ast
import re

import pytest

from barl_trl.commands.train.arguments import _RULES
from barl_trl.trainer.checks.settings import BARL_RULES, CREDIT_RULES, TRL_RULES

from ..paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTED = re.findall(r"^> (.+)$", PAGE, re.MULTILINE)
TABLES = re.findall(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
QUOTED += [row for table in TABLES for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)]
FIELD = re.compile(r"%[sd]|%%|\{[^{}]*\}")
"""What a text leaves open: values of `%`, and of `str.format`."""


def texts(node):
    """Every text in a tree, an ellipsis for each value in it."""
    for child in ast.walk(node):
        if isinstance(child, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "…" for v in child.values]
            yield "".join(parts)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield FIELD.sub("…", child.value)


SOURCE = [
    text for path in (ROOT / "src").rglob("*.py") for text in texts(ast.parse(path.read_text()))
]
SOURCE += [f"{rule.field} must {rule.must}, got True: {rule.way_out}" for rule in TRL_RULES]
SOURCE += [
    FIELD.sub("…", f"{rule.field} must {rule.must}, got …: {rule.way_out}")
    for rule in (*BARL_RULES, *CREDIT_RULES, *_RULES)
]


def test_messages_are_quoted():
    assert len(QUOTED) > 20


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_source(message):
    parts = [part.strip() for part in message.split("…")]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    assert any(pattern.search(text) for text in SOURCE)


def test_every_symptom_is_reached_from_the_table():
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert headings == re.findall(r"^\| .* \| \[(.+?)\]\(#", PAGE, re.MULTILINE)
