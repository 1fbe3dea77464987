"""The report of the experiments, from files that runs left."""

import json

import pytest

from barl_trl.commands.reproduce.paper.commands import run_folder
from barl_trl.commands.reproduce.paper.report import report
from barl_trl.commands.reproduce.paper.scales import demo_scale
from barl_trl.report.paper_report import ASSETS

FOUND = {("base", None): (0.5, 0.25), ("barl", 1): (0.625, 0.5), ("barl", 2): (0.75, 0.25)}


@pytest.fixture
def scale(tmp_path):
    """The demo with BARL alone, greedy results of its base and of two seeds, and empty figures."""
    for (arm, seed), pair in FOUND.items():
        folder = run_folder(tmp_path, "tiny-search", arm, seed) / "greedy"
        folder.mkdir(parents=True)
        shares = dict(zip(("search", "search_9"), pair, strict=True))
        results = {"benchmarks": {name: {"accuracy": share} for name, share in shares.items()}}
        (folder / "results.json").write_text(json.dumps(results))
    figures = tmp_path / "figures" / "tiny-search"
    figures.mkdir(parents=True)
    for figure in json.loads((ASSETS / "paper_figures.json").read_text()):
        (figures / f"{figure['name']}.png").write_bytes(b"")
    scale = demo_scale(tmp_path)
    return scale._replace(models=[scale.models[0]._replace(arms=["barl"])])


def reported(scale, folder):
    report(scale, folder, [1, 2], 60)
    return json.loads((folder / "report.json").read_text())


def test_accuracies_have_a_standard_error_over_seeds(tmp_path, scale):
    base, barl = reported(scale, tmp_path)["table"]
    assert base == {"arm": "base", "search": [50.0], "search_9": [25.0], "average": [37.5]}
    error = 12.5 / 2  # of two values: half of their difference
    assert barl == {
        "arm": "barl",
        "search": [68.75, error],
        "search_9": [37.5, 2 * error],
        "average": [53.125, pytest.approx(abs(56.25 - 50) / 2)],
    }


def test_arms_of_several_models_are_named_with_theirs(tmp_path, scale):
    two = scale._replace(models=scale.models * 2)
    assert reported(two, tmp_path)["table"][0]["arm"] == "tiny-search, base"


def test_options_stand_on_one_line_as_they_could_be_typed(tmp_path, scale):
    options = reported(scale, tmp_path)["settings"]["options of barl train"]
    assert "--prompt_template '{problem}\\n' --step_size 16" in options
