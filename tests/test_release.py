"""What stands beside the package says the same as the package."""

import re

import pytest
import yaml

import barl_trl
from barl_trl import BARLTrainer

from .paths import ROOT

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
AGENTS = (ROOT / "AGENTS.md").read_text()
NAMED = sorted(set(re.findall(r"[\w.-]+(?:/[\w.-]*)+|[\w-]+\.\w+", AGENTS)))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("name", NAMED)
def test_the_page_for_agents_names_paths_that_exist(name):
    assert name.startswith(".venv") or (ROOT / name).exists()


def test_the_citation_is_of_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert CITATION["version"] == barl_trl.__version__
    assert f"\n## {CITATION['version']} ({CITATION['date-released']})\n" in changes
    assert changes.index("## Unreleased (") < changes.index(f"## {CITATION['version']} (")


def test_the_paper_is_cited_alike():
    bibtex = BARLTrainer._paper["citation"]
    assert f"```bibtex\n{bibtex}\n```" in (ROOT / "README.md").read_text()
    fields = dict(re.findall(r"(\w+) *= \{?\{?(.*?)\}{0,2},", bibtex))
    paper = CITATION["preferred-citation"]
    assert fields["title"] == paper["title"] == BARLTrainer._paper["title"]
    authors = [f"{author['given-names']} {author['family-names']}" for author in paper["authors"]]
    assert fields["author"].split(" and ") == authors
    assert fields["booktitle"] == paper["collection-title"]
    assert fields["year"] == str(paper["year"])
    assert [fields["eprint"]] == [one["value"] for one in paper["identifiers"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_and_make_targets_that_exist(path):
    text = path.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", one)] == []
    assert set(re.findall(r"run: make ([a-z-]+)$", text, re.MULTILINE)) <= TARGETS
