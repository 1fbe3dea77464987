"""The same rollouts on one process and on several, however they share the work: hypotheses,
weights, metrics, gradients and parameters agree, and no process waits for ever.
"""

import json

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from peft import PeftModel

from ..paths import ROOT
from ..tiny import tiny_model
from .launching import launch
from .worker import scores

BOOKKEEPING = {"barl/scoring_seconds", "barl/scoring_share_of_time"}
BOOKKEEPING |= {"step_time", "epoch", "loss"}
# each process scores a group's first state for its own rollouts; the second has memory for little
BOOKKEEPING |= {"barl/scoring_tokens", "barl/scoring_max_tokens"}
LEARNING_RATE = 0.1


class Run:
    def __init__(self, folder, config, num_processes, num_prompts, num_accumulated=1, **settings):
        folder.mkdir()
        rows = 8 // num_processes // num_accumulated
        settings = {"is_short_of_memory": False, "is_lora": False} | settings
        settings |= {"folder": str(folder), "num_prompts": num_prompts}
        settings |= {"per_device_train_batch_size": rows}
        settings |= {"gradient_accumulation_steps": num_accumulated}
        launch(config, "tests.distributed.worker", json.dumps(settings))
        ranks = range(num_processes)
        self.ranks = [json.loads((folder / f"{rank}.json").read_text()) for rank in ranks]
        self.parameters = torch.load(folder / "parameters.pt")
        self.tables = [
            pd.read_parquet(path) for path in sorted(folder.glob("run/completions/*.parquet"))
        ]
        self.saved = folder / "saved"
        self.log = self.ranks[0]["log"]
        # per rollout batch, in the order of the processes
        batches = [np.array_split(np.array(r["weights"], object), 3) for r in self.ranks]
        self.weights = [
            list(row) for batch in zip(*batches, strict=True) for b in batch for row in b
        ]

    def gradients(self, step):
        return {
            name: (self.parameters[step - 1][name] - value) / LEARNING_RATE
            for name, value in self.parameters[step].items()
        }


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return {n: Run(folder / str(n), "cpu.yaml", 1, n, steps_per_generation=1) for n in (1, 2)}


def assert_equal(run, one, uncompared=frozenset()):
    assert len(run.parameters) == len(one.parameters) == 1 + 3
    for table, expected in zip(run.tables, one.tables, strict=True):
        assert list(table["answer"]) == list(expected["answer"])
        np.testing.assert_allclose(table["advantage"], expected["advantage"], atol=1e-5)
    for row, expected in zip(run.weights, one.weights, strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-5)
    for step in (1, 2, 3):
        gradients = run.gradients(step)
        for name, expected in one.gradients(step).items():
            torch.testing.assert_close(gradients[name], expected, atol=1e-5, rtol=1e-5)
    for name, expected in one.parameters[-1].items():
        torch.testing.assert_close(run.parameters[-1][name], expected, atol=1e-5, rtol=0)
    for log, expected in zip(run.log, one.log, strict=True):
        for name in expected.keys() - BOOKKEEPING - uncompared:
            if expected[name] is not None:
                np.testing.assert_allclose(log[name], expected[name], atol=1e-4, err_msg=name)


@pytest.mark.parametrize("num_prompts", [1, 2], ids=["a group straddles", "a group on each"])
def test_two_processes_equal_one(tmp_path, one_process, num_prompts):
    two = Run(tmp_path / "two", "cpu/ddp.yaml", 2, num_prompts, is_short_of_memory=True)
    assert_equal(two, one_process[num_prompts])
    assert one_process[num_prompts].log[-1]["barl/scoring_max_tokens"] == 4096
    assert two.log[-1]["barl/scoring_max_tokens"] < 4096, "halved on both processes"
    once, shares = one_process[num_prompts].ranks[0]["judged"], [r["judged"] for r in two.ranks]
    assert all(shares)
    assert sorted(shares[0] + shares[1]) == sorted(once), "each answer is judged by one process"


def test_rewards_of_turns_are_compared_across_processes(tmp_path):
    settings = {"credit": "turns", "credit_baseline": "state", "steps_per_generation": 1}
    one = Run(tmp_path / "one", "cpu.yaml", 1, 1, **settings)
    assert_equal(
        Run(tmp_path / "two", "cpu/ddp.yaml", 2, 1, credit="turns", credit_baseline="state"), one
    )
    assert one.log[0]["rewards/turn_rewards/mean"] > 0 and any(map(any, one.weights))


def test_gradient_accumulation_equals_one_pass(tmp_path, one_process):
    four = Run(tmp_path / "four", "cpu.yaml", 1, 2, num_accumulated=4)
    assert_equal(four, one_process[2], uncompared={"entropy"})  # TRL's is a mean over passes


def test_fsdp2_equals_one_process_and_does_not_hang(tmp_path, one_process):
    run = Run(tmp_path / "fsdp2", "cpu/fsdp2.yaml", 2, num_prompts=1)
    assert run.ranks[0]["kind"] == "DistributedType.FSDP"
    assert run.ranks[0]["num_forwards"] == run.ranks[1]["num_forwards"]
    assert_equal(run, one_process[1])


@pytest.fixture
def zero3_sharding_all(tmp_path):
    """ZeRO-3 keeps small parameters whole, and all of the tiny model's are: here none is small."""
    deepspeed = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {
            "stage": 3,
            "stage3_param_persistence_threshold": 0,
            "stage3_gather_16bit_weights_on_model_save": True,
        },
    }
    (tmp_path / "zero3.json").write_text(json.dumps(deepspeed))
    config = yaml.safe_load((ROOT / "accelerate_configs" / "cpu" / "zero3.yaml").read_text())
    del config["mixed_precision"]  # is in the other file now
    file = {"deepspeed_config_file": str(tmp_path / "zero3.json"), "zero3_init_flag": True}
    (tmp_path / "zero3.yaml").write_text(yaml.safe_dump(config | {"deepspeed_config": file}))
    return tmp_path / "zero3.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "num_prompts", "num_accumulated"), [(1, 2, 4), (2, 2, 1), (3, 2, 1), (3, 1, 4)]
)
def test_zero_equals_one_process_and_does_not_hang(
    tmp_path, one_process, zero3_sharding_all, stage, num_prompts, num_accumulated
):
    is_all_sharded = stage == 3 and num_prompts == 2
    config = zero3_sharding_all if is_all_sharded else f"cpu/zero{stage}.yaml"
    run = Run(tmp_path / "zero", config, 2, num_prompts, num_accumulated)
    assert (run.ranks[0]["kind"], run.ranks[0]["zero_stage"]) == (
        "DistributedType.DEEPSPEED",
        stage,
    )
    if stage == 3:
        assert run.ranks[0]["num_forwards"] == run.ranks[1]["num_forwards"]
    assert_equal(run, one_process[num_prompts], uncompared={"entropy"})


@pytest.fixture(scope="module")
def lora_with_kl(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora") / "one"
    return Run(folder, "cpu.yaml", 1, 2, is_lora=True, beta=0.1, steps_per_generation=1)


def assert_saved_adapter_scores_alike(run, tokenizer):
    model = PeftModel.from_pretrained(tiny_model(tokenizer), run.saved)
    np.testing.assert_allclose(scores(model, tokenizer), run.ranks[0]["scores"], atol=1e-5)
    differences = np.array(scores(tiny_model(tokenizer), tokenizer)) - run.ranks[0]["scores"]
    assert np.abs(differences).max() > 1e-3, "the adapter matters"


def test_lora_with_kl_against_the_model_without_it(lora_with_kl, tokenizer):
    first, *later = (log["kl"] for log in lora_with_kl.log)
    assert abs(first) < 1e-6 < min(later)
    assert_saved_adapter_scores_alike(lora_with_kl, tokenizer)


@pytest.mark.slow
def test_lora_with_zero3_equals_one_process(tmp_path, lora_with_kl, zero3_sharding_all, tokenizer):
    run = Run(tmp_path / "lora", zero3_sharding_all, 2, 2, is_lora=True, beta=0.1)
    assert_equal(run, lora_with_kl)
    assert_saved_adapter_scores_alike(run, tokenizer)
