"""The same rollouts on one process and on two: hypotheses, weights, metrics, parameters agree."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
LAUNCH += ["--main_process_port", "0", "--config_file"]
BOOKKEEPING = {"barl/scoring_seconds", "barl/scoring_share_of_time", "step_time", "epoch", "loss"}
# each process scores a group's first state for its own rollouts; the second has memory for little
BOOKKEEPING |= {"barl/scoring_tokens", "barl/scoring_max_tokens"}


def launch(config, num_processes, *command, deadline=240):
    options = ["--num_processes", str(num_processes), "--mixed_precision", "no"]
    for _ in range(3):
        process = subprocess.run(
            [*LAUNCH, str(ROOT / "accelerate_configs" / config), *options, *command],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"},
            stderr=subprocess.PIPE,
            text=True,
            timeout=deadline,
        )
        # torch's gloo threads now and then abort a process that has done all of its work
        if "terminate called without an active exception" not in process.stderr:
            break
    assert process.returncode == 0, process.stderr


def run(folder, config, num_processes, num_prompts):
    folder.mkdir()
    per_device = str(8 // num_processes)
    script = ["-m", "tests.distributed.write_weights", str(folder), str(num_prompts), per_device]
    launch(config, num_processes, *script)
    ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(num_processes)]
    table = pd.read_parquet(folder / "run" / "completions" / "completions_00001.parquet")
    ranks[0]["judged"] = [rank["judged"] for rank in ranks]
    return [row for rank in ranks for row in rank["weights"]], ranks[0], table


@pytest.mark.parametrize("num_prompts", [1, 2], ids=["a group straddles", "a group on each"])
def test_two_processes_equal_one(tmp_path, num_prompts):
    weights, one, table = run(tmp_path / "one", "cpu.yaml", 1, num_prompts)
    weights_of_two, two, table_of_two = run(tmp_path / "two", "ddp.yaml", 2, num_prompts)
    for row, row_of_two in zip(weights, weights_of_two, strict=True):
        np.testing.assert_allclose(row, row_of_two, atol=1e-5)
    np.testing.assert_allclose(one["norm"], two["norm"], rtol=1e-6)
    for name in one["log"].keys() - BOOKKEEPING:
        if one["log"][name] is not None:
            np.testing.assert_allclose(one["log"][name], two["log"][name], atol=1e-4, err_msg=name)
    assert [list(h) for h in table["hypotheses"]] == [list(h) for h in table_of_two["hypotheses"]]
    np.testing.assert_allclose(table["advantage"], table_of_two["advantage"], atol=1e-5)
    assert one["log"]["barl/scoring_max_tokens"] == 4096
    assert two["log"]["barl/scoring_max_tokens"] <= 256, "halved on both processes"
    once, shares = one["judged"][0], two["judged"]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(once), "each answer is judged by one process"
