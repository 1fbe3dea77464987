"""`barl compare`: arms of several seeds against the last one."""

import json

import numpy as np
import pytest

from barl_trl.commands.compare import run

from ..evaluation.files import problems, write_responses


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two arms of three seeds on two benchmarks, four samples of each problem."""
    generator = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    for arm, share in {"ours": 0.7, "theirs": 0.3}.items():
        for seed in range(3):
            for benchmark in ("gsm8k", "math500"):
                rewards = generator.binomial(1, share, size=(40, 4))
                write_responses(tmp_path / f"{arm}-{seed}", problems(rewards), benchmark=benchmark)


def test_arms_are_compared_with_the_last(runs, tmp_path, capsys):
    run(["ours=ours-*", "theirs=theirs-0,theirs-[12]"])
    shown = capsys.readouterr().out
    assert "gsm8k: ours and theirs (3 against 3 seeds)" in shown and "pass@4" in shown
    out = tmp_path / "outputs" / "analysis"
    found = json.loads((out / "compare.json").read_text())
    assert found["settings"]["arms"]["theirs"] == ["theirs-0", "theirs-1", "theirs-2"]
    rows = {(row["benchmark"], row["metric"]): row for row in found["rows"]}
    assert len(rows) == 2 * 3
    for benchmark in ("gsm8k", "math500"):
        row = rows[benchmark, "accuracy"]
        assert row["difference"] == pytest.approx(row["mean"] - row["base_mean"])
        assert 0.2 < row["low"] < row["difference"] < row["high"] < 0.6
        assert f"{100 * row['difference']:+.1f} [{100 * row['low']:+.1f}, " in shown
        assert (row["seeds"], row["problems"], row["samples"]) == (3, 40, 4)
        assert rows[benchmark, "tokens"]["difference"] == 0
    # Holm: the smaller of two is doubled, the larger at least as much
    small, large = sorted(row["p_value"] for (_, metric), row in rows.items() if metric == "pass@4")
    corrected = sorted(row["p_holm"] for (_, metric), row in rows.items() if metric == "pass@4")
    assert corrected == pytest.approx([min(1, 2 * small), min(1, max(2 * small, large))])


def test_with_one_seed_it_is_said_what_is_not_in_the_interval(runs, capsys):
    run(["ours-0", "theirs-0", "--benchmarks", "gsm8k"])
    shown = capsys.readouterr().out
    assert "gsm8k: ours-0 and theirs-0 (1 against 1 seeds)" in shown and "math500" not in shown
    assert "two checkpoints, not two methods" in shown


def test_a_difference_that_does_not_vary_is_not_tested(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for arm, rewards in {"ours": [[1], [0]] * 15, "theirs": [[0]] * 30, "none": [[0]] * 30}.items():
        write_responses(tmp_path / arm, problems(rewards), benchmark="gsm8k")
    run(["ours", "theirs", "none"])
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["accuracy", "0.0", "0.0", "+0.0", "[-,", "-]", "-", "-", "?"] in cells
    rows = json.loads((tmp_path / "outputs" / "analysis" / "compare.json").read_text())["rows"]
    tested, same = (row for row in rows if row["metric"] == "accuracy")
    assert tested["p_holm"] == tested["p_value"] < 0.05, "it is the only test"
    assert {same[key] for key in ("low", "high", "p_value", "p_holm", "detectable")} == {None}


def test_mistakes(runs):
    wrong = ["ours-0", "ours=nowhere theirs-0", "a=ours-0,ours-* theirs-0", "a=ours-0 a=theirs-0"]
    for arms in wrong:
        with pytest.raises(ValueError, match=r"^(there|the folders|each seed|arms) "):
            run(arms.split())
