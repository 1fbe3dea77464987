"""`barl analyze compare`: arms of several seeds against the last one."""

import numpy as np
import pytest

from barl_trl import cli

from ...evaluation.files import problems, write_responses
from ..analyzing import results


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two arms of three seeds on two benchmarks, four samples of each problem."""
    generator = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for arm, share in {"ours": 0.7, "theirs": 0.3}.items():
        for seed in range(3):
            for benchmark in ("gsm8k", "math500"):
                rewards = generator.binomial(1, share, size=(40, 4))
                write_responses(tmp_path / f"{arm}-{seed}", problems(rewards), benchmark=benchmark)


def test_arms_are_compared_with_the_last(runs, tmp_path, capsys):
    cli.main(["analyze", "compare", "ours=ours-*", "theirs=theirs-0,theirs-[12]"])
    shown = capsys.readouterr().out
    assert "gsm8k: ours and theirs (3 against 3 seeds)" in shown and "pass@4" in shown
    out = tmp_path / "outputs" / "analysis"
    found = results(out / "compare.json")
    assert found["settings"]["arms"]["theirs"] == ["theirs-0", "theirs-1", "theirs-2"]
    rows = {(row["benchmark"], row["metric"]): row for row in found["rows"]}
    assert len(rows) == 2 * 4
    for benchmark in ("gsm8k", "math500"):
        row = rows[benchmark, "accuracy"]
        assert row["difference"] == pytest.approx(row["mean"] - row["base_mean"])
        assert 0.2 < row["low"] < row["difference"] < row["high"] < 0.6
        assert (row["seeds"], row["problems"], row["samples"]) == (3, 40, 4)
        assert rows[benchmark, "tokens"]["difference"] == 0
        assert rows[benchmark, "token ratio"]["ratio"] < 1
    # Holm: the smaller of two is doubled, the larger at least as much
    small, large = sorted(row["p_value"] for (_, metric), row in rows.items() if metric == "pass@4")
    corrected = sorted(row["p_holm"] for (_, metric), row in rows.items() if metric == "pass@4")
    assert corrected == pytest.approx([min(1, 2 * small), min(1, max(2 * small, large))])
    assert (out / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_with_one_seed_it_is_said_what_is_not_in_the_interval(runs, capsys):
    cli.main(["analyze", "compare", "ours-0", "theirs-0", "--benchmarks", "gsm8k"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "gsm8k: ours-0 and theirs-0 (1 against 1 seeds)" in shown and "math500" not in shown
    assert "two checkpoints, not two methods" in shown and "│ ? │" in shown


def test_it_is_said_of_any_arm_with_one_seed(runs, capsys):
    cli.main(["analyze", "compare", "a=ours-*", "b=ours-0", "theirs=theirs-*"])
    assert "two checkpoints, not two methods" in " ".join(capsys.readouterr().out.split())


def test_a_difference_that_does_not_vary_is_not_tested(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for arm, rewards in {"ours": [[1], [0]] * 15, "theirs": [[0]] * 30, "none": [[0]] * 30}.items():
        write_responses(tmp_path / arm, problems(rewards), benchmark="gsm8k")
    cli.main(["analyze", "compare", "ours", "theirs", "none"])
    shown = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("│")] for line in shown.splitlines()]
    assert ["accuracy", "0.0", "0.0", "+0.0 [-, -]", "-", "-", "?"] in [row[1:-1] for row in cells]
    rows = results(tmp_path / "outputs" / "analysis" / "compare.json")["rows"]
    tested, same = (row for row in rows if row["metric"] == "accuracy")
    assert tested["p_holm"] == tested["p_value"] < 0.05, "it is the only test"
    assert {same[key] for key in ("low", "high", "p_value", "p_holm", "detectable")} == {None}


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["ours-0"], "there must be at least two arms, got ours-0"),
        (["ours=nowhere", "theirs-0"], "the folders of an arm must exist, got nowhere for ours"),
        (["a=ours-0,ours-*", "theirs-0"], "each seed of a must be given once, got .* 2 times"),
        (["a=ours-0", "a=theirs-0"], "arms must have different names, got a twice"),
    ],
)
def test_mistakes(runs, arms, message):
    with pytest.raises(SystemExit, match=f"barl analyze: {message}"):
        cli.main(["analyze", "compare", *arms])
