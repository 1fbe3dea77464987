"""`barl analyze efficiency`: pass@k against tokens."""

import pytest

from ..analyzing import analyze, results


@pytest.mark.slow
def test_efficiency_of_several_models_with_and_without_the_greedy_response(folders, tmp_path):
    out = tmp_path / "out"
    options = ("--sampled", *folders["sampled"], "--greedy", *folders["greedy"], "--max_k", 2)
    done = analyze("efficiency", *options, "--names", "ours", "theirs", "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert "pass@2, % (tokens)" in done.stdout and "theirs" in done.stdout
    rows = results(out / "efficiency.json")["rows"]
    assert len(rows) == 2 * 2 * 2 * 2  # models, benchmarks, with and without, k
    found = {
        (row["with_greedy"], row["k"]): (row["accuracy"], row["tokens"])
        for row in rows
        if (row["model"], row["benchmark"]) == ("ours", "math500")
    }
    assert found == {
        (True, 1): (pytest.approx(2 / 3), 10),
        (True, 2): (pytest.approx(2 / 3), 20),
        (False, 1): (pytest.approx((1 / 3 + 0 + 1) / 3), 10),
        (False, 2): (pytest.approx((2 / 3 + 0 + 1) / 3), 20),
    }
    for name in ("efficiency.png", "efficiency_sampled.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_efficiency_of_samples_alone(folders, tmp_path):
    out = tmp_path / "out"
    options = ("--sampled", *folders["sampled"], "--benchmarks", "math500,gsm8k")
    done = analyze("efficiency", *options, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    rows = results(out / "efficiency.json")["rows"]
    assert list(dict.fromkeys(row["benchmark"] for row in rows)) == ["math500", "gsm8k"]
    assert {row["model"] for row in rows} == {"barl", "grpo"}
    assert {row["k"] for row in rows} == {1, 2, 3}  # as many as there are samples
    assert not (out / "efficiency.png").exists()
