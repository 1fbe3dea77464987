"""Reports in both formats."""

import json
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pytest
from jinja2 import UndefinedError

from barl_trl.report.pages import ASSETS, write_pages, write_paper_report

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


# The report of the paper's experiments


@pytest.fixture
def report(tmp_path):
    figure = plt.figure(figsize=(1, 1))
    figure.savefig(tmp_path / "curves.png")
    plt.close(figure)
    content = {
        "title": "Four arms <small>",
        "summary": "What was done.",
        "seeds": [0, 1],
        "benchmarks": ["search"],
        "benchmarks_note": "400 problems.",
        "comparison": "They do not compare.",
        "table": [
            {"arm": "base", "search": [58.25], "average": [58.25]},
            {"arm": "barl", "search": [84.0, 1.5], "average": [84.0, 1.5]},
        ],
        "figures": [{"title": "Curves", "caption": "Over steps.", "file": "curves.png"}],
        "not_run": ["the paper's models"],
        "settings": {"machine": "2 cores"},
    }
    (tmp_path / "report.json").write_text(json.dumps(content))
    return tmp_path / "report.json"


def test_both_pages_hold_our_numbers_and_the_papers(report):
    html, markdown = (page.read_text() for page in write_paper_report(report))
    assert "| barl | 84.0 ± 1.5 | 84.0 ± 1.5 |" in markdown
    assert "<tr><td>barl</td><td>84.0 ± 1.5</td><td>84.0 ± 1.5</td></tr>" in html
    # the paper's table 1, last line of Qwen2.5-Math-7B
    barl = (
        "91.7 ± 0.2 | 79.2 ± 0.3 | 47.5 ± 0.2 | 42.0 ± 0.4 | 29.0 ± 0.4 | 66.7 ± 1.4 | 59.4 ± 0.3"
    )
    assert f"| Qwen2.5-Math-7B | barl | {barl} |" in markdown
    for page in (html, markdown):
        assert "They do not compare." in page
        assert page.index("84.0 ± 1.5") < page.index("Not ours") < page.index("59.4 ± 0.3")
        assert "the paper's models" in page.replace("&#39;", "'")


def test_the_html_page_stands_alone_and_is_well_formed(report):
    html, _ = write_paper_report(report)
    sources, depth = [], 0

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            nonlocal depth
            depth += tag in ("table", "tr", "td", "th", "p", "h2")
            sources.extend(value for name, value in attrs if name == "src")

        def handle_endtag(self, tag):
            nonlocal depth
            depth -= tag in ("table", "tr", "td", "th", "p", "h2")

    Reader().feed(html.read_text())
    assert depth == 0
    assert [source[:22] for source in sources] == ["data:image/png;base64,"]
    assert "<title>Four arms &lt;small&gt;</title>" in html.read_text()


def test_the_papers_averages_are_those_of_its_columns():
    for row in json.loads((ASSETS / "paper_results.json").read_text()):
        names = row.keys() - {"model", "arm", "average"}
        mean = sum(row[name][0] for name in names) / len(names)
        assert mean == pytest.approx(row["average"][0], abs=0.06), row
