"""The HTML of a page."""

import re
from html.parser import HTMLParser

from barl_trl.inspector.page import ASSETS, asset_files, folder_page, single_page


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
        assert policy.startswith("default-src 'none'; script-src 'nonce-")
        assert "unsafe" not in policy
        [nonce] = set(re.findall(r"'nonce-([\w-]{20,})'", policy))
        nonces.add(nonce)
        run = [a for tag, a in found if tag in ("script", "style", "link")]
        run = [a for a in run if a.get("type") != "application/json"]
        assert run and all(attributes["nonce"] == nonce for attributes in run)
        assert not any(name.startswith("on") for _, attributes in found for name in attributes)
    assert len(nonces) == 3


def test_folder_names_files_that_are_there():
    files = asset_files()
    found = [a for tag, a in elements(folder_page()) if tag in ("script", "link")]
    named = [a.get("src") or a.get("href") for a in found]
    local = [name.removeprefix("assets/") for name in named if "data/" not in name]
    assert set(local) < set(files)
    assert all((ASSETS / name).read_bytes() == files[name] for name in files)
    assert not any("://" in name for name in named)
