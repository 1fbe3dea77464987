"""The site: what its reference lacks is found, and so is a link that leads nowhere."""

import re
import subprocess
import sys

import nbformat
import pytest
import site_names
import site_pages

from .paths import ROOT

PLANTED = '''
def untyped(number, *, other: int):
    """Return nothing."""

def misnamed(number: int) -> None:
    """Return nothing.

    Args:
        numbr: Any.
    """
'''


def test_every_public_name_is_documented():
    site_names.refuse_faults()
    names = site_names.public_names()
    assert {("barl_trl", "q_values"), ("barl_trl.credit", "find_credit")} < names


def test_faults_of_the_reference_are_found(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text(PLANTED)
    shown = ["planted.untyped", "planted.misnamed"]
    monkeypatch.setattr(site_names, "documented", lambda: shown)
    package, messages = site_names.read("planted", tmp_path)
    found = site_names.faults(site_names.shown_members(package))
    assert found == ["planted.untyped: number must have a type."]
    assert any("'numbr' does not appear in the function signature" in text for text in messages)


def test_a_public_name_without_a_page_is_found():
    package, _ = site_names.read("barl_trl", ROOT / "src")
    names = [("barl_trl", "BARLTrainer"), ("barl_trl.graders.released", "verify")]
    assert len(site_names.without_page(package, names)) == 1


def test_every_page_is_in_the_navigation():
    pages = set(site_pages.navigation())
    there = {f"docs/{page.relative_to(ROOT / 'docs')}" for page in (ROOT / "docs").rglob("*.md")}
    assert there | {"README.md", "benchmarks/RESULTS.md"} <= pages


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a page, a module and a file that no page of the site shows."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "code.py").write_text("x = 1\n")
    for name in ("ROOT", "OUTPUT"):
        monkeypatch.setattr(site_pages, name, tmp_path / ("out" if name == "OUTPUT" else ""))
    monkeypatch.setattr(site_pages, "MADE", {})
    return tmp_path


def test_linked_files_and_notebooks_come_along(repository):
    image = nbformat.v4.new_output("display_data", {"image/png": "QUJD"})
    cells = [nbformat.v4.new_markdown_cell("# Title\n\n[code](code.py)")]
    cells.append(nbformat.v4.new_code_cell("print(1)", outputs=[image]))
    links = "[a](docs/a.md#part) [n](n.ipynb) [p](https://arxiv.org)\n"
    (repository / "README.md").write_text(links)
    (repository / "docs" / "a.md").write_text("# A\n\n[code](../code.py)\n")
    nbformat.write(nbformat.v4.new_notebook(cells=cells), repository / "n.ipynb")
    site_pages.gather(["README.md"])
    out = repository / "out"
    assert (out / "README.md").read_text().split()[1] == "[n](n.md)"
    assert (out / "code.py").read_text() == "x = 1\n"
    assert (out / "docs" / "a.md").read_text() == "# A\n\n[code](../code.py)\n"
    page = (out / "n.md").read_text()
    assert page.startswith("# Title\n\n[code](code.py)\n") and "\nprint(1)\n" in page
    [shown] = re.findall(r"!\[.*\]\((.*)\)", page)
    assert (out / shown).read_bytes() == b"ABC"


def test_links_to_documented_modules_lead_to_the_reference():
    place = site_pages.linked_place(ROOT / "docs" / "method.md", "../src/barl_trl/posterior.py")
    assert place == (None, "../docs/reference.md#barl_trl.posterior")


def test_a_link_to_nothing_ends_the_build(repository):
    (repository / "README.md").write_text("[a](docs/a.md)\n")
    with pytest.raises(SystemExit):
        site_pages.gather(["README.md"])


def test_help_is_shown_as_it_is_printed(repository):
    (repository / "README.md").write_text("<!-- barl recipes --help -->\n")
    site_pages.gather(["README.md"])
    command = [sys.executable, "-m", "barl_trl", "recipes", "--help"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (repository / "out" / "README.md").read_text() == f"```text\n{printed.rstrip()}\n```\n"
