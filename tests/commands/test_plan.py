"""`barl plan` as users start it: what the docs show, its refusals, and what it reads."""

import json

import pytest

from ..paths import ROOT
from ..preloaded import PRELOADED
from ..trainer.hub import Commit
from .qwen import RECIPE, SHALLOW, ZERO2, qwen, rows


def test_docs_show_the_plan_of_a_recipe_and_a_refusal(plan):
    page = (ROOT / "docs" / "command-line.md").read_text()
    output = plan("--accelerate_config", ZERO2, layers=28)
    assert "\n".join(line.rstrip() for line in output.splitlines()) in page
    with pytest.raises(SystemExit) as refusal:
        plan("--num_processes", "7")
    assert str(refusal.value) in " ".join(page.split())


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
    assert error.value.code == 2


def test_of_the_hub_only_the_configuration_is_read(hub, run):
    files = {"config.json": json.dumps(qwen(2).to_dict()).encode(), "model.safetensors": b""}
    hub.repositories["Qwen/Qwen2.5-Math-1.5B"] = [Commit("first", files)]
    done = run(*PRELOADED, "barl_trl.cli", "plan", "--config", RECIPE)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)["parameters"] == f"{2 * SHALLOW / 2**30:.1f} GiB"
    read = [path for path in hub.asked if "/resolve/" in path]
    assert {path.rsplit("/", 1)[1] for path in read} == {"config.json"}
