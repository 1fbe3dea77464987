"""How many tokens and optimizer steps: by hand, and beside what a run does."""

import math

import pytest

from barl_trl.commands.plan_config import PlanConfig
from barl_trl.commands.plan_tokens import Shape, scored_tokens, total_steps

from ..trainer.rollouts import config, trainer


@pytest.mark.parametrize("max_hypotheses", [None, 3])
def test_tokens_of_a_group(max_hypotheses):
    num = max_hypotheses or 6
    shape = Shape(prompt=512, completion=1024, step=128, hypotheses=num)
    branch = 12 + 1 + 6 * num
    assert scored_tokens(5, shape) == 5 * (1536 + 8 * branch) + branch
    assert scored_tokens(2, shape) == 2 * (1536 + 8 * branch) + branch
    # a sequence for each state and answer: the state, the elicitation, all but the answer's last
    states = sum(range(512, 1536 + 1, 128))
    assert scored_tokens(1, shape, "reencode") == num * (states + 9 * (12 + 7))


@pytest.mark.parametrize("num_iterations", [1, 2])
@pytest.mark.parametrize("epochs", [1, 1.5])
def test_a_run_takes_the_steps_of_its_plan(model, tokenizer, tmp_path, num_iterations, epochs):
    """Five rows are two rollout batches of two prompts; the fifth is left out."""
    settings = {
        "prompts_per_rollout_batch": 2,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2 if num_iterations == 1 else 3,
        "num_train_epochs": epochs,
        "num_iterations": num_iterations,
        "max_steps": -1,
        "max_completion_length": 4,
    }
    args = config(tmp_path, **settings)
    run = trainer(model, tokenizer, args, rows=[("1+1?", "2")] * 5)
    run.train()
    planned = PlanConfig(
        "out", num_generations=4, num_train_rows=5, num_processes=1, bf16=False, **settings
    )
    steps, batches = total_steps(planned, planned.batch_settings())
    assert run.state.global_step == steps
    assert batches == math.ceil(
        steps * settings["gradient_accumulation_steps"] / 2 / num_iterations
    )
