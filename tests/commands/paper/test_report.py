"""The report of the experiments, from files that runs left."""

import json

import pytest

from barl_trl.commands.reproduce.paper.commands import run_folder
from barl_trl.commands.reproduce.paper.report import accuracies, on_one_line
from barl_trl.commands.reproduce.paper.scales import demo_scale


@pytest.fixture
def scale(tmp_path):
    """The demo, and greedy results of its base and of two seeds of BARL."""
    found = {("base", None): (0.5, 0.25), ("barl", 1): (0.625, 0.5), ("barl", 2): (0.75, 0.25)}
    for (arm, seed), pair in found.items():
        folder = run_folder(tmp_path, "tiny-search", arm, seed) / "greedy"
        folder.mkdir(parents=True)
        shares = dict(zip(("search", "search_9"), pair, strict=True))
        results = {"benchmarks": {name: {"accuracy": share} for name, share in shares.items()}}
        (folder / "results.json").write_text(json.dumps(results))
    return demo_scale(tmp_path, max_steps=80)


def test_accuracies_have_a_standard_error_over_seeds(tmp_path, scale):
    row = accuracies(tmp_path, scale, scale.models[0], "barl", [1, 2])
    error = 12.5 / 2  # of two values: half of their difference
    assert row == {
        "arm": "barl",
        "search": [68.75, error],
        "search_9": [37.5, 2 * error],
        "average": [53.125, pytest.approx(abs(56.25 - 50) / 2)],
    }


def test_the_base_is_one_run_without_an_error(tmp_path, scale):
    row = accuracies(tmp_path, scale, scale.models[0], "base", [1, 2])
    assert row == {"arm": "base", "search": [50.0], "search_9": [25.0], "average": [37.5]}


def test_arms_of_several_models_are_named_with_theirs(tmp_path, scale):
    two = scale._replace(models=scale.models * 2)
    assert accuracies(tmp_path, two, scale.models[0], "base", [1])["arm"] == "tiny-search, base"


def test_options_stand_on_one_line_as_they_could_be_typed():
    assert on_one_line(["--prompt_template", "{problem}\n"]) == "--prompt_template '{problem}\\n'"
