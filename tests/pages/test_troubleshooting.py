"""The messages that the page on troubleshooting quotes are those of the source."""

import ast
import re

import pytest
from barl_trl.commands.evaluate.arguments import _RULES as EVALUATE_RULES
from barl_trl.commands.train.arguments import _RULES as TRAIN_RULES
from barl_trl.trainer.checks.settings import BARL_RULES, CREDIT_RULES, TASK_RULES, TRL_RULES

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
    for rule in (*BARL_RULES, *CREDIT_RULES, *TASK_RULES, *TRAIN_RULES, *EVALUATE_RULES)
]


def test_messages_are_quoted():
    assert len(QUOTED) > 20


def pattern(message):
    parts = [part.strip() for part in message.split("…")]
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_in_the_source(message):
    assert any(pattern(message).search(text) for text in SOURCE)


def messages(tree):
    """The texts of a module's errors, of its symptoms, and of the warnings that it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from [*texts(node.exc)][:1]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_Symptom":
            yield from texts(node.args[-1])
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield from [text for text in texts(node.value) if " " in text]


@pytest.mark.parametrize(
    "module",
    [
        "commands/demo/__init__",
        "evaluation/generation/agents",
        "trainer/checks/agents",
        "trainer/checks/callables",
        "trainer/logging/health",
        "trainer/logging/turn_log",
        "trainer/rollouts/agents",
        "trainer/rollouts/evidence",
    ],
)
def test_every_message_of_agents_beliefs_and_the_demo_is_quoted(module):
    said = [*messages(ast.parse((ROOT / f"src/barl_trl/{module}.py").read_text()))]
    assert said
    for text in said:
        assert any(pattern(message).search(text) for message in QUOTED), text


def test_every_symptom_is_reached_from_the_table():
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert headings == re.findall(r"^\| .* \| \[(.+?)\]\(#", PAGE, re.MULTILINE)
