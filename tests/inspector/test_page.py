"""The HTML of a page."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

from barl_trl.inspector.page import (
    ASSETS,
    asset_files,
    folder_page,
    formulas_shard,
    single_page,
)


class Elements(HTMLParser):
    """Collects elements and their attributes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def elements(page):
    parser = Elements()
    parser.feed(page)
    return parser.found


def test_scripts_run_by_a_nonce_of_this_page_alone():
    pages = [folder_page(), folder_page(), single_page([("index", "{}")])]
    nonces = set()
    for page in pages:
        found = elements(page)
        [policy] = [a["content"] for t, a in found if a.get("http-equiv")]
        assert (
            policy.startswith("default-src 'none'; script-src 'nonce-") and "unsafe" not in policy
        )
        [nonce] = set(re.findall(r"'nonce-([\w-]{20,})'", policy))
        nonces.add(nonce)
        run = [a for tag, a in found if tag in ("script", "style", "link")]
        run = [a for a in run if a.get("type") != "application/json"]
        assert run and all(attributes["nonce"] == nonce for attributes in run)
        assert not any(name.startswith("on") for _, attributes in found for name in attributes)
    assert len(nonces) == 3


def test_folder_names_files_that_are_there():
    files = asset_files()
    named = [
        a.get("src") or a.get("href") for t, a in elements(folder_page()) if t in ("script", "link")
    ]
    local = [name.removeprefix("assets/") for name in named if "data/" not in name]
    assert set(local) < set(files)
    assert all((ASSETS / name).read_bytes() == files[name] for name in files)
    assert not any("://" in name for name in named)


def test_page_without_data_is_small():
    everything = len(folder_page()) + len(formulas_shard()) + sum(map(len, asset_files().values()))
    assert everything < 400_000


def test_katex_is_what_was_vendored():
    packed = base64.b64decode(json.loads(formulas_shard()))
    assert gzip.decompress(packed) == (ASSETS / "vendor" / "katex.min.js").read_bytes()


def test_own_scripts_never_parse_markup():
    for path in ASSETS.glob("*.js"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", path.read_text()
        )
