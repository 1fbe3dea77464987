"""The tables of the analyses."""

from barl_trl.commands.analyze.common import show


def test_a_line_is_shown_for_each_benchmark_and_model(capsys):
    rows = [
        {"benchmark": benchmark, "model": model, "k": k}
        for model in ("barl", "grpo")
        for benchmark in ("math500", "aime")
        for k in (1, 2)
    ]
    show("Title", rows, None, lambda rows: {"points": str(len(rows))})
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [line.split()[1:6:2] for line in lines] == [
        ["math500", "barl", "2"],
        ["math500", "grpo", "2"],
        ["aime", "barl", "2"],
        ["aime", "grpo", "2"],
    ]
