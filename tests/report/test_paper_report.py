import json
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pytest

from barl_trl.report.paper_report import ASSETS, write_report


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
    html, markdown = (page.read_text() for page in write_report(report))
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
    html, _ = write_report(report)
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
