"""The rollouts of `tests/trainer/rollouts.py`, scored without a trainer."""

from functools import partial

from barl_trl.rewards import accuracy_reward
from barl_trl.steps import fixed_size_steps
from barl_trl.trainer.config import BARLConfig
from experiments.credit.batches import CreditTask, TokenizedProblem, scored_tokens

from ...trainer.rollouts import CASES, PROBLEMS, given_rollouts

SOLUTIONS = dict(PROBLEMS)
CUT_OFF = [1, 4, 7]
"""Those of the rollouts that have no end of their turn; the sixth one is empty."""


def some_cut_off(prompts, trainer):
    """A `rollout_func`: [`given_rollouts`], of which those in [`CUT_OFF`] lack their end."""
    output = given_rollouts()(prompts, trainer)
    for row in CUT_OFF:
        output["completion_ids"][row].pop()
    return output


def given_task(tokenizer):
    return CreditTask(
        tokenizer,
        accuracy_reward,
        partial(fixed_size_steps, step_size=8),
        end_ids=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        max_new_tokens=64,
        fields=BARLConfig(bf16=False, step_size=8, max_completion_length=64),
    )


def given_batch(model, tokenizer, arms, solutions=SOLUTIONS):
    problems = [
        TokenizedProblem(tokenizer.encode(prompt), solutions[prompt]) for prompt, *_ in CASES
    ]
    completions = [[*tokenizer.encode(text), tokenizer.eos_token_id] for _, text, _ in CASES]
    for row in CUT_OFF:
        completions[row].pop()
    task = given_task(tokenizer)
    return scored_tokens(model.eval(), task, problems, completions, group_size=4, arms=arms)
