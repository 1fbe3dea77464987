"""A report of sections with tables: a page in HTML that stands alone, and in Markdown."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .json_files import read_json
from .markdown import escape

ASSETS = Path(__file__).parents[1] / "assets"


def write_pages(report_file: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `report.md` beside a `report.json`.

    Args:
        report_file: A JSON object with `title`, `summary` and `sections`, each of `title`, `text`
            and `tables` (`caption`, `columns`, `rows` of texts).

    Returns:
        The two files.
    """
    report = read_json(report_file)
    return render("sections", report, Path(report_file).parent)


def render(
    template: str, report: Mapping[str, Any], folder: Path, **filters: Callable[..., str]
) -> tuple[Path, Path]:
    """Write `report.html` and `report.md` into a folder.

    Args:
        template: Name of the two templates in the assets, without `.html.j2` and `.md.j2`.
        report: What they show.
        folder: The folder.
        **filters: The filters that they use.

    Returns:
        The two files.
    """
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=lambda name: "html" in (name or ""),
        undefined=StrictUndefined,
    )
    environment.filters |= filters | {"escape_md": escape}
    pages = folder / "report.html", folder / "report.md"
    for page in pages:
        page.write_text(
            environment.get_template(f"{template}{page.suffix}.j2").render(report), encoding="utf-8"
        )
    return pages
