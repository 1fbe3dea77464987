"""The report of `barl reproduce paper`: a self-contained HTML page, and a Markdown page."""

import base64
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .json_files import read_json
from .markdown import escape

ASSETS = Path(__file__).parents[1] / "assets"


def write_report(report_file: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `report.md` beside a `report.json`.

    Args:
        report_file: A JSON object with `title`, `summary`, `seeds`, `benchmarks` (names),
            `benchmarks_note`, `comparison` (with the paper's numbers), `table` (rows with `arm`,
            each benchmark's and the `average` accuracy as `[mean, standard error]` in %, without
            the error for a single run), `figures` (`title`, `caption`, `file` relative to the
            report), `not_run` (lines) and `settings` (name -> value).

    Returns:
        The paths of `report.html` and `report.md`.
    """
    folder = Path(report_file).parent
    report = read_json(report_file)
    for figure in report["figures"]:
        figure["data"] = base64.b64encode((folder / figure["file"]).read_bytes()).decode()
    paper = read_json(ASSETS / "paper_results.json")
    report |= {
        "paper": paper,
        "paper_benchmarks": [name for name in paper[0] if name not in ("model", "arm", "average")],
    }
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=lambda name: "html" in (name or ""),
        undefined=StrictUndefined,
    )
    environment.filters |= {"percent": _percent, "escape_md": escape}
    pages = folder / "report.html", folder / "report.md"
    for page in pages:
        text = environment.get_template(f"{page.name}.j2").render(report)
        page.write_text(text, encoding="utf-8")
    return pages


def _percent(value: Sequence[float]) -> str:
    """Format a mean with its standard error, if there is one.

    Example:
        >>> _percent([84.0, 1.25]), _percent([84.0])
        ('84.0 ± 1.2', '84.0')
    """
    return " ± ".join(f"{number:.1f}" for number in value)
