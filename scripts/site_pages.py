"""Gathers the pages of the site from the repository: those of the navigation, and what they link.

Pages keep their places, so that links which work on a code host work on the site. Only links to a
module lead to the reference instead. `make docs` builds the site from what is gathered.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbconvert import MarkdownExporter
from site_docstrings import page_has
from site_names import refuse_faults

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "barl_trl"
OUTPUT = ROOT / "build" / "pages"
EXAMPLE = ROOT / "build" / "example-run" / "inspect" / "index.html"
KATEX = PACKAGE / "inspector" / "assets" / "vendor" / "katex.min.js"
ASSETS = Path("docs", "assets")
MADE = {Path("docs", "inspector-example.html"): EXAMPLE, ASSETS / "katex.min.js": KATEX}
MADE |= {path.relative_to(ROOT): path for path in (ROOT / ASSETS).iterdir()}
"""Files that only the site has, by their place in it."""
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)(?=[)#])")
HELP = re.compile(r"^<!-- (barl.* --help) -->$", re.MULTILINE)


def navigation(entries: list[Any] | None = None) -> Iterator[str]:
    """Yield the pages of a navigation, in its order; without one, that of the site."""
    if entries is None:
        entries = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"][
            "nav"
        ]
    for entry in entries:
        for target in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [target] if isinstance(target, str) else navigation(target)


def help_text(found: re.Match) -> str:
    """Return what a command's help prints, as a block of code."""
    command = [sys.executable, "-m", "barl_trl", *found[1].split()[1:]]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return f"```text\n{printed.rstrip()}\n```"


def linked_place(page: Path, link: str) -> tuple[Path | None, str]:
    """Return the file that a link of a page leads to, and the link as the site has it."""
    target = (page.parent / link).resolve()
    if (OUTPUT / target.relative_to(ROOT)).is_file():
        return None, link
    up = "../" * (len(page.relative_to(ROOT).parts) - 1)
    if target.is_relative_to(PACKAGE) and target.suffix == ".py":
        module = ".".join(target.relative_to(PACKAGE.parent).with_suffix("").parts)
        if page_has(module):
            return None, f"{up}docs/reference.md#{module}"
    if not target.is_file():
        raise SystemExit(f"{page.relative_to(ROOT)} must link files, got {link}: mend the link.")
    return target, link.replace(".ipynb", ".md")


def gather(pages: list[str]) -> None:
    """Copy pages, and all files that they link, into `OUTPUT`."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    for place, made in MADE.items():
        (OUTPUT / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, OUTPUT / place)
    found = [ROOT / page for page in pages]
    for path in found:  # it grows
        copy = OUTPUT / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix not in (".md", ".ipynb"):
            shutil.copyfile(path, copy)
            continue
        if path.suffix == ".md":
            text = path.read_text(encoding="utf-8")
        else:
            text, resources = MarkdownExporter().from_filename(str(path))
            for name, image in resources["outputs"].items():
                (copy.parent / name).write_bytes(image)

        def place(link: re.Match, page: Path = path) -> str:
            target, written = linked_place(page, link[1])
            if target is not None and target not in found:
                found.append(target)
            return written

        parts = FENCED.split(text)
        parts[::2] = [LINK.sub(place, prose) for prose in parts[::2]]  # code has no links
        text = HELP.sub(help_text, "".join(parts))
        copy.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refuse_faults()
    gather(list(navigation()))
