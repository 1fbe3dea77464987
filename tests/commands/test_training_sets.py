"""The data sets of a run: rows that cannot be used are counted, others are left out on request."""

import json
import re

import pytest

from barl_trl import cli

from .training import logs


def test_training_problems_are_selected(tmp_path, search_recipe, caplog):
    config = search_recipe()
    (tmp_path / "seen.jsonl").write_text((tmp_path / "train.jsonl").read_text().split("\n")[4])
    options = ["--deduplicate", "true", "--decontaminate", f"seen={tmp_path}/seen.jsonl"]
    cli.main(["train", "--config", config, *options])
    assert "(skipped: 1 in seen" in caplog.text


def test_malformed_rows_are_skipped_and_counted(tmp_path, recipe, caplog):
    rows = [
        {"problem": "1+1?", "answer": "2"},
        {"problem": "", "answer": "2"},
        {"problem": "No answer?", "answer": None},
        {"problem": "Unparsable?", "answer": r"\frac{1}{"},
        {"problem": "Strange?", "answer": r"\frac\sqrt^2"},
        {"problem": "Long?", "answer": "9" * 10_000},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    cli.main(["train", "--config", recipe(dataset_name=str(path))])
    expected = (
        "2 of 6 rows kept (skipped: 1 no_answer, 1 no_problem, 1 too_long, 1 unbalanced; "
        "kept, but look at: 1 unreadable); the rows: barl data check"
    )
    assert expected in caplog.text
    assert "grad_norm" in logs(tmp_path / "out")[0]


def test_prompts_of_messages_are_trained_on(tmp_path, recipe):
    rows = [{"prompt": [{"role": "user", "content": f"{n}+1?"}], "gold": n + 1} for n in range(4)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    settings = recipe(dataset_name=str(path))
    with pytest.raises(SystemExit, match=r"barl train: .* did you mean --answer_column 'gold'"):
        cli.main(["train", "--config", settings])
    cli.main(["train", "--config", settings, "--answer_column", "gold"])
    assert "grad_norm" in logs(tmp_path / "out")[0]
    plain = ["--answer_column", "gold", "--prompt_template", "{problem}"]
    plain += ["--overwrite_output_dir", "true"]
    with pytest.raises(SystemExit, match=r"skipped: 4 messages"):
        cli.main(["train", "--config", settings, *plain])


def test_long_prompts_are_left_out_and_counted(tmp_path, recipe, caplog):
    cli.main(["train", "--config", recipe(), "--max_prompt_length", "150"])
    assert re.search(r"\d+ of 248 rows left out: prompt of more than", caplog.text)


def test_own_rewards_get_the_columns_of_the_data(tmp_path, recipe, monkeypatch):
    (tmp_path / "own_rewards.py").write_text(
        "def leveled(completions, level, **kwargs):\n    return [float(one) for one in level]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{"problem": f"{n}+1?", "answer": str(n + 1), "level": "3"} for n in range(4)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    settings = recipe(dataset_name=str(path), reward_funcs=["own_rewards.leveled"])
    cli.main(["train", "--config", settings])
    assert logs(tmp_path / "out")[0]["reward"] == 3
