"""A run that goes on: the page takes in what is written while it is open."""

import shutil
import subprocess

import pytest

from ..preloaded import PRELOADED
from ..report.inspector.rollouts import write_run

pytestmark = pytest.mark.browser


def test_new_rollouts_appear_in_a_page_that_is_open(page, tmp_path):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    write_run(tmp_path / "run", steps=[0, 1])
    later = tmp_path / "run" / "beliefs" / "rollouts_00001.parquet"
    shutil.move(later, tmp_path / "later")
    command = [*PRELOADED, "barl_trl.cli", "inspect", str(tmp_path / "run"), "--serve"]
    with subprocess.Popen(
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        address = process.stdout.readline().split()[-1]
        page.goto(address)
        page.get_by_text("12 of 12 rollouts").wait_for()
        shutil.move(tmp_path / "later", later)
        page.get_by_text("24 of 24 rollouts").wait_for(timeout=120_000)
        process.terminate()
    assert all(url.startswith((address, "data:")) for url in asked)
