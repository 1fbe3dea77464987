"""Positions that a model has learned hold rollouts with the questions for their answers."""

import re

import pytest
from datasets import Dataset

from barl_trl import BARLTrainer
from barl_trl.rewards import accuracy_reward
from barl_trl.synthetic.number import NumberGame

from ..plausibility.models import GPT2, make
from .by_hand import ELICITATION
from .playing import agent_tokenizer
from .rollouts import COMPLETIONS, PROBLEMS, config, given_rollouts, trainer


def gpt2(tokenizer, positions):
    sizes = {**GPT2, "n_positions": positions, "vocab_size": len(tokenizer)}
    return make("gpt2", **sizes, max_position_embeddings=positions)


def test_completions_that_leave_no_positions_are_refused_before_training(tokenizer, tmp_path):
    prompt = max(len(tokenizer.encode(prompt)) for prompt, _ in PROBLEMS)
    elicitation = len(tokenizer.encode(ELICITATION))
    answer = max(len(tokenizer.encode(f"{{{truth}}}.")) for _, truth in PROBLEMS)
    others = prompt + elicitation + answer
    args = config(tmp_path, max_completion_length=64)
    message = (
        f"max_completion_length must be at most 63, got 64: the model has {others + 63} positions, "
        f"of which the longest prompt ({prompt} tokens), elicitation ({elicitation}) and true "
        f"answer ({answer}) need {others}. Lower it, or shorten the prompts."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        trainer(gpt2(tokenizer, others + 63), tokenizer, args)
    trainer(gpt2(tokenizer, others + 64), tokenizer, args)
    trainer(gpt2(tokenizer, others + 63), tokenizer, config(tmp_path, credit="rloo"))


def test_a_batch_without_positions_of_a_stream_is_refused(tokenizer, tmp_path):
    rows = [{"prompt": prompt, "solution": solution} for prompt, solution in PROBLEMS]
    longest = max(len(tokenizer.encode(p + c)) for p in COMPLETIONS for c in COMPLETIONS[p])
    run = BARLTrainer(
        model=gpt2(tokenizer, longest + 8),
        reward_funcs=accuracy_reward,
        args=config(tmp_path, max_completion_length=48),
        train_dataset=Dataset.from_list(rows).to_iterable_dataset(),
        processing_class=tokenizer,
        rollout_func=given_rollouts(),
    )
    with pytest.raises(ValueError, match=r"rollouts must need at most the model's \d+ positions"):
        run.train()


def test_environments_whose_tools_trl_does_not_know_yet_are_no_mistake(tmp_path):
    tokenizer = agent_tokenizer()
    run = BARLTrainer(
        model=gpt2(tokenizer, 512),
        reward_funcs=accuracy_reward,
        args=config(tmp_path, max_completion_length=48),
        train_dataset=Dataset.from_list(NumberGame().inquiry.rows(4, seed=0)),
        processing_class=tokenizer,
        environment_factory=NumberGame,
    )
    assert run.scorer.elicitation.token_ids
