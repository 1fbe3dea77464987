"""A report of sections with tables, in both formats."""

import json
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from barl_trl.report.pages import write_pages

COLUMNS = ["credit", "bias", "difference"]
ROWS = [["grpo", "1.00 ± 0.02", ""], ["barl, sum", "0.98 ± 0.01", "-2.0 [-3.1, -0.9]"]]
FIRST = {"caption": "At: shipped", "columns": COLUMNS, "rows": ROWS}
SECOND = {"caption": "At: barl after 20", "columns": COLUMNS[:2], "rows": [["grpo", "0.97"]]}
REPORT = {
    "title": "What the weights do <small>",
    "summary": "Null results & negative ones are results.",
    "sections": [
        {"title": "A. Gradients", "text": "Of 16 batches.", "tables": [FIRST, SECOND]},
        {"title": "B. Trainings", "text": "Of 8 seeds.", "tables": [SECOND]},
        {"title": "C. Nothing", "text": "Not run.", "tables": []},
    ],
}
TEXTS = ["Null results", "A. Gradients", "Of 16 batches.", "At: shipped", "At: barl after 20"]
TEXTS += ["B. Trainings", "Of 8 seeds.", "At: barl after 20", "C. Nothing", "Not run."]


@pytest.fixture
def pages(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    found = write_pages(tmp_path / "report.json")
    assert found == (tmp_path / "report.html", tmp_path / "report.md")
    return [page.read_text() for page in found]


class Tables(HTMLParser):
    """The cells of a page's tables, and what is open at its end."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.captions, self.open, self.links = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "html"):
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert tag == "html" or self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["caption"]:
            self.captions.append(data)
        if self.open[-1:] in (["td"], ["th"]):
            self.tables[-1][-1][-1] += data


def test_the_html_page_stands_alone_and_has_every_table(pages):
    html, _ = pages
    found = Tables(html)
    assert found.open == []
    assert found.links == []
    second = [SECOND["columns"], *SECOND["rows"]]
    assert found.tables == [[COLUMNS, *ROWS], second, second]
    assert found.captions == ["At: shipped", "At: barl after 20", "At: barl after 20"]
    assert "<title>What the weights do &lt;small&gt;</title>" in html
    assert "Null results &amp; negative ones" in html


def test_the_markdown_page_has_every_table(pages):
    _, markdown = pages
    lines = markdown.splitlines()
    assert lines[0] == "# What the weights do <small>"
    assert "Null results & negative ones are results." in lines
    tables = [
        [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines()]
        for block in markdown.split("\n\n")
        if block.startswith("|")
    ]
    second = [SECOND["columns"], ["---"] * 2, *SECOND["rows"]]
    assert tables == [[COLUMNS, ["---"] * 3, *ROWS], second, second]
    assert "**At: shipped**\n\n| credit" in markdown  # a table begins behind an empty line


def test_sections_stand_in_their_order(pages):
    for page in pages:
        place = -1
        for text in TEXTS:
            place = page.index(text, place + 1)


def test_a_section_without_its_text_is_refused(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT | {"sections": [{"title": "A", "tables": []}]}))
    with pytest.raises(UndefinedError, match="has no attribute 'text'"):
        write_pages(path)
