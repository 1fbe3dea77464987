"""The HTML of the page: one file that holds everything, or a small one that loads shards."""

import base64
import gzip
import secrets
from collections.abc import Iterable
from pathlib import Path

ASSETS = Path(__file__).parent / "assets"
_STYLES = ("vendor/uPlot.min.css", "style.css")
_OWN_SCRIPTS = "core store list overview group text river arithmetic rollout export app"
_SCRIPTS = ("vendor/uPlot.iife.min.js", *(f"{name}.js" for name in _OWN_SCRIPTS.split()))
_LICENCES = ("vendor/uPlot.LICENSE", "vendor/katex.LICENSE")
FORMULAS = "katex"
"""Name of the shard that holds KaTeX."""
SHARDS = ("[ab]-*.js", "index.js", "pairs.js", f"{FORMULAS}.js")
"""Patterns of the file names of all shards."""
_TITLE = "<title>barl inspect</title>"


def is_page(index: Path) -> bool:
    """Return whether a file is the `index.html` of such a page."""
    return _TITLE in index.read_text(encoding="utf-8", errors="replace")[:2_000]


def folder_page() -> str:
    """Return `index.html` of a page that loads shards from `data` and scripts from `assets`."""
    nonce = secrets.token_urlsafe(16)
    styles = [f'<link rel="stylesheet" nonce="{nonce}" href="assets/{name}">' for name in _STYLES]
    scripts = [
        f'<script nonce="{nonce}" src="assets/{name}"></script>'
        for name in (*_SCRIPTS[:-1], "../data/index.js", _SCRIPTS[-1])
    ]
    return _page(nonce, styles, [*scripts])


def single_page(shards: Iterable[tuple[str, str]]) -> str:
    """Return a page in one file, which holds all styles, scripts and shards, with their JSON."""
    nonce = secrets.token_urlsafe(16)
    styles = [f'<style nonce="{nonce}">{_asset(name)}</style>' for name in _STYLES]
    # an element's id is also a global name: without the prefix, a shard would be `katex`
    data = [
        f'<script type="application/json" id="shard-{name}">{text}</script>'
        for name, text in shards
    ]
    scripts = [f'<script nonce="{nonce}">{_asset(name)}</script>' for name in _SCRIPTS]
    return _page(nonce, styles, [*data, *scripts])


def asset_files() -> dict[str, bytes]:
    """Return the content of all files of the page's `assets` by their names."""
    return {name: (ASSETS / name).read_bytes() for name in (*_STYLES, *_SCRIPTS, *_LICENCES)}


def formulas_shard() -> str:
    """Return KaTeX as a JSON string, compressed to a third. The page unpacks it for formulas."""
    code = (ASSETS / "vendor/katex.min.js").read_bytes()
    return f'"{base64.b64encode(gzip.compress(code, mtime=0)).decode()}"'


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _page(nonce: str, styles: Iterable[str], scripts: Iterable[str]) -> str:
    text = _asset("index.html").replace("{nonce}", nonce)
    return text.replace("{styles}", "\n".join(styles)).replace("{scripts}", "\n".join(scripts))
