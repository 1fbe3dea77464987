"""`barl plan` as users start it: what the README shows, its refusals, and what it reads."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ..paths import ROOT
from .qwen import PARAMETERS, QWEN, RECIPE, ZERO2, rows


def test_readme_shows_the_plan_of_a_recipe_and_a_refusal(plan):
    readme = (ROOT / "README.md").read_text()
    output = plan("--accelerate_config", ZERO2)
    assert "\n".join(line.rstrip() for line in output.splitlines()) in readme
    with pytest.raises(SystemExit) as refusal:
        plan("--num_processes", "7")
    assert str(refusal.value) in " ".join(readme.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--num_processes", "7"],
            "= 56, got 128: .* rollouts_per_optimizer_step = 112 or 168",
        ),
        (["--rollouts_per_optimizer_step", "100"], "rollouts_per_optimizer_step = 96 or 104"),
        (["--num_processes", "0"], "num_processes must be at least 1, got 0"),
        (["--step_size", "0"], "step_size must be at least 1"),
        (["--prompt_template", "Solve:"], "prompt_template must contain {problem}"),
        (
            ["--max_steps", "-1", "--num_train_rows", "1000"],
            "num_train_rows must be at least 1024, .* got 1000",
        ),
    ],
)
def test_what_does_not_divide_ends_with_an_error(plan, options, message):
    with pytest.raises(SystemExit, match=f"barl plan: .*{message}") as error:
        plan(*options)
    assert isinstance(error.value.code, str)  # printed to stderr; the exit status is 1


class _ConfigOnly(BaseHTTPRequestHandler):
    """A Hub that has a `config.json` and notes what it is asked for."""

    def do_GET(self):
        self.server.asked.append(self.path)
        found = self.path.endswith("/config.json")
        content = json.dumps(QWEN.to_dict()).encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET

    def log_message(self, format, *args):
        pass


def test_of_the_hub_only_the_configuration_is_read(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _ConfigOnly)
    server.asked = []
    Thread(target=server.serve_forever, daemon=True).start()
    here = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HUB_OFFLINE": "0"}
    here |= {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-m", "barl_trl.cli", "plan", "--config", RECIPE]
    run = subprocess.run(
        command, env=os.environ | here, check=True, capture_output=True, text=True, timeout=120
    )
    server.shutdown()
    server.server_close()
    assert rows(run.stdout)["parameters"] == f"{2 * PARAMETERS / 2**30:.1f} GiB"
    files = [path for path in server.asked if "/resolve/" in path]
    assert {path.rsplit("/", 1)[1] for path in files} == {"config.json"}
