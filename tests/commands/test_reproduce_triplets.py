"""The table of the didactic example, from records written by hand."""

import json
from dataclasses import replace

import pytest

from barl_trl.commands.reproduce import triplet_runs as reproduce_triplets
from barl_trl.commands.reproduce.triplet_runs import triplet_rows, triplets
from barl_trl.synthetic.triplets import ARMS, Settings


def results(**accuracies):
    """Accuracies of an arm: those of each seed, at iterations 0, 10, 20 ..."""
    return {
        "arms": {arm: {"title": arm.upper()} for arm in accuracies},
        "records": [
            {"arm": arm, "seed": seed, "iteration": 10 * n}
            | dict(zip(("train_accuracy", "unseen_accuracy"), pair, strict=True))
            for arm, seeds in accuracies.items()
            for seed, pairs in enumerate(seeds)
            for n, pair in enumerate(pairs)
        ],
    }


def test_final_accuracies_are_means_and_deviations_over_seeds():
    first, second = [(0.0, 0.0), (0.8, 0.1)], [(0.2, 0.2), (1.0, 0.3)]
    assert triplet_rows(results(rl=[first, second])) == [
        {
            "arm": "RL",
            "training prompts": "0.90 ± 0.14",
            "unseen prompt": "0.20 ± 0.14",
            "iterations needed": "never",
        }
    ]


def test_one_seed_has_no_deviation():
    [row] = triplet_rows(results(rl=[[(0.5, 0.25)]]))
    assert (row["training prompts"], row["unseen prompt"]) == ("0.50", "0.25")


@pytest.mark.parametrize(
    ("pairs", "needed"),
    [
        ([(0.1, 0.1), (0.95, 0.95), (1.0, 1.0)], "10"),
        ([(0.95, 0.95), (0.95, 0.2), (1.0, 1.0)], "20"),  # it fell back in between
        ([(0.1, 0.1), (1.0, 0.95), (1.0, 0.85)], "never"),
        ([(0.9, 0.9)], "0"),
    ],
)
def test_learned_is_what_stays_right_on_both_kinds_of_prompts(pairs, needed):
    [row] = triplet_rows(results(barl=[pairs]))
    assert row["iterations needed"] == needed


def test_arms_have_a_row_each_in_their_order():
    rows = triplet_rows(results(b=[[(1.0, 1.0)]], a=[[(0.0, 0.0)]]))
    assert [row["arm"] for row in rows] == ["B", "A"]


def test_runs_of_a_command_that_was_stopped_are_kept_until_the_results_are_there(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(reproduce_triplets.triplets_figure, "draw", lambda *_: None)
    record = {"iteration": 0, "train_accuracy": 0.5, "unseen_accuracy": 0.25}
    before = [[{"arm": "rl", "seed": seed, **record}] for seed in (0, 1)]
    (tmp_path / "runs").mkdir()
    for seed, records in enumerate(before):
        (tmp_path / "runs" / f"rl-{seed}-1.json").write_text(json.dumps(records))
    (tmp_path / "runs" / "barl-0-2.json").write_text("[]")  # of other settings
    settings = replace(Settings(), iterations=1)
    results = triplets(tmp_path, seeds=2, settings=settings, arms={"rl": ARMS["rl"]})
    assert results["records"] == [record for records in before for record in records]
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    with pytest.raises(ValueError, match=r"output_dir must be new, got .* with results"):
        triplets(tmp_path, seeds=2, settings=settings, arms={"rl": ARMS["rl"]})
