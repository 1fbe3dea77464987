"""The page of `barl inspect` in Debian's Chromium: every test ends without console errors, and
without a request for anything but a file.
"""

import shutil

import pytest

from barl_trl.inspector import site
from barl_trl.inspector.site import write_page

from ..inspector.rollouts import write_run

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser_type_launch_args():
    return {"executable_path": shutil.which("chromium"), "args": ARGUMENTS}


@pytest.fixture(scope="session")
def browser_context_args():
    return {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}


class Shown:
    """A page that is open, its records, and what its address says."""

    def __init__(self, page, address, records):
        self.page, self.address, self.records = page, address, records
        self.by_place = {(r["step"], r["group"], r["rollout"]): r for r in records}

    def at(self, place="#/"):
        """Opens a place, and waits until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(self.address + place)
        self.page.wait_for_selector("main h1")
        return self.page

    def hash(self):
        return self.page.evaluate("location.hash")

    def wait_for(self, expression):
        """Waits until an expression holds; the page's policy allows no `wait_for_function`."""
        for _ in range(600):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(expression)

    def texts(self, selector):
        return self.page.locator(selector).all_inner_texts()


@pytest.fixture
def watched(page):
    """The browser's page; checks what it said and asked for."""
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    yield page
    assert said == []
    local = ("file:", "about:", "data:", "blob:")
    assert [url for url in asked if not url.startswith(local)] == []


def changed(records):
    """One rollout of each kind; a thought; and an outcome for each group alike but the second."""
    for record in records:
        if record["group"] == 2 and record["rollout"] == 0:
            record |= {"is_cut_off": True, "answer": None, "member": None, "reason": "timeout"}
            record["token_weights"] = [0.5] * len(record["tokens"])
        if record["group"] == 1 and record["rollout"] == 1:
            record["token_weights"] = [-0.5] * len(record["tokens"])
            record["tokens"][:4] = ["<think>", "hm ", "</thi", "nk>"]
            record["tokens"][4] = "$x^2$"
    return records


@pytest.fixture(scope="session", params=["single", "folder"])
def site_made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    records = write_run(folder / "run", change=changed)
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "folder":
            patched.setattr(site, "SINGLE_FILE_ROLLOUTS", 0)
        write_page([folder / "run" / "beliefs"], ["run"], folder / "page")
    return (folder / "page" / "index.html").as_uri(), records


@pytest.fixture
def shown(watched, site_made):
    return Shown(watched, *site_made)


@pytest.fixture
def make_shown(watched, tmp_path):
    """Opens the page of other records, or of two runs."""

    def make(*runs):
        written = [write_run(tmp_path / f"run{n}", **run) for n, run in enumerate(runs)]
        folders = [tmp_path / f"run{n}" / "beliefs" for n in range(len(runs))]
        write_page(folders, [f"run{n}" for n in range(len(runs))], tmp_path / "page")
        return Shown(watched, (tmp_path / "page" / "index.html").as_uri(), written[0])

    return make
