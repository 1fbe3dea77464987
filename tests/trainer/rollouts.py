"""Rollouts that are given instead of sampled, so that everything behind them can be computed by
hand.
"""

from collections import defaultdict
from dataclasses import fields

from datasets import Dataset

from barl_trl import BARLConfig, BARLTrainer
from barl_trl.rewards import accuracy_reward

PROBLEMS = [("1+1?", "2"), ("Half of one?", r"\frac{1}{2}")]
COMPLETIONS = {
    "1+1?": [
        r"One and one are two. \boxed{2}",
        r"I guess \boxed{3}",
        "no idea",
        r"\boxed{3}, or maybe after all it is rather \boxed{2.0}",
    ],
    "Half of one?": [r"\boxed{0.5}", "", r"It is a half: \boxed{\frac{1}{2}}", r"\boxed{7}"],
}
# The surface form that is scored is the most frequent one: "0.5" and "2.0" join the truth, which
# was seen more often.
HYPOTHESES = {"1+1?": ["2", "3"], "Half of one?": [r"\frac{1}{2}", "7"]}
OUTCOMES = {"1+1?": [1.0, 0.0, 0.0, 1.0], "Half of one?": [1.0, 0.0, 1.0, 0.0]}
MEMBERS = {"1+1?": [0, 1, None, 0], "Half of one?": [0, None, 0, 1]}
"""The hypothesis that each completion answers."""

CASES = [
    (prompt, completion, outcome)
    for prompt in COMPLETIONS
    for completion, outcome in zip(COMPLETIONS[prompt], OUTCOMES[prompt], strict=True)
]

ROWS = [{"prompt": prompt, "solution": solution} for prompt, solution in PROBLEMS for _ in range(4)]
"""The data set's row of each of these rollouts."""


FIELDS = {field.name for field in fields(BARLConfig)}
DEFAULTS = {
    **{"use_cpu": True, "bf16": False, "disable_tqdm": True, "logging_steps": 1, "max_steps": 1},
    **{"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 64},
    **{"step_size": 8, "save_strategy": "no", "shuffle_dataset": False},
}


def config(tmp_path, **kwargs):
    return BARLConfig(**{"output_dir": str(tmp_path)} | DEFAULTS | kwargs)


def apart(given):
    """The fields of a configuration, and the other arguments of a trainer."""
    of_config = {name: value for name, value in given.items() if name in FIELDS}
    return of_config, {name: value for name, value in given.items() if name not in FIELDS}


def given_rollouts(completions=COMPLETIONS, cut_off=()):
    """A `rollout_func` that hands out each prompt's completions in turn, also when a group is
    spread over processes. Those that are `cut_off` have no end of their turn.
    """
    turn = defaultdict(int)

    def rollout_func(prompts, trainer):
        tokenizer, world = trainer.processing_class, trainer.accelerator.num_processes
        start = trainer.accelerator.process_index * len(prompts)
        completion_ids = []
        for n, prompt in enumerate(prompts):
            texts = completions[prompt]
            k = (start + n) if world > 1 else turn[prompt]
            turn[prompt] += 1
            text, end_of_turn = texts[k % len(texts)], [tokenizer.eos_token_id]
            ids = tokenizer.encode(text) + end_of_turn * (text not in cut_off)
            completion_ids.append(ids or end_of_turn)
        return {
            "prompt_ids": [tokenizer.encode(prompt) for prompt in prompts],
            "completion_ids": completion_ids,
            "logprobs": None,
        }

    return rollout_func


def trainer(model, tokenizer, args, *, rows=PROBLEMS, cls=BARLTrainer, **kwargs):
    dataset = Dataset.from_dict({"prompt": [p for p, _ in rows], "solution": [s for _, s in rows]})
    defaults = {"reward_funcs": accuracy_reward, "rollout_func": given_rollouts()}
    given = {"model": model, "args": args, "train_dataset": dataset, "processing_class": tokenizer}
    return cls(**given | defaults | kwargs)


def task_function(row):
    """A function that the task gives, from one of a step and its hypotheses."""

    def function(hypotheses, steps, **columns):
        pairs = zip(hypotheses, steps, strict=True)
        return [[row(step, texts) for step in of_rollout] for texts, of_rollout in pairs]

    return function


def output_of(trainer, rows=ROWS):
    """What TRL gets for a rollout batch of these rows."""
    trainer.model.train()
    return trainer._generate_and_score_completions([dict(row) for row in rows])


def weights_of(barl_trainer, rows=ROWS):
    """Token weights of the given rollouts, in their order, without padding."""
    return weights_in(output_of(barl_trainer, rows))


def weights_in(output):
    lengths = output["completion_mask"].sum(1)
    return [row[:n].tolist() for row, n in zip(output["advantages"], lengths, strict=True)]
