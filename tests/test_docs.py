"""What README and docs say is there: links, and the script that tests/test_package.py runs."""

import re
from urllib.parse import unquote

import pytest

from .paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / "benchmarks" / "RESULTS.md", *sorted((ROOT / "src").rglob("README.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page):
    """The names of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for path, anchor in LINK.findall(FENCED.sub("", page.read_text())):
        target = (page.parent / unquote(path)).resolve() if path else page
        if target == ROOT / "docs" / "inspector-example.html":  # `make docs` makes it
            continue
        assert target.exists(), f"{page.name}: {path}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path}#{anchor}"


def test_the_readme_is_short_and_links_every_page():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in readme, page.name


def test_the_readme_shows_the_quickstart():
    script = (ROOT / "examples" / "quickstart.py").read_text().partition("\n\n")[2].strip()
    assert f"```python\n{script}\n```" in (ROOT / "README.md").read_text()


def test_the_readmes_table_has_figures_of_the_pages_that_it_names():
    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| .* \| (.*) \| \[.*\]\((docs/.*)\) \|$", readme, re.MULTILINE)
    figures = [(page, one) for said, page in rows for one in re.findall(r"\d+(?:\.\d+)?", said)]
    assert len(figures) >= 5
    assert [one for page, one in figures if one not in (ROOT / page).read_text()] == []
