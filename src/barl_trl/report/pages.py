"""A report of sections with tables: a page in HTML that stands alone, and in Markdown."""

import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

ASSETS = Path(__file__).parents[1] / "assets"


def write_pages(report_file: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `report.md` beside a `report.json`.

    Args:
        report_file: A JSON object with `title`, `summary` and `sections`, each of `title`, `text`
            and `tables` (`caption`, `columns`, `rows` of texts).

    Returns:
        The two files.
    """
    folder = Path(report_file).parent
    report = json.loads(Path(report_file).read_text())
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=lambda name: "html" in (name or ""),
        undefined=StrictUndefined,
    )
    pages = folder / "report.html", folder / "report.md"
    for page in pages:
        template = environment.get_template(f"sections{page.suffix}.j2")
        page.write_text(template.render(report))
    return pages
